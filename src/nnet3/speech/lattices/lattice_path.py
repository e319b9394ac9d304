"""Paths through a lattice of words, the best or any, with words, costs and transition-ids."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from nnet3.base.kaldi_io.fst import NOT_FINAL, Fst
from nnet3.base.kaldi_io.lattice import Lattice, Strings, no_strings, within_float32
from nnet3.errors import ArgumentError
from nnet3.speech.arrays.aliases import Doubles, Flags, Integers, Singles
from nnet3.speech.lattices.levels import longest_paths

_Steps = tuple[Any, ...]  # the steps before, and an arc; () at the start
_OVER = -1
#: Paths of a lattice, at most: so many take half a minute.
MOST_PATHS = 100_000


@dataclass(frozen=True, eq=False)
class LatticePath:
    """A path from the start: arcs, last state, and the `cost` by which it was chosen."""

    lattice: Lattice
    arcs: Integers
    end: int
    cost: float

    @property
    def words(self) -> Integers:
        """The path's words, (words,), without labels 0."""
        labels = self.lattice.fst.ilabel[self.arcs]
        return labels[labels > 0]

    @cached_property
    def transition_ids(self) -> Integers:
        """The transition-id of each row of scores, (rows,)."""
        ids, final_ids = self.lattice.transition_ids, self.lattice.final_transition_ids
        return np.append(ids[self.arcs].values, final_ids[np.array([self.end])].values)

    @property
    def graph_cost(self) -> float:
        return _sum(self.lattice.fst.cost[self.arcs], self.lattice.fst.final[self.end])

    @property
    def acoustic_cost(self) -> float:
        return _sum(self.lattice.acoustic_cost[self.arcs], self.lattice.final_acoustic_cost[self.end])

    def as_lattice(self) -> Lattice:
        """Returns the lattice of this path alone."""
        fst, ids, final_ids = self.lattice.fst, self.lattice.transition_ids, self.lattice.final_transition_ids
        count = len(self.arcs)
        final, acoustic = np.full((2, count + 1), NOT_FINAL, np.float32)
        final[count], acoustic[count] = fst.final[self.end], self.lattice.final_acoustic_cost[self.end]
        positions = np.arange(count)
        linear = Fst.from_arcs(0, final, positions, positions + 1, fst.ilabel[self.arcs], fst.cost[self.arcs])
        finals = Strings.joined([no_strings(count), final_ids[np.array([self.end])]])
        costs = self.lattice.acoustic_cost[self.arcs]
        return Lattice(linear, costs, acoustic, ids[self.arcs], finals, self.lattice.is_plain)

    def as_one_of_several(self) -> Lattice:
        """Returns the lattice of this path of a plain lattice between two arcs of nothing, the last one with the costs
        of the end, as OpenFst leaves several paths."""
        path = self.as_lattice()
        nothing = np.zeros(1, np.float32)
        label = np.concatenate([[0], path.fst.ilabel, [0]])
        cost = np.concatenate([nothing, path.fst.cost, path.fst.final[-1:]])
        acoustic = np.concatenate([nothing, path.acoustic_cost, path.final_acoustic_cost[-1:]])
        final = np.append(np.full(len(label), NOT_FINAL, np.float32), nothing)
        positions, one = np.arange(len(label)), no_strings(1)
        linear = Fst.from_arcs(0, final, positions, positions + 1, label, cost)
        strings = Strings.joined([one, path.transition_ids, one])
        return Lattice(linear, acoustic, final, strings, no_strings(len(final)), is_plain=True)


def _sum(costs: Singles, last: np.float32) -> float:
    """Returns the sum in float32, value by value, as Kaldi adds."""
    return float(np.add.accumulate(np.append(costs, last), dtype=np.float32)[-1])


