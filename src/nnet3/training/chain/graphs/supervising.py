"""Makes supervision from aligned phones: the phones allowed in each output frame, and the allowed sequences."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nnet3.base.index import entries_of_rows
from nnet3.base.kaldi_io.fst import Fst
from nnet3.base.options.chain import SupervisingOptions, Tolerances
from nnet3.errors import TrainingError
from nnet3.training.chain.graphs.expansion import transition_ids_of_phones
from nnet3.training.chain.graphs.fst_changes import numbered_breadth_first, with_labels
from nnet3.training.chain.graphs.openfst import without_epsilons
from nnet3.training.chain.graphs.phone_hmms import PhoneHmms
from nnet3.training.chain.graphs.timed_phones import TimedPhones
from nnet3.training.chain.supervision import Supervision

Integers = npt.NDArray[np.integer]
Flags = npt.NDArray[np.bool_]
_MOST_ELEMENTS = 1 << 28  # frames times phones of an utterance


def allowed_phones(phones: TimedPhones, tolerances: Tolerances) -> Flags:
    """Returns true where a phone is allowed at an output frame, (output frames, largest phone + 1)."""
    factor = tolerances.frame_subsampling_factor
    frames, columns = -(-phones.num_frames // factor), int(phones.phone.max()) + 1
    if frames * columns > _MOST_ELEMENTS:
        raise TrainingError(f"it is too long: {phones.num_frames} frames, phones up to {columns - 1}")
    first = -(-np.maximum(0, phones.begin - tolerances.left) // factor)
    behind = -(-np.minimum(phones.num_frames, phones.end + tolerances.right) // factor)
    changes = np.zeros((frames + 1, columns), np.int32)
    inside = first < behind
    np.add.at(changes, (first[inside], phones.phone[inside]), 1)
    np.add.at(changes, (behind[inside], phones.phone[inside]), -1)
    allowed = np.cumsum(changes[:-1], axis=0) > 0
    if not allowed.any(axis=1).all():
        raise TrainingError(f"no phone is allowed at output frame {int(np.argmin(allowed.any(axis=1)))}")
    return allowed


def limited_to_times(ids: Fst, allowed: Flags, phone_of_id: Integers) -> Fst | None:
    """Returns the sequences of transition-ids, one a frame, allowed by `allowed` (frames, phones); None without any.

    `ids` must have no epsilons. States are numbered breadth-first from the start, which sorts them by time.
    """
    arcs_at, last = _forwards(ids, allowed, phone_of_id[ids.ilabel])
    if len(last) == 0:
        return None
    arcs_at = _backwards(ids, arcs_at, last)
    frames, states = len(arcs_at), ids.num_states
    arc = np.concatenate(arcs_at)
    time = np.repeat(np.arange(frames), [len(arcs) for arcs in arcs_at])
    keys = np.concatenate([time * states + ids.src[arc], (time + 1) * states + ids.dst[arc]])
    pairs, number = np.unique(keys, return_inverse=True)  # of a time and a state
    ends = pairs >= frames * states
    final = np.full(len(pairs), np.inf, np.float32)
    final[ends] = ids.final[pairs[ends] % states]
    src, dst = np.split(number, 2)
    return numbered_breadth_first(Fst.from_arcs(0, final, src, dst, ids.ilabel[arc], ids.cost[arc]))


def _forwards(ids: Fst, allowed: Flags, phone: Integers) -> tuple[list[Integers], Integers]:
    """Returns the arcs reachable at each frame, and the final states reachable behind the last frame."""
    front: Integers = np.array([ids.start])
    arcs_at = []
    for row in allowed:
        arcs = entries_of_rows(ids.offsets, front)
        arcs_at.append(arcs[row[phone[arcs]]])
        front = np.unique(ids.dst[arcs_at[-1]])
    return arcs_at, front[ids.final[front] < np.inf]


def _backwards(ids: Fst, arcs_at: list[Integers], last: Integers) -> list[Integers]:
    """Keeps the arcs of each frame from which a path leads to one of the last states."""
    useful = np.zeros(ids.num_states, bool)
    kept = []
    for arcs in reversed(arcs_at):
        useful[last] = True
        kept.append(arcs[useful[ids.dst[arcs]]])
        useful[last] = False
        last = ids.src[kept[-1]]
    return kept[::-1]


def supervise(phones: TimedPhones, hmms: PhoneHmms, options: SupervisingOptions) -> Supervision:
    """Returns all ways to say the phones at about their times. TrainingError without any way."""
    hmms.entries(phones.phone)  # they must be known
    allowed = allowed_phones(phones, options.tolerances)
    ids = without_epsilons(transition_ids_of_phones(phones.fst, hmms, scale=0.0))
    limited = limited_to_times(ids, allowed, hmms.transitions.phone_of_id)
    if limited is None:
        raise TrainingError(f"its phones do not fit into {len(allowed)} output frames")
    if options.convert_to_pdfs:
        limited = with_labels(limited, hmms.transitions.pdf_of_id[limited.ilabel] + 1)
    label_dim = hmms.transitions.num_pdfs if options.convert_to_pdfs else hmms.transitions.num_ids
    return Supervision(1.0, 1, len(allowed), label_dim, (limited,))
