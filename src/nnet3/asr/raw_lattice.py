"""Lattices as the search leaves them: arcs with a transition-id or none, a word or none, in the order of time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from nnet3.errors import ExecutionError

Integers = npt.NDArray[np.integer]
Doubles = npt.NDArray[np.float64]
_ROUNDING = 1e-6  # that costs may have along a path


@dataclass(frozen=True, eq=False)
class RawLattice:
    """States in topological order, of which 0 is the start, and arcs in the order of the states that they leave.

    row_of_state: (states,), the rows of scores that are over. depth: (states,), the longest chain of arcs without a
    transition-id that leads there within the row. src, dst, word, transition_id (0: none): (arcs,). graph_cost,
    acoustic_cost: (arcs,), final_cost: (states,), infinite where no path ends; float64. `has_ended`: the final costs
    are those of the graph; without it no path had come to an end of the graph, and all may end.
    """

    row_of_state: Integers
    depth: Integers
    src: Integers
    dst: Integers
    word: Integers
    transition_id: Integers
    graph_cost: Doubles
    acoustic_cost: Doubles
    final_cost: Doubles
    has_ended: bool = True

    @classmethod
    def sorted(
        cls,
        row_of_state: Integers,
        src: Integers,
        dst: Integers,
        word: Integers,
        transition_id: Integers,
        graph_cost: Doubles,
        acoustic_cost: Doubles,
        final_cost: Doubles,
        has_ended: bool = True,
    ) -> RawLattice:
        """Makes a lattice of states and arcs in any order; the first state of row 0 at depth 0 is the start."""
        within = row_of_state[src] == row_of_state[dst]
        depth = longest_paths(len(row_of_state), src[within], dst[within])
        order = np.lexsort((depth, row_of_state))
        number = np.empty(len(order), np.int64)
        number[order] = np.arange(len(order))
        arcs = np.argsort(number[src], kind="stable")
        return cls(
            row_of_state[order],
            depth[order],
            number[src[arcs]],
            number[dst[arcs]],
            word[arcs],
            transition_id[arcs],
            graph_cost[arcs],
            acoustic_cost[arcs],
            final_cost[order],
            has_ended,
        )

    @property
    def num_states(self) -> int:
        return len(self.row_of_state)

    @property
    def num_rows(self) -> int:
        return int(self.row_of_state.max(initial=0))

    @cached_property
    def cost(self) -> Doubles:
        """Graph and acoustic cost of each arc, (arcs,)."""
        return self.graph_cost + self.acoustic_cost

    @cached_property
    def offsets(self) -> Integers:
        """Arcs offsets[s] .. offsets[s + 1] - 1 leave state s, (states + 1,)."""
        return np.searchsorted(self.src, np.arange(self.num_states + 1))

    @cached_property
    def level(self) -> Integers:
        """(states,): no arc connects states of one level, and all lead to higher ones."""
        step = (np.diff(self.row_of_state) != 0) | (np.diff(self.depth) != 0)
        return np.append(0, np.cumsum(step))

    def arcs_by_source(self) -> Iterator[slice]:
        """The arcs that leave each level, from the first level to the last one."""
        edges = np.searchsorted(self.level[self.src], np.arange(self.level[-1] + 2))
        return (slice(first, last) for first, last in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))

    @cached_property
    def forward(self) -> Doubles:
        """The cost of the best path to each state, (states,)."""
        best = np.full(self.num_states, np.inf)
        best[0] = 0
        for arcs in self.arcs_by_source():
            np.minimum.at(best, self.dst[arcs], best[self.src[arcs]] + self.cost[arcs])
        return best

    @cached_property
    def backward(self) -> Doubles:
        """The cost of the best path from each state to an end, (states,)."""
        best = self.final_cost.copy()
        for arcs in reversed(list(self.arcs_by_source())):
            np.minimum.at(best, self.src[arcs], best[self.dst[arcs]] + self.cost[arcs])
        return best

    @property
    def best_cost(self) -> float:
        return float(self.backward[0])

    def within(self, beam: float) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_], Doubles]:
        """Marks states and arcs on paths that cost at most `beam` more than the best one; final costs of such paths."""
        most = self.best_cost + beam + _ROUNDING
        arcs = self.forward[self.src] + self.cost + self.backward[self.dst] <= most
        final = np.where(self.forward + self.final_cost <= most, self.final_cost, np.inf)
        return self.forward + self.backward <= most, arcs, final

    def pruned(self, beam: float) -> RawLattice:
        """Keeps the paths that cost at most `beam` more than the best one."""
        return self._part(*self.within(beam))

    def best_path(self) -> RawLattice:
        """Keeps one path of least cost."""
        states, arcs = np.zeros(self.num_states, bool), np.zeros(len(self.src), bool)
        through = self.cost + self.backward[self.dst]
        state = 0
        states[state] = True
        while self.final_cost[state] > self.backward[state]:
            first, end = self.offsets[state], self.offsets[state + 1]
            arc = int(first + np.argmin(through[first:end]))
            state = int(self.dst[arc])
            arcs[arc] = states[state] = True
        final = np.full(self.num_states, np.inf)
        final[state] = self.final_cost[state]
        return self._part(states, arcs, final)

    def _part(self, states: npt.NDArray[np.bool_], arcs: npt.NDArray[np.bool_], final: Doubles) -> RawLattice:
        """Keeps these states and arcs, with these final costs."""
        number = np.cumsum(states) - 1
        return RawLattice(
            self.row_of_state[states],
            self.depth[states],
            number[self.src[arcs]],
            number[self.dst[arcs]],
            self.word[arcs],
            self.transition_id[arcs],
            self.graph_cost[arcs],
            self.acoustic_cost[arcs],
            final[states],
            self.has_ended,
        )


def longest_paths(states: int, src: Integers, dst: Integers) -> Integers:
    """Returns the number of arcs of the longest path to each state, (states,). ExecutionError if there is a cycle."""
    depth = np.zeros(states, np.int64)
    for _ in range(states + 1):
        before = depth.copy()
        np.maximum.at(depth, dst, depth[src] + 1)
        if (depth == before).all():
            return depth
    raise ExecutionError("the lattice has a cycle: does the graph have one of arcs without labels and costs?")
