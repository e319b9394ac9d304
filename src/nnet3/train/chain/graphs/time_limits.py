"""Which phones may be heard at which output frame, and all sequences of labels that keep to that."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nnet3.errors import TrainingError
from nnet3.kaldi_io import Fst
from nnet3.train.chain.graphs.fst_changes import numbered_breadth_first
from nnet3.train.chain.graphs.timed_phones import TimedPhones

Integers = npt.NDArray[np.integer]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Tolerances:
    """By how many input frames a phone may come earlier (left) or end later (right), and how many input frames make
    an output frame."""

    left: int = 5
    right: int = 5
    frame_subsampling_factor: int = 1

    def __post_init__(self) -> None:
        if self.frame_subsampling_factor < 1:
            raise TrainingError(f"the frame subsampling factor must be > 0, got {self.frame_subsampling_factor}")
        if min(self.left, self.right) < 0 or self.left + self.right + 1 < self.frame_subsampling_factor:
            raise TrainingError(
                f"tolerances must be >= 0, and together not less than the frame subsampling factor "
                f"{self.frame_subsampling_factor} - 1, got {self.left} and {self.right}"
            )


def allowed_phones(phones: TimedPhones, tolerances: Tolerances) -> Flags:
    """Whether each phone may be heard at each output frame, (output frames, largest phone + 1)."""
    factor = tolerances.frame_subsampling_factor
    frames = -(-phones.num_frames // factor)
    first = -(-np.maximum(0, phones.begin - tolerances.left) // factor)
    behind = -(-np.minimum(phones.num_frames, phones.end + tolerances.right) // factor)
    changes = np.zeros((frames + 1, int(phones.phone.max()) + 1), np.int32)
    inside = first < behind
    np.add.at(changes, (first[inside], phones.phone[inside]), 1)
    np.add.at(changes, (behind[inside], phones.phone[inside]), -1)
    allowed = np.cumsum(changes[:-1], axis=0) > 0
    if not allowed.any(axis=1).all():
        raise TrainingError(f"no phone is allowed at output frame {int(np.argmin(allowed.any(axis=1)))}")
    return allowed


def limited_to_times(ids: Fst, allowed: Flags, phone_of_id: Integers) -> Fst | None:
    """The sequences of transition-ids, one for each frame of `allowed` (frames, phones), that it allows; None if none.

    `ids` must have no epsilons. States are numbered breadth-first from the start, which sorts them by time.
    """
    frames = len(allowed)
    phone = phone_of_id[ids.ilabel]
    passes = np.zeros((frames, ids.num_arcs), bool)
    reached = np.zeros(ids.num_states, bool)
    reached[ids.start] = True
    for frame in range(frames):
        passes[frame] = reached[ids.src] & allowed[frame][phone]
        reached = np.zeros(ids.num_states, bool)
        reached[ids.dst[passes[frame]]] = True
    useful = reached & (ids.final < np.inf)
    if not useful.any():
        return None
    for frame in reversed(range(frames)):
        passes[frame] &= useful[ids.dst]
        useful = np.zeros(ids.num_states, bool)
        useful[ids.src[passes[frame]]] = True
    time, arc = np.nonzero(passes)
    keys = np.concatenate([time * ids.num_states + ids.src[arc], (time + 1) * ids.num_states + ids.dst[arc]])
    states, number = np.unique(keys, return_inverse=True)
    last = states >= frames * ids.num_states
    final = np.full(len(states), np.inf, np.float32)
    final[last] = ids.final[states[last] % ids.num_states]
    src, dst = np.split(number, 2)
    return numbered_breadth_first(Fst.from_arcs(0, final, src, dst, ids.ilabel[arc], ids.cost[arc]))
