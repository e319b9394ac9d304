"""Removes arcs without a transition-id (epsilons) from chunks of lattices, in OpenFst's order."""

from __future__ import annotations

from dataclasses import replace
from itertools import starmap

import numpy as np

from nnet3.base.kaldi_io.lattice import Lattice
from nnet3.base.kaldi_io.lattice_states import connected
from nnet3.training.discriminative.frame_arcs import FrameArcs, first_of_each
from nnet3.training.discriminative.supervision import acceptor

Costs = tuple[np.float32, np.float32]
Step = tuple[int, int, np.float32, np.float32]  # destination, transition-id, graph cost, acoustic cost


def without_epsilons(lattice: Lattice) -> Lattice:
    """Returns a plain lattice without epsilon arcs, connected. Arcs of `lattice` lead to higher states.

    A state gets the arcs of all states behind epsilon arcs. The arcs of a state are in reverse order; among arcs of one
    transition-id to one state the best stays. A state entered by epsilon arcs alone is removed.
    """
    fst = lattice.fst
    if fst.num_states == 0:
        return lattice
    arcs = FrameArcs.of(lattice)
    entered, leaps = np.zeros((2, fst.num_states), bool)
    entered[arcs.dst[arcs.id > 0]] = entered[fst.start] = True
    leaps[arcs.src[arcs.id == 0]] = True
    removal = _Removal(lattice, arcs, ~entered, leaps)
    for state in np.flatnonzero(leaps & entered)[::-1].tolist():
        removal.treat(state)
    made = removal.arcs()
    whole = acceptor(removal.final, *made, removal.final_acoustic)
    return connected(replace(whole, fst=replace(whole.fst, start=fst.start)))


def _reversed_without_doubles(arcs: FrameArcs) -> FrameArcs:
    """Returns arcs sorted by source in reverse order; of arcs with equal ends and ids the best, where the first is."""
    order = arcs.best_first(arcs.src, arcs.id, arcs.dst)
    position, found = order, arcs.part(order)
    is_first = first_of_each(found.src, found.id, found.dst)
    first_position = np.full(int(is_first.sum()), len(order))
    np.minimum.at(first_position, np.cumsum(is_first) - 1, position)
    found = found.part(is_first)
    return found.part(np.lexsort((-first_position, found.src)))


class _Removal:
    """The states of a chunk, from the last to the first: a state comes after its arcs' destinations."""

    def __init__(self, lattice: Lattice, arcs: FrameArcs, untreated: np.ndarray, leaps: np.ndarray):
        self._given, self._offsets, self._untreated = arcs, lattice.fst.offsets, untreated
        self.final, self.final_acoustic = lattice.fst.final.copy(), lattice.final_acoustic_cost.copy()
        self._simple = _reversed_without_doubles(arcs.part(~leaps[arcs.src] & ~untreated[arcs.src]))
        self._simple_offsets = np.searchsorted(self._simple.src, np.arange(lattice.fst.num_states + 1))
        self._done: dict[int, list[Step]] = {}

    def treat(self, start: int) -> None:
        """Gives a state the arcs and final costs of all states behind epsilon arcs."""
        distance = self._distances(start)
        waiting, seen = [start], set[int]()
        steps, positions = list[Step](), dict[tuple[int, int], int]()
        while waiting:
            state = waiting.pop()
            if state in seen:
                continue
            seen.add(state)
            graph, acoustic = distance[state]
            for dst, number, *costs in self._steps(state, start):
                if not number:
                    waiting += [] if dst in seen else [dst]
                    continue
                step = (dst, number, graph + costs[0], acoustic + costs[1])
                position = positions.setdefault((number, dst), len(steps))
                if position == len(steps):
                    steps.append(step)
                elif _better(step[2], step[3]) < _better(*steps[position][2:]):
                    steps[position] = step
        self._done[start] = steps[::-1]
        ends = [
            (graph + self.final[state], acoustic + self.final_acoustic[state])
            for state, (graph, acoustic) in distance.items()
            if self.final[state] < np.inf
        ]
        if ends:
            self.final[start], self.final_acoustic[start] = min(ends, key=lambda end: _better(*end))

    def _distances(self, start: int) -> dict[int, Costs]:
        """Returns the best cost of each state reached by epsilon arcs, the start first."""
        found, waiting = {start: (np.float32(0), np.float32(0))}, {start}
        while waiting:
            state = min(waiting)  # no arc leads to it from those that wait, or from those to come
            waiting.remove(state)
            for dst, number, *costs in self._steps(state, start):
                if not number:
                    cost = found[state][0] + costs[0], found[state][1] + costs[1]
                    waiting.add(dst)
                    if dst not in found or _better(*cost) < _better(*found[dst]):
                        found[dst] = cost
        return found

    def _steps(self, state: int, start: int) -> list[Step]:
        """Returns the arcs of a state: the given arcs for `start` and untreated states, else the new arcs."""
        if state in self._done:
            return self._done[state]
        as_given = state == start or self._untreated[state]
        arcs, offsets = (self._given, self._offsets) if as_given else (self._simple, self._simple_offsets)
        part = slice(offsets[state], offsets[state + 1])
        columns = (arcs.dst[part].tolist(), arcs.id[part].tolist(), arcs.graph[part], arcs.acoustic[part])
        return list(zip(*columns, strict=True))

    def arcs(self) -> FrameArcs:
        """Returns the arcs of all states, sorted by source."""
        rows = [(state, *step) for state, steps in self._done.items() for step in steps]
        src, dst, number, graph, acoustic = zip(*rows, strict=True) if rows else ((),) * 5
        integers = starmap(np.array, ((column, np.int64) for column in (src, dst, number)))
        costs = starmap(np.array, ((column, np.float32) for column in (graph, acoustic)))
        found = self._simple.joined(FrameArcs(*integers, *costs))
        return found.part(np.argsort(found.src, kind="stable"))


def _better(graph: np.float32, acoustic: np.float32) -> tuple[np.float32, np.float32]:
    """Orders costs: by their sum, then by the graph cost."""
    return graph + acoustic, graph
