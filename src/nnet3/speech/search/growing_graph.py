"""GrowingGraph: a decoding graph whose states and arcs are made when a search first reaches them."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt

from nnet3.speech.arrays.aliases import Integers
from nnet3.speech.arrays.arcs import ArcsOfStates, arcs_between
from nnet3.speech.search.search_graph import columns_of_labels

_NOT_MADE = -1


class GrowingGraph(ABC):
    """States and arcs in the order in which searches come to them, with the interface of a SearchGraph.

    The arrays grow. Several searches, in several threads too, share a graph. `column_of_label`, `num_columns`: as in a
    SearchGraph.
    """

    step = 1  # of the numbers of a state's arcs

    def __init__(self, column_of_label: npt.ArrayLike, largest_label: int):
        self.lock = threading.Lock()
        self.column_of_label, self.num_columns = columns_of_labels(column_of_label, largest_label)
        self.start = 0
        self.num_states = self.num_arcs = 0
        self.final = np.zeros(0, np.float32)
        self._first, self._first_emitting, self._end = np.zeros((3, 0), np.int64)
        self.ilabel, self.olabel, self.dst = np.zeros((3, 0), np.int32)
        self.cost = np.zeros(0, np.float32)

    # ---- what a search asks ----

    def begin(self) -> GrowingGraph:
        """Returns the graph for a new search: itself."""
        return self

    def emitting_arcs(self, states: Integers) -> ArcsOfStates:
        """Returns the arcs of `states` that take a row."""
        self.expand(states)
        return arcs_between(self._first_emitting[states], self._end[states])

    def epsilon_arcs(self, states: Integers) -> ArcsOfStates:
        """Returns the arcs of `states` that take no row."""
        self.expand(states)
        return arcs_between(self._first[states], self._first_emitting[states])

    def columns(self) -> tuple[npt.NDArray[Any], ...]:
        """Returns the columns of a SearchGraph, valid under `lock`; a state without arcs made has first arc -1."""
        return self._first, self._end, self.ilabel, self.dst, self.cost, self.column_of_label

    # ---- states and arcs ----

    @abstractmethod
    def _make_arcs(self, states: Integers) -> None:
        """Makes the arcs of states, each state once, by `_keep_arcs`."""

    def _add_states(self, final: npt.NDArray[np.float32]) -> int:
        """Adds states with these final costs; returns the number of the first."""
        first, self.num_states = self.num_states, self.num_states + len(final)
        self.final = put(self.final, first, final)
        none = np.full(len(final), _NOT_MADE)
        self._first, self._first_emitting, self._end = (
            put(column, first, none) for column in (self._first, self._first_emitting, self._end)
        )
        return first

    def expand(self, states: Integers) -> None:
        """Makes the arcs of the given states unless already made."""
        if (self._first[states] >= 0).all():
            return
        with self.lock:
            states = np.unique(states[self._first[states] < 0])
            if len(states):
                self._make_arcs(states)

    def _keep_arcs(
        self,
        states: Integers,
        position: Integers,
        order: Integers,
        ilabel: Integers,
        olabel: Integers,
        cost: npt.NDArray[np.float32],
        dst: Integers,
    ) -> None:
        """Adds arcs, (arcs,), out of the states at `position` of `states`.

        In a state, arcs that take no row come first, then `order` counts.
        """
        sorted_by = np.lexsort((order, ilabel > 0, position))
        offsets = self.num_arcs + np.append(0, np.cumsum(np.bincount(position, minlength=len(states))))
        epsilons = np.bincount(position[ilabel == 0], minlength=len(states))
        first, self.num_arcs = self.num_arcs, int(offsets[-1])
        for name, values in (("ilabel", ilabel), ("olabel", olabel), ("cost", cost), ("dst", dst)):
            setattr(self, name, put(getattr(self, name), first, values[sorted_by]))
        self._end[states], self._first_emitting[states] = offsets[1:], offsets[:-1] + epsilons
        self._first[states] = offsets[:-1]  # the last one: another thread may look meanwhile


def put(values: npt.NDArray[Any], first: int, more: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Returns `values` with `more` from position `first` on, in a larger array where `more` does not fit."""
    end = first + len(more)
    if end > len(values):
        larger = np.zeros(max(2 * end, 1024), values.dtype)
        larger[:first] = values[:first]
        values = larger
    values[first:end] = more
    return values
