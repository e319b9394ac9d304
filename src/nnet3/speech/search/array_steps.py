"""The steps of a search with NumPy: where there is no native code, and to check native code against."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nnet3.errors import ExecutionError
from nnet3.speech.arrays.aliases import Doubles, Integers
from nnet3.speech.search.growing_graph import GrowingGraph
from nnet3.speech.search.search_graph import SearchGraph
from nnet3.speech.search.tokens import ENDLESS, MOST_ROUNDS, NONE, PRUNE_SCALE, KeptLinks, Links, TokenRow


class ArraySteps:
    """TokenSteps in NumPy. Arcs are visited in the order of TokenSteps; of equal costs the first counts."""

    def first(self, graph: SearchGraph | GrowingGraph, beam: float) -> TokenRow:
        none = np.zeros(0, np.int64)
        nothing, start = Links(none, none, none, np.zeros(0)), np.array([graph.start], np.int64)
        row = TokenRow(start, np.zeros(1), np.full(1, NONE), np.full(1, NONE), np.zeros(1, bool), nothing, nothing)
        _follow_epsilons(graph, row, beam)
        return row

    def next(
        self,
        graph: SearchGraph | GrowingGraph,
        last: TokenRow,
        scores: npt.NDArray[np.float32],
        cutoff: float,
        beam: float,
        buckets: int = 0,
    ) -> TokenRow:
        order = _in_buckets(last.state, buckets) if buckets else np.arange(len(last.state))
        good = order[last.cost[order] <= cutoff]
        arc, position = graph.emitting_arcs(last.state[good])
        src = good[position]
        weight = graph.cost[arc].astype(np.float64) - scores[graph.column_of_label[graph.ilabel[arc]]]
        cost = last.cost[src] + weight
        best_token = int(good[np.argmin(last.cost[good])]) if len(good) else NONE
        most = np.append(cost[src == best_token].min(initial=np.inf) + beam, cost + beam)
        most = np.minimum.accumulate(most)
        kept = np.flatnonzero(cost < most[:-1])
        arc, src, weight, cost = arc[kept], src[kept], weight[kept], cost[kept]
        state, token = _distinct(graph.dst[arc].astype(np.int64))
        best = np.full(len(state), np.inf)
        np.minimum.at(best, token, cost)
        winner = np.full(len(state), NONE)
        wins = np.flatnonzero(cost == best[token])
        winner[token[wins][::-1]] = wins[::-1]
        nothing = Links(src[:0], src[:0], arc[:0], weight[:0])
        within = np.zeros(len(state), bool)
        row = TokenRow(state, best, src[winner], arc[winner], within, Links(src, token, arc, weight), nothing)
        _follow_epsilons(graph, row, float(most[-1]))
        return row

    def kept_links(self, row: TokenRow, following: TokenRow, beam: float) -> KeptLinks:
        links = following.emitting
        through = following.excess[links.dst] + _excess(links, row.cost, following.cost)
        emitting = through <= beam
        outward = np.full(len(row.state), np.inf)
        np.minimum.at(outward, links.src[emitting], np.maximum(through[emitting], 0))
        epsilons, last, has_changed = np.ones(len(row.epsilons.arc), bool), row.excess, False
        while True:
            excess, epsilons = _with_epsilons(row, outward, last, epsilons, beam)
            with np.errstate(invalid="ignore"):
                again = bool((np.abs(excess - last) > PRUNE_SCALE * beam).any())
            if not again:
                return KeptLinks(emitting, epsilons, excess, has_changed)
            last, has_changed = excess, True


def _follow_epsilons(graph: SearchGraph | GrowingGraph, row: TokenRow, cutoff: float) -> None:
    changed = np.arange(len(row.state))
    for _ in range(MOST_ROUNDS):
        changed = changed[row.cost[changed] < cutoff][::-1]  # what came last is followed first
        arc, position = graph.epsilon_arcs(row.state[changed])
        if not len(arc):
            break
        src = changed[position]
        cost = row.cost[src] + graph.cost[arc]
        kept = np.flatnonzero(cost < cutoff)
        arc, src, cost = arc[kept], src[kept], cost[kept]
        row.state, token = _distinct(np.append(row.state, graph.dst[arc]))
        token, new = token[-len(arc) :] if len(arc) else token[:0], len(row.state) - len(row.cost)
        row.cost = np.append(row.cost, np.full(new, np.inf))
        row.back_src, row.back_arc = (np.append(back, np.full(new, NONE)) for back in (row.back_src, row.back_arc))
        row.within = np.append(row.within, np.zeros(new, bool))
        before = row.cost.copy()
        np.minimum.at(row.cost, token, cost)
        better = row.cost < before
        wins = np.flatnonzero((cost == row.cost[token]) & better[token])[::-1]
        row.back_src[token[wins]], row.back_arc[token[wins]] = src[wins], arc[wins]
        row.within[better] = True
        changed = np.flatnonzero(better)
    else:
        raise ExecutionError(ENDLESS)
    tokens = np.flatnonzero(row.cost < cutoff)
    arc, position = graph.epsilon_arcs(row.state[tokens])
    src, weight = tokens[position], graph.cost[arc].astype(np.float64)
    kept = np.flatnonzero(row.cost[src] + weight < cutoff)
    src, arc, weight = src[kept], arc[kept], weight[kept]
    token = _distinct(np.append(row.state, graph.dst[arc]))[1][len(row.state) :]
    row.epsilons = Links(src, token, arc, weight)


def _in_buckets(states: Integers, buckets: int) -> Integers:
    """Returns the order of tokens in Kaldi's hash list: those of a bucket stand where the first of them stood."""
    _, first, which = np.unique(states % buckets, return_index=True, return_inverse=True)
    return np.argsort(first[which], kind="stable")


def _distinct(states: Integers) -> tuple[Integers, Integers]:
    """Returns the distinct states, in order of first occurrence, and the number of each of `states` there, (n,)."""
    _, first, which = np.unique(states, return_index=True, return_inverse=True)
    order = np.argsort(first)
    return states[first[order]], np.argsort(order)[which]


def _excess(links: Links, cost_before: Doubles, cost: Doubles) -> Doubles:
    """Returns the cost of the best path through each link beyond the cost of the best path to the link's `dst`."""
    return cost_before[links.src] + links.cost - cost[links.dst]


def _with_epsilons(
    row: TokenRow, outward: Doubles, last: Doubles, epsilons: npt.NDArray[np.bool_], beam: float
) -> tuple[Doubles, npt.NDArray[np.bool_]]:
    """Returns the excess of tokens (tokens,), by links out of them, and a mask of the epsilon links that stay."""
    links, excess = row.epsilons, outward.copy()
    own = np.where(epsilons, _excess(links, row.cost, row.cost), np.inf)
    is_known = links.dst > links.src
    through = np.where(is_known, np.inf, np.maximum(last[links.dst] + own, 0))
    while True:
        kept = through <= beam
        np.minimum.at(excess, links.src[kept], through[kept])
        now = np.where(is_known, np.maximum(excess[links.dst] + own, 0), through)
        if (now == through).all():
            return excess, kept & epsilons
        through = now
