"""Cuts alignments into phones."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from nnet3.errors import NetworkError
from nnet3.model.hmm.transition_model import TransitionModel

ALIGNMENTS = ("transition-ids", "pdfs", "phones")


def phone_segments(alignment: ArrayLike, model: TransitionModel, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns the first frame of each phone, (segments,), and the phone, (segments,).

    alignment (frames,): transition-ids, pdfs or phones, as `kind` says. Transition-ids separate a phone from its own
    repetition; otherwise every run of frames of one phone is a segment. Raises NetworkError for numbers unknown to the
    model, and for a pdf shared by several phones.
    """
    ids = np.asarray(alignment)
    if ids.ndim != 1 or len(ids) == 0 or not np.issubdtype(ids.dtype, np.integer):
        raise NetworkError(f"an alignment must be integers (frames,), one at least, got {ids.dtype} {ids.shape}")
    if kind == "transition-ids":
        phones, ended = model.phone(ids), _ended(ids, model)
    elif kind in ALIGNMENTS:
        phones, ended = _phone_of_pdf(ids, model) if kind == "pdfs" else ids, np.zeros(len(ids), bool)
    else:
        raise NetworkError(f"the kind of an alignment must be one of {', '.join(ALIGNMENTS)}, got {kind!r}")
    unknown = ~np.isin(phones, model.phones)
    if unknown.any():
        raise NetworkError(f"frame {int(unknown.argmax())} of the alignment: there is no phone {phones[unknown][0]}")
    begins = np.append(True, (phones[1:] != phones[:-1]) | ended[:-1])
    first = np.flatnonzero(begins)
    return first, phones[first]


def hmm_state_visits(transition_ids: np.ndarray, model: TransitionModel) -> np.ndarray:
    """Returns the first frame of each visit of an HMM state in an alignment (frames,)."""
    loops, states = model.is_self_loop(transition_ids), model.transition_state(transition_ids)
    begins = ~loops[1:] if _loops_follow(loops, states) else ~loops[:-1]
    return np.flatnonzero(np.append(True, begins | (states[1:] != states[:-1])))


def _ended(ids: np.ndarray, model: TransitionModel) -> np.ndarray:
    """Marks the frames at which a phone has ended by its transitions, (frames,)."""
    loops, states, finals = model.is_self_loop(ids), model.transition_state(ids), model.is_final(ids)
    if not _loops_follow(loops, states):
        return finals
    left = np.maximum.accumulate(np.where(loops, -1, np.arange(len(ids))))  # the last transition that leaves a state
    goes_on = np.append(loops[1:] & (states[1:] == states[:-1]), False)
    return (left >= 0) & finals[left] & ~goes_on


def _loops_follow(loops: np.ndarray, states: np.ndarray) -> bool:
    """Returns True if self-loops stand behind the transition out of their state, False if before it.

    In Kaldi's graphs ("reordered") self-loops stand behind: the first self-loop next to another state tells, or without
    one the last frame. As in Kaldi, self-loops that could stand either way stand before.
    """
    telling = np.flatnonzero((states[1:] != states[:-1]) & (loops[1:] | loops[:-1]))
    return bool(loops[telling[0]] if len(telling) else loops[-1] and not loops[0])


def _phone_of_pdf(pdfs: np.ndarray, model: TransitionModel) -> np.ndarray:
    pairs = phones_of_pdfs(model)
    phone, counts = np.zeros(model.num_pdfs, np.int32), np.bincount(pairs[:, 1], minlength=model.num_pdfs)
    phone[pairs[:, 1]] = pairs[:, 0]
    if pdfs.min() < 0 or pdfs.max() >= model.num_pdfs:
        raise NetworkError(f"a pdf must be in 0 .. {model.num_pdfs - 1}, got {pdfs.min()} .. {pdfs.max()}")
    shared = counts[pdfs] != 1
    if shared.any():
        raise NetworkError(
            f"frame {int(shared.argmax())} of the alignment: pdf {pdfs[shared][0]} is of {counts[pdfs[shared][0]]} "
            "phones: give an alignment of transition-ids or phones"
        )
    return phone[pdfs]


def phones_of_pdfs(model: TransitionModel) -> np.ndarray:
    """Returns all pairs (phone, pdf) that the model has, sorted, (pairs, 2)."""
    return np.unique(np.concatenate([model.tuples[:, [0, 2]], model.tuples[:, [0, 3]]]), axis=0)