def best_paths(
    lattice: Lattice,
    number: int,
    graph_scale: float = 1.0,
    acoustic_scale: float = 1.0,
    word_penalty: float = 0.0,
) -> list[LatticePath]:
    """Returns the paths of least cost, the best one first: scaled graph and acoustic cost, and a penalty per word.

    Raises ArgumentError for scaled costs beyond float32, and where there are more than MOST_PATHS paths to return.
    """
    fst = lattice.fst
    is_final = fst.final < np.inf
    final = np.full(fst.num_states, np.inf)
    with within_float32(f"{graph_scale:g} * graph cost + {acoustic_scale:g} * acoustic cost"):
        cost = graph_scale * fst.cost.astype(np.float64) + acoustic_scale * lattice.acoustic_cost
        final[is_final] = graph_scale * fst.final[is_final] + acoustic_scale * lattice.final_acoustic_cost[is_final]
    cost += word_penalty * (fst.ilabel > 0)
    if number > MOST_PATHS and (there_are := _num_paths(fst)) > MOST_PATHS:
        raise ArgumentError(f"it has {there_are:g} paths: ask for {MOST_PATHS} at most, got {number}")
    ahead = _least_ahead(fst, cost, final)
    found: list[LatticePath] = []
    heap: list[tuple[float, int, float, int, _Steps]] = []  # total cost, a number against ties, so far, state, steps
    if fst.num_states and np.isfinite(ahead[fst.start]):
        heap.append((float(ahead[fst.start]), 0, 0.0, fst.start, ()))
    pushed = 0
    while heap and len(found) < number:
        total, _, so_far, state, steps = heapq.heappop(heap)
        if state == _OVER:
            found.append(_path(lattice, steps, total))
            continue
        arcs = np.arange(fst.offsets[state], fst.offsets[state + 1])
        ways = [
            (so_far + float(cost[arc]) + float(ahead[fst.dst[arc]]), so_far + float(cost[arc]), int(fst.dst[arc]), arc)
            for arc in arcs[ahead[fst.dst[arcs]] < np.inf].tolist()
        ]
        if is_final[state]:
            ways.append((so_far + float(final[state]), so_far, _OVER, state))
        for estimate, cost_behind, target, step in ways:
            pushed += 1
            heapq.heappush(heap, (estimate, pushed, cost_behind, target, (steps, step)))
    return found


def random_paths(lattice: Lattice, number: int, rng: np.random.Generator) -> list[LatticePath]:
    """Returns `number` paths, none if no path ends: at each state all ways on are equally likely."""
    fst = lattice.fst
    final = np.where(fst.final < np.inf, 0.0, np.inf)
    leads_on = _least_ahead(fst, np.zeros(fst.num_arcs), final) < np.inf
    if not fst.num_states or not leads_on[fst.start]:
        return []
    return [_random_path(lattice, leads_on, rng) for _ in range(number)]


def _random_path(lattice: Lattice, leads_on: Flags, rng: np.random.Generator) -> LatticePath:
    fst, taken, state = lattice.fst, list[int](), lattice.fst.start
    while True:
        ways = np.arange(fst.offsets[state], fst.offsets[state + 1])
        ways = ways[leads_on[fst.dst[ways]]]
        drawn = int(rng.integers(len(ways) + (fst.final[state] < np.inf)))
        if drawn == len(ways):
            return LatticePath(lattice, np.array(taken, np.int64), state, 0.0)
        taken.append(int(ways[drawn]))
        state = int(fst.dst[taken[-1]])


def _least_ahead(fst: Fst, cost: Doubles, final: Doubles) -> Doubles:
    """Returns the cost of the best path from each state on, (states,), given costs of arcs and of ends."""
    ahead, depth = final.copy(), longest_paths(fst.num_states, fst.src, fst.dst)
    for level in range(int(depth.max(initial=0)) - 1, -1, -1):
        arcs = np.flatnonzero(depth[fst.src] == level)
        np.minimum.at(ahead, fst.src[arcs], cost[arcs] + ahead[fst.dst[arcs]])
    return ahead


def _num_paths(fst: Fst) -> float:
    count, depth = (fst.final < np.inf).astype(np.float64), longest_paths(fst.num_states, fst.src, fst.dst)
    with np.errstate(over="ignore"):
        for level in range(int(depth.max(initial=0)) - 1, -1, -1):
            arcs = np.flatnonzero(depth[fst.src] == level)
            np.add.at(count, fst.src[arcs], count[fst.dst[arcs]])
    return float(count[fst.start]) if fst.num_states else 0.0


def _path(lattice: Lattice, steps: _Steps, cost: float) -> LatticePath:
    """Makes a path of its steps: arcs, and at last the final state."""
    steps, end = steps
    arcs = []
    while steps:
        steps, arc = steps
        arcs.append(arc)
    return LatticePath(lattice, np.array(arcs[::-1], np.int64), end, cost)
