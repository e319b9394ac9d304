"""Levels: best costs of paths through lattices, level by level."""

from __future__ import annotations

import abc
from collections.abc import Iterator
from functools import cached_property

import numpy as np

from nnet3.base.kaldi_io import fst_reach
from nnet3.base.native.addresses import address_of
from nnet3.base.native.library import library
from nnet3.errors import ExecutionError
from nnet3.speech.arrays.aliases import Doubles, Flags, Integers

_ROUNDING = 1e-6  # that costs may have along a path


class Levels(abc.ABC):
    """A lattice, its states sorted by level, its arcs by source state; arcs lead upwards, state 0 is the start.

    level, final_cost: (states,); src, dst, graph_cost, acoustic_cost: (arcs,).
    """

    level: Integers
    src: Integers
    dst: Integers
    graph_cost: Doubles
    acoustic_cost: Doubles

    @property
    @abc.abstractmethod
    def final_cost(self) -> Doubles:
        """The cost of ending in each state, (states,)."""

    @cached_property
    def cost(self) -> Doubles:
        """Graph and acoustic cost of each arc, (arcs,)."""
        return self.graph_cost + self.acoustic_cost

    @property
    def num_states(self) -> int:
        return len(self.level)

    @cached_property
    def offsets(self) -> Integers:
        """Arcs offsets[s] .. offsets[s + 1] - 1 leave state s, (states + 1,)."""
        return np.searchsorted(self.src, np.arange(self.num_states + 1))

    def arcs_by_source(self) -> Iterator[slice]:
        """Yields the arcs out of each level, from the first level to the last."""
        level = self.level[self.src]
        edges = np.append(np.flatnonzero(np.diff(level, prepend=-1)), len(level))
        return (slice(first, last) for first, last in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))

    @cached_property
    def _best(self) -> tuple[Doubles, Doubles]:
        forward, backward = np.full(self.num_states, np.inf), self.final_cost.copy()
        forward[:1] = 0
        if find_best_paths(self.src, self.dst, self.cost, forward, backward):
            return forward, backward
        levels = list(self.arcs_by_source())
        for arcs in levels:
            np.minimum.at(forward, self.dst[arcs], forward[self.src[arcs]] + self.cost[arcs])
        for arcs in reversed(levels):
            np.minimum.at(backward, self.src[arcs], backward[self.dst[arcs]] + self.cost[arcs])
        return forward, backward

    @property
    def forward(self) -> Doubles:
        """The cost of the best path to each state, (states,)."""
        return self._best[0]

    @property
    def backward(self) -> Doubles:
        """The cost of the best path from each state to an end, (states,)."""
        return self._best[1]

    @property
    def best_cost(self) -> float:
        return float(self.backward[0])

    @property
    def widest_beam(self) -> float:
        """The worst arc on a path costs more than the best path: no wider beam keeps more; 0 without arcs."""
        through = self.forward[self.src] + self.cost + self.backward[self.dst]
        return float(np.max(through[through < np.inf], initial=self.best_cost) - self.best_cost)

    def within(self, beam: float) -> tuple[Flags, Flags, Flags]:
        """Marks states, arcs and ends on paths at most `beam` worse than the best path."""
        most = min(self.best_cost + beam + _ROUNDING, np.finfo(np.float64).max)
        arcs = self.forward[self.src] + self.cost + self.backward[self.dst] <= most
        return self.forward + self.backward <= most, arcs, self.forward + self.final_cost <= most

    def on_best_path(self) -> tuple[Flags, Flags, Flags]:
        """Marks the states, the arcs and the end of one path of least cost."""
        states, arcs = np.zeros(self.num_states, bool), np.zeros(len(self.src), bool)
        through = self.cost + self.backward[self.dst]
        state = 0
        states[state] = True
        while self.final_cost[state] > self.backward[state]:
            first, end = self.offsets[state], self.offsets[state + 1]
            arc = int(first + np.argmin(through[first:end]))
            state = int(self.dst[arc])
            arcs[arc] = states[state] = True
        ends = np.zeros(self.num_states, bool)
        ends[state] = True
        return states, arcs, ends


def longest_paths(states: int, src: Integers, dst: Integers) -> Integers:
    """Returns the number of arcs of the longest path to each state, (states,). Raises ExecutionError for a cycle."""
    functions = library()
    if functions is None:
        depth = fst_reach.longest_paths(states, src, dst)
    else:
        columns = _whole(src), _whole(dst), np.empty(states, np.int64)
        if not functions.nnet3_longest_paths(states, len(src), *map(address_of, columns)):
            raise MemoryError
        depth = columns[-1]
    if (depth < 0).any():
        raise ExecutionError("the lattice has a cycle: does the graph have one of arcs without labels and costs?")
    return depth


def find_best_paths(src: Integers, dst: Integers, cost: Doubles, forward: Doubles, backward: Doubles) -> bool:
    """Lowers costs of beginning and of ending in states, (states,), to those of the best paths to and from them.

    The arcs, (arcs,), make no cycle. Does nothing and returns False without native code.
    """
    functions, columns = library(), (_whole(src), _whole(dst), np.ascontiguousarray(cost), forward, backward)
    if functions is None:
        return False
    if not functions.nnet3_best_paths(len(forward), len(src), *map(address_of, columns)):
        raise MemoryError
    return True


def _whole(numbers: Integers) -> Integers:
    return np.ascontiguousarray(numbers, np.int64)
