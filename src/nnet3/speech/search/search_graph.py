"""Decoding graphs in the order of the search: arcs without a row of scores, then arcs that take a row."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import numpy.typing as npt

from nnet3.base.kaldi_io.fst import Fst
from nnet3.errors import ModelFormatError
from nnet3.speech.arrays.aliases import Integers
from nnet3.speech.arrays.arcs import ArcsOfStates, arcs_between, arcs_leaving


class SearchGraph:
    """The states and arcs of a decoding graph; costs are negative logarithms.

    Arcs without an input label come first in their state. ilabel, olabel, dst: (arcs,) int32. cost: (arcs,) float32.
    final: (states,) float32, infinite where no path ends. column_of_label: (labels + 1,), the column of the scores that
    each input label takes; by default label l takes column l - 1. With `takes_over` the FST's own arrays may change:
    nobody else is to use them.
    """

    def __init__(self, fst: Fst, column_of_label: npt.ArrayLike | None = None, *, takes_over: bool = False):
        if fst.num_states == 0:
            raise ModelFormatError("the decoding graph is empty")
        fst = epsilons_first(fst, in_place=takes_over)
        self.start, self.final = fst.start, fst.final
        self.ilabel, self.olabel, self.cost, self.dst = fst.ilabel, fst.olabel, fst.cost, fst.dst
        self._first, self._epsilons = fst.offsets, _epsilons_of_states(fst)
        largest = int(self.ilabel.max(initial=0))
        columns = np.arange(-1, largest) if column_of_label is None else column_of_label
        self.column_of_label, self.num_columns = columns_of_labels(columns, largest)
        self.lock = nullcontext()

    @property
    def num_states(self) -> int:
        return len(self.final)

    @property
    def fst(self) -> Fst:
        """The graph as an FST; arcs of a state that take no row come first."""
        return Fst(self.start, self.final, self._first, self.ilabel, self.olabel, self.cost, self.dst)

    def begin(self) -> SearchGraph:
        """Returns the graph for a new search: itself."""
        return self

    def emitting_arcs(self, states: Integers) -> ArcsOfStates:
        """Returns the arcs of `states` that take a row."""
        return arcs_between(self._first[states] + self._epsilons[states], self._first[states + 1])

    def epsilon_arcs(self, states: Integers) -> ArcsOfStates:
        """Returns the arcs of `states` that take no row."""
        first = self._first[states]
        return arcs_between(first, first + self._epsilons[states])

    def expand(self, states: Integers) -> None:
        """Does nothing: all arcs exist."""

    def columns(self) -> tuple[npt.NDArray[Any], ...]:
        """Returns the first arc and the end of the arcs of each state, and ilabel, dst, cost and column_of_label."""
        return self._first, self._first[1:], self.ilabel, self.dst, self.cost, self.column_of_label


def columns_of_labels(column_of_label: npt.ArrayLike, largest: int) -> tuple[npt.NDArray[np.int64], int]:
    """Returns the column of scores read by each input label 1 .. largest, and the number of columns.

    Raises ModelFormatError for labels without a column.
    """
    columns = np.ascontiguousarray(column_of_label, np.int64)
    if largest >= len(columns):
        raise ModelFormatError(
            f"the decoding graph has input label {largest}, but the model has {len(columns) - 1} "
            "transition-ids: does the graph belong to this model?"
        )
    used = columns[1 : largest + 1]
    if used.min(initial=0) < 0:
        raise ModelFormatError(f"input label {1 + int(np.argmin(used))} takes column {used.min()} of the scores")
    return columns, int(used.max(initial=-1)) + 1


def epsilons_first(fst: Fst, in_place: bool = False) -> Fst:
    """Returns the FST with each state's arcs without a row first; the FST itself if they are first already.

    `in_place`: the arrays of the FST are changed if they can be.
    """
    is_epsilon = fst.ilabel == 0
    late = 1 + np.flatnonzero(is_epsilon[1:] & ~is_epsilon[:-1])
    states = _states_of_arcs(fst, late)
    states = states[fst.offsets[states] < late]
    states = states[np.diff(states, prepend=-1) > 0]
    if not len(states):
        return fst
    arc, place = arcs_leaving(fst.offsets, states)
    order = arc[np.lexsort((arc, ~is_epsilon[arc], place))]
    can_change = in_place and all(each.flags.writeable for each in (fst.ilabel, fst.olabel, fst.cost, fst.dst))
    if not can_change:
        ilabel, olabel, cost, dst = fst.ilabel.copy(), fst.olabel.copy(), fst.cost.copy(), fst.dst.copy()
        fst = Fst(fst.start, fst.final, fst.offsets, ilabel, olabel, cost, dst)
    columns = {id(column): column for column in (fst.ilabel, fst.olabel, fst.cost, fst.dst)}  # labels may be one array
    for column in columns.values():
        column[arc] = column[order]
    return fst


def _states_of_arcs(fst: Fst, arcs: Integers) -> Integers:
    """Returns the state that each arc leaves."""
    return np.searchsorted(fst.offsets, arcs, side="right") - 1


def _epsilons_of_states(fst: Fst) -> Integers:
    """Returns the number of each state's arcs without a row, (states,), in as few bytes as hold them."""
    counts = np.bincount(_states_of_arcs(fst, np.flatnonzero(fst.ilabel == 0)), minlength=fst.num_states)
    return counts.astype(np.min_scalar_type(counts.max()))
