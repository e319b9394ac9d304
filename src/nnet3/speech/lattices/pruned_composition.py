"""Composes lattices with word acceptors, best paths first, and makes no bad paths (facts: rescoring.md, 3)."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, compress
from typing import NamedTuple

import numpy as np

from nnet3.base.kaldi_io.lattice import Lattice
from nnet3.base.kaldi_io.lattice_states import connected
from nnet3.base.options.rescoring import ComposeOptions
from nnet3.speech.language_models.word_acceptor import WordAcceptor
from nnet3.speech.lattices.lattice_composition import composed_in_turn
from nnet3.speech.lattices.lattice_states import sorted_upwards
from nnet3.speech.lattices.native_composition import ComposedArcs, NativeComposition

_END = -1  # in the place of an arc
_NONE = -1
_FIRST_ARCS = 100
_DIVE = -1000.0  # of a state's cost per level until a complete path is there
_INF = math.inf


class _WaysOn(NamedTuple):
    """Ways on from the states of a lattice whose arcs lead upwards, the best first.

    best: (states,), the cost of the best path to an end. Ways offsets[s] to offsets[s + 1] - 1 leave state s: `arc`, or
    -1 for the end; `excess`, by how much the best path with this way is worse than the best path. Costs are rounded to
    float32.
    """

    best: list[float]
    offsets: list[int]
    arc: list[int]
    excess: list[float]


def composed_pruned(
    lattice: Lattice, acceptor: WordAcceptor, options: ComposeOptions, added: Sequence[WordAcceptor] = ()
) -> Lattice:
    """Returns the good paths of a lattice with the costs of a language model added to its graph costs, maybe none.

    Before, all paths get the costs of the models `added`, one model after the other. Equal words may be on several
    paths. Raises ModelFormatError for a lattice with a cycle.
    """
    lattice = sorted_upwards(connected(lattice))
    if not lattice.fst.num_states:
        return lattice
    native = NativeComposition.of(added, acceptor, options)
    made = None if native is None else native.arcs(lattice)
    if made is None:
        lattice = sorted_upwards(composed_in_turn(lattice, added))
        if not lattice.fst.num_states:
            return lattice
        made = _Search(lattice, _ahead_of(lattice), acceptor, options).result()
    return sorted_upwards(made.of(lattice))


def _ahead_of(lattice: Lattice) -> _WaysOn:
    """Returns the ways on from the states of a lattice whose arcs lead upwards."""
    fst = lattice.fst
    end_costs = np.full(fst.num_states, np.inf)
    is_end = fst.final < np.inf
    end_costs[is_end] = fst.final[is_end].astype(np.float64) + lattice.final_acoustic_cost[is_end]
    costs = (fst.cost.astype(np.float64) + lattice.acoustic_cost).tolist()
    first_arc, dst, ends = (each.tolist() for each in (fst.offsets, fst.dst, end_costs))
    best, ways = [_INF] * fst.num_states, [list[tuple[float, int]]()] * fst.num_states
    for state in range(fst.num_states - 1, -1, -1):
        arcs = range(first_arc[state], first_arc[state + 1])
        found = [(_single(best[dst[arc]] + costs[arc]), arc) for arc in arcs]
        found += [(_single(ends[state]), _END)] if ends[state] < _INF else []
        ways[state] = sorted(found)
        best[state] = ways[state][0][0] if found else _INF
    offsets = [0, *accumulate(map(len, ways))]
    excess = [_single(value - own) for own, each in zip(best, ways, strict=True) for value, _ in each]
    return _WaysOn(best, offsets, [way for each in ways for _, way in each], excess)


@dataclass(slots=True)
class _State:
    """A pair of states: the lattice's and the acceptor's, and what is known of paths through it.

    forward: the cost of the best path to it. backward: that of the best made path to an end. correction: how much worse
    the acceptor makes the rest than the lattice says, as far as known. way: the next way on, and its excess.
    """

    state: int
    history: int
    depth: int
    forward: float
    correction: float
    way: int
    backward: float = _INF
    excess: float = 0.0
    before: int = _NONE
    final: float = _INF  # graph cost
    final_cost: float = _INF
    arcs: list[tuple[int, float, float, int]] = field(default_factory=list)  # dst, cost, graph cost, arc


class _Search:
    """The composition while it grows."""

    def __init__(self, lattice: Lattice, ahead: _WaysOn, acceptor: WordAcceptor, options: ComposeOptions):
        self._ahead, self._acceptor, self._options, fst = ahead, acceptor, options, lattice.fst
        self._label, self._dst, self._graph = fst.ilabel.tolist(), fst.dst.tolist(), fst.cost.tolist()
        self._acoustic, self._final = lattice.acoustic_cost.tolist(), fst.final.tolist()
        self._final_acoustic = lattice.final_acoustic_cost.tolist()
        self._states = [_State(0, 0, 0, 0.0, 0.0, self._ahead.offsets[0])]
        self._number: dict[tuple[int, int], int] = {(0, 0): 0}
        self._queue: list[tuple[float, int]] = []
        self._best, self._cutoff, self._penalty, self._num_arcs = _INF, _INF, _DIVE, 0
        self._grow()

    def _grow(self) -> None:
        options = self._options
        while self._best == _INF or self._num_arcs < options.max_arcs:
            self._estimate()
            limit = _FIRST_ARCS
            if self._num_arcs:
                grown = int(np.float32(self._num_arcs) * np.float32(options.growth_ratio))
                limit = max(self._num_arcs + 1, grown)
            if self._best < _INF:
                limit = min(limit, options.max_arcs)
            while self._num_arcs < limit and self._queue:
                self._expand(heapq.heappop(self._queue)[1])
            if not self._queue:
                return

    def _expected(self, state: _State) -> float:
        """Returns the cost of the best path through a state by its next way, beyond the best path of the lattice."""
        best = self._ahead.best
        return _single(state.forward + best[state.state] + state.correction + state.excess - best[0])

    def _wait(self, number: int) -> None:
        """Puts a state into the queue unless its expected cost is too high."""
        expected = self._expected(self._states[number])
        if expected < self._cutoff:
            heapq.heappush(self._queue, (expected, number))

    def _expand(self, number: int) -> None:
        """Takes the next way on from a state."""
        state, ahead = self._states[number], self._ahead
        way = ahead.arc[state.way]
        state.way += 1
        is_over = state.way == ahead.offsets[state.state + 1]
        state.excess = _INF if is_over else ahead.excess[state.way]
        self._wait(number)
        if way == _END:
            self._end(state)
        else:
            self._follow(number, way)

    def _end(self, state: _State) -> None:
        cost = self._acceptor.final_cost(state.history)
        if cost == _INF:
            return
        state.final = _single(self._final[state.state] + cost)
        state.final_cost = state.final + self._final_acoustic[state.state]
        state.backward = min(state.backward, state.final_cost)
        if self._penalty:
            self._penalty = 0.0
            self._estimate()

    def _follow(self, number: int, arc: int) -> None:
        state, label = self._states[number], self._label[arc]
        found = self._acceptor.arc(state.history, label) if label else (state.history, 0.0)
        if found is None:
            return
        history, cost = found
        key = self._dst[arc], history
        target = self._number.setdefault(key, len(self._states))
        if target == len(self._states):
            depth = state.depth + 1
            forward = state.forward + (self._graph[arc] + self._acoustic[arc]) + cost
            correction = _single(state.correction + depth * self._penalty)
            self._states.append(_State(*key, depth, forward, correction, self._ahead.offsets[key[0]]))
            self._wait(target)
        graph = _single(self._graph[arc] + cost)
        state.arcs.append((target, graph + self._acoustic[arc], graph, arc))
        self._num_arcs += 1

    def _order(self) -> list[int]:
        """Returns the states in an order in which arcs go upwards."""
        return sorted(range(len(self._states)), key=lambda number: (self._states[number].state, number))

    def _estimate(self) -> None:
        """Computes all that is known of paths from the arcs made, and fills the queue anew."""
        states, order = self._states, self._order()
        for state in states[1:]:
            state.forward, state.before = _INF, _NONE
        for number in order:
            state = states[number]
            for target, cost, _, _ in state.arcs:
                there, forward = states[target], state.forward + cost
                if forward < there.forward:
                    there.forward, there.before, there.depth = forward, number, state.depth + 1
        for number in reversed(order):
            state = states[number]
            state.backward = state.final_cost
            for target, cost, _, _ in state.arcs:
                state.backward = min(state.backward, cost + states[target].backward)
        self._best, self._queue = states[0].backward, []
        self._cutoff = _single(self._best - self._ahead.best[0] + self._options.lattice_compose_beam)
        for number in order:
            state = states[number]
            state.correction = _single(state.backward - self._ahead.best[state.state] + state.depth * self._penalty)
            if state.correction == _INF:
                before = 0.0 if number == 0 else states[state.before].correction + self._penalty
                state.correction = _single(before)
            expected = self._expected(state)
            if expected < self._cutoff:
                self._queue.append((expected, number))
        heapq.heapify(self._queue)

    def result(self) -> ComposedArcs:
        """Returns all states and arcs on complete paths, maybe none."""
        states = self._states
        is_kept = [False] * len(states)
        for each in reversed(self._order()):
            is_kept[each] = states[each].final < _INF or any(is_kept[arc[0]] for arc in states[each].arcs)
        number = {each: position for position, each in enumerate(compress(range(len(states)), is_kept))}
        kept = [states[each] for each in number]
        leaving = ((src, *arc) for src, state in enumerate(kept) for arc in state.arcs)
        rows = [(src, number[dst], graph, arc) for src, dst, _, graph, arc in leaving if is_kept[dst]]
        of_arcs = map(np.array, zip(*rows, strict=True)) if rows else np.zeros((4, 0), np.int64)
        final = np.array([state.final for state in kept], np.float64)
        return ComposedArcs(np.array([state.state for state in kept], np.int64), final, *of_arcs)


def _single(value: float) -> float:
    """Rounds to float32."""
    return float(np.float32(value))
