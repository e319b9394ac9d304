"""Changes FSTs by array operations alone: trims, renumbers, splits states."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nnet3.base.index import entries_of_rows
from nnet3.base.kaldi_io.fst import Fst
from nnet3.base.kaldi_io.fst_reach import accessible, breadth_first, coaccessible

Integers = npt.NDArray[np.integer]


def with_states(fst: Fst, states: Integers) -> Fst:
    """Keeps only `states` (the start among them, unless empty), numbered in the given order, and the arcs between."""
    number = np.full(fst.num_states, -1, np.int64)
    number[states] = np.arange(len(states))
    arcs = np.flatnonzero((number[fst.src] >= 0) & (number[fst.dst] >= 0))
    olabel = None if fst.olabel is fst.ilabel else fst.olabel[arcs]
    src, dst = number[fst.src[arcs]], number[fst.dst[arcs]]
    return Fst.from_arcs(int(number[fst.start]), fst.final[states], src, dst, fst.ilabel[arcs], fst.cost[arcs], olabel)


def trimmed(fst: Fst) -> Fst:
    """Removes states that are on no path from the start to an end."""
    kept = accessible(fst) & coaccessible(fst)
    return fst if kept.all() else with_states(fst, np.flatnonzero(kept))


def numbered_breadth_first(fst: Fst) -> Fst:
    """Numbers the states reachable from the start breadth-first; the start becomes 0, arcs keep their order."""
    return with_states(fst, breadth_first(fst, np.array([fst.start]))) if fst.num_states else fst


def with_labels(fst: Fst, labels: npt.ArrayLike) -> Fst:
    """Returns an acceptor of these labels, (arcs,)."""
    array = np.asarray(labels, np.int32)
    return Fst(fst.start, fst.final, fst.offsets, array, array, fst.cost, fst.dst)


def sorted_by_label(fst: Fst) -> Fst:
    """Sorts each state's arcs by input label; arcs of equal labels keep their order."""
    order = np.lexsort((fst.ilabel, fst.src))
    olabel = None if fst.olabel is fst.ilabel else fst.olabel[order]
    arrays = (fst.src[order], fst.dst[order], fst.ilabel[order], fst.cost[order])
    return Fst.from_arcs(fst.start, fst.final, *arrays, olabel)


class Split(NamedTuple):
    """An FST whose states were split, with the origin of each new state and arc."""

    fst: Fst
    class_of_state: Integers
    old_state: Integers
    old_arc: Integers


def split_states(fst: Fst, class_of_arc: Integers) -> Split:
    """Copies states so that all arcs into a state are of one class (the start counts as entered by class 0).

    Arcs keep their order within a state.
    """
    base = int(class_of_arc.max(initial=0)) + 1
    keys = np.append(fst.dst.astype(np.int64) * base + class_of_arc, fst.start * base)
    unique, number = np.unique(keys, return_inverse=True)
    old_state, class_of_state = np.divmod(unique, base)
    arcs = entries_of_rows(fst.offsets, old_state)
    src = np.repeat(np.arange(len(unique)), np.diff(fst.offsets)[old_state])
    labels, costs = fst.ilabel[arcs], fst.cost[arcs]
    new = Fst.from_arcs(int(number[-1]), fst.final[old_state], src, number[:-1][arcs], labels, costs)
    return Split(new, class_of_state, old_state, arcs)
