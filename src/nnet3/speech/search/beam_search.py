"""Beam search over a decoding graph, a row of scores at a time, with the lattice of all that was good."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nnet3.base.options.recognizer import SearchOptions
from nnet3.errors import ExecutionError, is_out_of_memory
from nnet3.speech.arrays.aliases import Doubles, Integers
from nnet3.speech.lattices.raw_lattice import RawLattice
from nnet3.speech.search.composition import Composition
from nnet3.speech.search.growing_graph import GrowingGraph
from nnet3.speech.search.search_graph import SearchGraph
from nnet3.speech.search.token_rows import Links, TokenRow, TokenRows

_NONE = -1
_MOST_LINKS = 1 << 24  # half a GiB
_NARROWER = 0.75
_NARROWEST_BEAM = 1.0
_MOST_ROUNDS = 2_000  # of epsilons


class BestPath(NamedTuple):
    """The best path to a point of the search.

    transition_ids, states: (rows,), the label of each row's arc and its source state. words, word_rows: (words,),
    output labels and the number of rows before each label.
    """

    cost: float
    transition_ids: Integers
    states: Integers
    words: Integers
    word_rows: Integers


class BeamSearch:
    """One search, from the start of the graph. `notices` tells what was narrowed because memory did not suffice."""

    def __init__(self, graph: SearchGraph | GrowingGraph, options: SearchOptions):
        self.graph, self.options = graph, options
        self.notices: list[str] = []
        none = np.zeros(0, np.int64)
        nothing = Links(none, none, none, np.zeros(0))
        state = np.array([graph.start], np.int64)
        row = TokenRow(state, np.zeros(1), np.full(1, _NONE), np.full(1, _NONE), nothing, nothing)
        scratch = graph.take_scratch()
        scratch[state] = 0
        scratch = self._follow_epsilons(row, options.beam, scratch)
        self._clean(scratch, row.state)
        self.tokens = TokenRows(graph, row)

    @property
    def num_rows(self) -> int:
        """The number of rows of scores taken so far."""
        return len(self.tokens)

    def advance(self, scores: npt.NDArray[np.float32]) -> None:
        """Takes rows of scores, (rows, columns), log-likelihoods of which nothing is scaled any more."""
        if scores.ndim != 2 or scores.shape[1] < self.graph.num_columns:
            raise ExecutionError(
                f"expected scores of at least {self.graph.num_columns} columns, got an array of shape {scores.shape}"
            )
        for row in scores:
            if self.num_rows % self.options.prune_interval == 0 and self.num_rows:
                self.prune()
            self._take(row)

    def _take(self, scores: npt.NDArray[np.float32]) -> None:
        while True:
            try:
                row = self._next(scores)
            except (MemoryError, RuntimeError) as error:
                if not is_out_of_memory(error) or not self._narrow():
                    raise
                continue
            self.tokens.append(row)
            while self.tokens.num_links > _MOST_LINKS:
                self.prune()
                if self.tokens.num_links > _MOST_LINKS // 2 and not self._narrow():
                    break
            return

    def _narrow(self) -> bool:
        """Narrows both beams; returns False if they are as narrow as can be."""
        beam, lattice_beam = (_NARROWER * each for each in (self.options.beam, self.options.lattice_beam))
        if beam < _NARROWEST_BEAM:
            return False
        self.options = replace(self.options, beam=beam, lattice_beam=lattice_beam)
        self.notices.append(f"the search needs too much memory: from row {self.num_rows} on the beam is {beam:.3g}")
        return True

    # ---- one row ----

    def _next(self, scores: npt.NDArray[np.float32]) -> TokenRow:
        graph, last = self.graph, self.tokens.last
        cutoff, beam = self._cutoff(last.cost)
        good = np.flatnonzero(last.cost <= cutoff)
        arc, position = graph.emitting_arcs(last.state[good])
        src = good[position]
        weight = graph.cost[arc].astype(np.float64) - scores[graph.column_of_label[graph.ilabel[arc]]]
        cost = last.cost[src] + weight
        best_token = int(np.argmin(last.cost)) if len(last.cost) else _NONE
        kept, cutoff = _within(cost, cost[src == best_token], beam)
        arc, src, weight, cost = arc[kept], src[kept], weight[kept], cost[kept]
        dst = graph.dst[arc]
        scratch = graph.take_scratch()
        state, token = _distinct(dst, scratch)
        best = np.full(len(state), np.inf)
        np.minimum.at(best, token, cost)
        winner = np.full(len(state), _NONE)
        wins = np.flatnonzero(cost == best[token])
        winner[token[wins][::-1]] = wins[::-1]  # the first of equals
        nothing = Links(src[:0], src[:0], arc[:0], weight[:0])
        row = TokenRow(state, best, src[winner], arc[winner], Links(src, token, arc, weight), nothing)
        scratch = self._follow_epsilons(row, cutoff, scratch)
        self._clean(scratch, row.state)
        return row

    def _cutoff(self, cost: Doubles) -> tuple[float, float]:
        """Returns the highest cost of tokens that go on, and the beam for the tokens of the next row."""
        options, tokens = self.options, len(cost)
        if tokens == 0:
            return np.inf, options.beam
        best = float(cost.min())
        if tokens > options.max_active:
            highest = float(np.partition(cost, options.max_active)[options.max_active])
            if highest < best + options.beam:
                return highest, highest - best + options.beam_delta
        if options.min_active > 0:
            enough = tokens > options.min_active
            least = float(np.partition(cost, options.min_active)[options.min_active]) if enough else np.inf
            if least > best + options.beam:
                return least, least - best + options.beam_delta
        return best + options.beam, options.beam

    def _follow_epsilons(self, row: TokenRow, cutoff: float, scratch: Integers) -> Integers:
        """Follows arcs without a row, as long as tokens get better, then lists all such arcs between tokens.

        Returns the scratch, a new array if the graph has grown.
        """
        graph = self.graph
        changed = np.arange(len(row.state))
        for _ in range(_MOST_ROUNDS):
            changed = changed[row.cost[changed] < cutoff][::-1]  # what came last is followed first
            arc, position = graph.epsilon_arcs(row.state[changed])
            if not len(arc):
                break
            scratch = graph.enlarged(scratch)
            src = changed[position]
            cost = row.cost[src] + graph.cost[arc]
            kept = np.flatnonzero(cost < cutoff)
            arc, src, cost = arc[kept], src[kept], cost[kept]
            dst = graph.dst[arc]
            new, _ = _distinct(dst[scratch[dst] < 0], scratch, len(row.state))
            row.state = np.concatenate([row.state, new])
            row.cost = np.concatenate([row.cost, np.full(len(new), np.inf)])
            row.back_src, row.back_arc = (
                np.concatenate([back, np.full(len(new), _NONE)]) for back in (row.back_src, row.back_arc)
            )
            token = scratch[dst]
            before = row.cost.copy()
            np.minimum.at(row.cost, token, cost)
            better = row.cost < before
            wins = np.flatnonzero((cost == row.cost[token]) & better[token])[::-1]
            row.back_src[token[wins]], row.back_arc[token[wins]] = src[wins], arc[wins]
            changed = np.flatnonzero(better)
        else:
            raise ExecutionError("the decoding graph has a cycle of epsilons with a negative cost")
        tokens = np.flatnonzero(row.cost < cutoff)
        arc, position = graph.epsilon_arcs(row.state[tokens])
        src, weight = tokens[position], graph.cost[arc].astype(np.float64)
        kept = np.flatnonzero(row.cost[src] + weight < cutoff)
        row.epsilons = Links(src[kept], scratch[graph.dst[arc[kept]]].astype(np.int64), arc[kept], weight[kept])
        return scratch

    def _clean(self, scratch: Integers, states: Integers) -> None:
        scratch[states] = _NONE
        self.graph.give_scratch_back(scratch)

    # ---- the lattice ----

    def prune(self) -> None:
        """Removes what is no part of a path within the lattice beam, as far back as the last rows changed anything."""
        self.tokens.prune(self.options.lattice_beam)

    def lattice(self, use_final: bool = True, first: int = 0) -> RawLattice | None:
        """Returns the lattice of all paths so far within the lattice beam; None if no path is left.

        With `use_final`: if any token can end, only paths that can end, with their final costs; otherwise all paths.
        With `first`: the lattice of the rows from `first` on; its start leads to the tokens of the first row.
        """
        self.prune()
        tokens = self.tokens
        if not len(tokens.last.state):
            return None
        final = self.graph.final[tokens.last.state].astype(np.float64)
        has_ended = use_final and bool((final < np.inf).any())
        raw = tokens.lattice(first, len(tokens), final if has_ended else np.zeros(len(final)), has_ended)
        return raw.pruned(self.options.lattice_beam)

    def forget(self, row: int, graph: SearchGraph | GrowingGraph) -> None:
        """Forgets the rows before `row`, but not the best paths to it, and goes on in `graph`.

        If `graph` is not the graph of the search, it is a composition of the same parts with fewer states.
        """
        self.tokens.forget(row)
        if graph is not self.graph and isinstance(graph, Composition):
            self.tokens.move(graph)
            self.graph = graph

    # ---- the best path ----

    @property
    def can_end(self) -> bool:
        """True if some token is in a final state."""
        return bool((self.graph.final[self.tokens.last.state] < np.inf).any())

    @property
    def relative_cost(self) -> float:
        """The further cost of the best path if it must end now; infinite if none can."""
        last = self.tokens.last
        if not len(last.cost):
            return np.inf
        return float((last.cost + self.graph.final[last.state]).min() - last.cost.min())

    def best_path(self, use_final: bool = False) -> BestPath | None:
        """Returns the best path so far; None if no path is left. With `use_final`: the best of those that can end, if
        any can."""
        cost = self._last_costs(use_final)
        return BestPath(float(cost.min()), *self.tokens.path_to(int(np.argmin(cost)))) if len(cost) else None

    def newest(self, first: int, use_final: bool = False) -> tuple[Integers, Integers] | None:
        """Returns the end of the best path so far: the transition-id of each row from `first` on, and its source state;
        None if no path is left. The time needed does not grow with the rows before `first`.
        """
        cost = self._last_costs(use_final)
        if not len(cost):
            return None
        steps = self.tokens.path_to(int(np.argmin(cost)), first)
        behind = len(steps.states) - max(self.num_rows - first, 0)
        return steps.transition_ids[behind:], steps.states[behind:]

    def _last_costs(self, use_final: bool) -> Doubles:
        """Returns the costs of the newest tokens; with `use_final` those of ending, if any can."""
        last = self.tokens.last
        final = self.graph.final[last.state]
        return last.cost + final if use_final and (final < np.inf).any() else last.cost


def _within(cost: Doubles, of_best: Doubles, beam: float) -> tuple[Integers, float]:
    """Returns the kept arcs, and the highest cost of tokens reached without a row.

    An arc is kept if it costs less than the best cost so far plus the beam; so far means the arcs before it and the
    arcs of the best token. Some kept arcs are therefore worse than the best arc by more than the beam. All kept arcs
    count for the limits of active tokens, as in Kaldi, which visits arcs in the same order.
    """
    first = of_best.min(initial=np.inf) + beam
    most = np.minimum.accumulate(np.append(first, cost + beam))
    return np.flatnonzero(cost < most[:-1]), float(most[-1])


def _distinct(states: Integers, scratch: Integers, first: int = 0) -> tuple[Integers, Integers]:
    """Returns the distinct states in the order of their first occurrence, and the number of each of `states` among the
    distinct ones, from `first` on.

    `scratch`, which has -1 for all the states, keeps these numbers.
    """
    positions = np.arange(len(states), dtype=scratch.dtype)
    scratch[states[::-1]] = positions[::-1]
    distinct = states[scratch[states] == positions].astype(np.int64)
    scratch[distinct] = np.arange(first, first + len(distinct))
    return distinct, scratch[states].astype(np.int64)
