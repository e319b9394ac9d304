"""From phones to phones in context: every phone with its neighbours, as a decision tree looks at them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nnet3.chain.graphs.fst_changes import split_states, with_labels
from nnet3.kaldi_io import Fst


def windows_of_phones(phones: Fst, width: int, central: int) -> tuple[Fst, npt.NDArray[np.int32]]:
    """Paths of phones as paths of windows: label k + 1 is row k of the windows, (windows, width) int32.

    A window has the phone it is about at position `central`, and 0 where there is no phone. `phones` must have no
    epsilons. With right context, a window is known only when the phones behind have come: then paths begin with
    epsilons and go on behind the end.
    """
    fst = _with_end(phones, width - 1 - central)
    history = np.zeros((fst.num_states, 0), np.int32)  # the last phones before each state, the latest last
    for size in range(width - 1):
        split = split_states(fst, history[fst.src, 0] if size else fst.ilabel)
        fst = split.fst
        history = np.column_stack([split.class_of_state.astype(np.int32), history[split.old_state]])
    windows = np.column_stack([history[fst.src], fst.ilabel])  # (arcs, width)
    known = windows[:, central] != 0
    distinct, number = np.unique(windows[known], axis=0, return_inverse=True)
    labels = np.zeros(fst.num_arcs, np.int32)
    labels[known] = number.reshape(-1) + 1
    return with_labels(fst, labels), distinct


def _with_end(phones: Fst, count: int) -> Fst:
    """With `count` arcs of label 0 behind every final state, which stand for what comes after the last phone."""
    if count == 0:
        return phones
    states = phones.num_states
    final = np.full(states + count, np.inf, np.float32)
    final[-1] = 0
    ends = np.flatnonzero(phones.final < np.inf)
    behind = np.arange(states, states + count)
    return Fst.from_arcs(
        phones.start,
        final,
        np.concatenate([phones.src, ends, behind[:-1]]),
        np.concatenate([phones.dst, np.full(len(ends), states), behind[1:]]),
        np.concatenate([phones.ilabel, np.zeros(len(ends) + count - 1, np.int32)]),
        np.concatenate([phones.cost, phones.final[ends], np.zeros(count - 1, np.float32)]),
    )
