"""TokenRows: the tokens of a search, row by row: pruned backwards, as a lattice, and as the best path."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from nnet3.speech.arrays.aliases import Doubles, Flags, Integers
from nnet3.speech.lattices.levels import find_best_paths, longest_paths
from nnet3.speech.lattices.raw_lattice import RawLattice
from nnet3.speech.search.composition import Composition
from nnet3.speech.search.growing_graph import GrowingGraph
from nnet3.speech.search.search_graph import SearchGraph
from nnet3.speech.search.tokens import NONE, TokenRow, TokenSteps

_ROUNDING = 1e-5  # of costs along a path, at most, beside 1 and the cost of the path


class Steps(NamedTuple):
    """A path: transition-ids and source states, as first numbered, of each row's arc, (rows,); output labels and
    the number of rows before each label, (words,).
    """

    transition_ids: Integers
    states: Integers
    words: Integers
    word_rows: Integers

    @classmethod
    def joined(cls, parts: Iterable[Steps]) -> Steps:
        """Returns consecutive paths as one path."""
        return cls(*(np.concatenate(each) for each in zip(*parts, strict=True)))


class Past(NamedTuple):
    """The path to a token: the last steps, and the path before, shared with other tokens."""

    steps: Steps
    before: Past | None


class TokenRows:
    """Rows of tokens.

    Rows at the beginning may be forgotten, but for the best paths to the tokens of the first kept row.
    """

    def __init__(self, graph: SearchGraph | GrowingGraph, row: TokenRow, steps: TokenSteps):
        self.graph, self.first, self._kept_links = graph, 0, steps.kept_links
        self._rows, self.num_links = list[TokenRow](), 0
        self._past: list[Past | None] = [None] * len(row.state)  # the path to each token of the first row
        self.append(row)

    def __len__(self) -> int:
        """Returns the number of the last row: the number of rows of scores taken before it."""
        return self.first + len(self._rows) - 1

    @property
    def last(self) -> TokenRow:
        return self._rows[-1]

    def append(self, row: TokenRow) -> None:
        row.excess, row.names = np.zeros(len(row.state)), row.state
        self._rows.append(row)
        self.num_links += len(row.emitting.arc) + len(row.epsilons.arc)

    def num_tokens(self, first: int) -> Integers:
        """Returns the number of tokens behind each row from `first` on, as last counted."""
        return np.array([row.counted for row in self._rows[first - self.first :]])

    def prune(self, beam: float) -> None:
        """Removes tokens and links outside all paths within the beam, back to the rows where little changes.

        The remaining tokens, and the counts of tokens by which Kaldi ends a piece of a lattice, are as in Kaldi.
        """
        newest = len(self._rows) - 1
        if self.last.counted < 0:
            self.last.counted = len(self.last.state)
        for number in range(newest - 1, -1, -1):
            waited = self._rows[number].links_wait
            if waited:
                self._prune_links(number, beam)
            if number + 1 < newest and self._rows[number + 1].tokens_wait:
                self._prune_tokens(number + 1)
            if not waited:
                return
        if self.first and newest and self._rows[0].tokens_wait:
            self._prune_tokens(0)

    def _prune_links(self, number: int, beam: float) -> None:
        """Removes links out of a row, and lets the row before wait if the excess of the row's tokens changed much."""
        row, following = self._rows[number], self._rows[number + 1]
        kept = self._kept_links(row, following, beam)
        before = len(following.emitting.arc) + len(row.epsilons.arc)
        following.emitting, row.epsilons = following.emitting.kept(kept.emitting), row.epsilons.kept(kept.epsilons)
        removed = before - len(following.emitting.arc) - len(row.epsilons.arc)
        row.excess = kept.excess
        self.num_links -= removed
        row.links_wait = False
        row.tokens_wait |= removed > 0
        if kept.has_changed and number:
            self._rows[number - 1].links_wait = True

    def _prune_tokens(self, number: int) -> None:
        """Removes the tokens of a row without a link out of them."""
        row = self._rows[number]
        row.counted, row.tokens_wait = len(row.state), False
        tokens = np.flatnonzero(row.excess < np.inf)
        if len(tokens) < len(row.state):
            self._keep_tokens(row, self._rows[number + 1], tokens)
            if number == 0:
                self._past = [self._past[token] for token in tokens.tolist()]

    def _keep_tokens(self, row: TokenRow, following: TokenRow, tokens: Integers) -> None:
        """Keeps only `tokens` of a row, and renumbers them in the row and the following one."""
        number = np.full(len(row.state), NONE)
        number[tokens] = np.arange(len(tokens))
        row.state, row.back_src, row.back_arc = (values[tokens] for values in (row.state, row.back_src, row.back_arc))
        row.cost = row.cost[tokens]
        row.within = row.within[tokens]
        row.back_src[row.within] = number[row.back_src[row.within]]
        row.excess, row.names = row.excess[tokens], row.names[tokens]
        self.num_links -= len(row.emitting.arc)
        row.emitting = row.emitting.kept(number[row.emitting.dst] >= 0)
        self.num_links += len(row.emitting.arc)
        row.emitting.dst = number[row.emitting.dst]
        row.epsilons.src, row.epsilons.dst = number[row.epsilons.src], number[row.epsilons.dst]
        following.emitting.src = number[following.emitting.src]
        across = np.flatnonzero(~following.within)
        following.back_src[across] = number[following.back_src[across]]

    # ---- the lattice ----

    def lattice(self, first: int, last: int, final: Doubles, has_ended: bool, beam: float = np.inf) -> RawLattice:
        """Returns the lattice of the tokens behind rows `first` .. `last`; `final` are the last tokens' end costs.

        If `first` > 0, the start leads to the tokens of the first row, at the tokens' costs. Most of what is on no path
        within the beam is left out, since the graph takes long to look up.
        """
        rows = self._rows[first - self.first : last + 1 - self.first]
        sizes = np.array([len(row.state) for row in rows])
        links = _joined_links(rows, np.append(0, np.cumsum(sizes)))
        finals = np.append(np.full(sizes[:-1].sum(), np.inf), final)
        state, row_of_state = np.concatenate([row.state for row in rows]), np.repeat(np.arange(first, last + 1), sizes)
        depth, entry = longest_paths(len(state), links.src[links.within], links.dst[links.within]), rows[0].cost
        if beam < np.inf:
            begin = np.append(entry if first else 0.0, np.full(len(state), np.inf))[: len(state)]
            tokens, kept = _within(links, begin, finals, beam)
            links = links.kept(kept, np.cumsum(tokens) - 1)
            state, row_of_state, depth = state[tokens], row_of_state[tokens], depth[tokens]
            entry, finals = entry[tokens[: sizes[0]]], finals[tokens]
        graph_cost = self.graph.cost[links.arc].astype(np.float64)
        columns = {
            "row_of_state": row_of_state,
            "depth": depth,
            "src": links.src,
            "dst": links.dst,
            "word": self.graph.olabel[links.arc],
            "transition_id": self.graph.ilabel[links.arc],
            "graph_cost": graph_cost,
            "acoustic_cost": links.cost - graph_cost,
            "final_graph": finals,
            "graph_state": state,
        }
        if first > 0:
            columns = _with_start(columns, first, entry)
        return RawLattice.sorted(**columns, has_ended=has_ended)

    def piece(self, first: int, last: int) -> RawLattice:
        """Returns the lattice of rows `first` .. `last`, as of the last pruning.

        Final cost of a token: the best path through the token, beyond the best path, less the best path to the token.
        """
        row = self._rows[last - self.first]
        return self.lattice(first, last, row.excess - row.cost, has_ended=False)

    # ---- paths ----

    def path_to(self, token: int, first: int = 0) -> Steps:
        """Returns the best path to a token of the last row, from row `first` on; some earlier rows may come along."""
        token, steps = self._steps(token, len(self))
        parts, past, begin = [steps], self._past[token], self.first
        while past is not None and begin > first:
            parts.append(past.steps)
            begin -= len(past.steps.states)
            past = past.before
        return Steps.joined(reversed(parts))

    def _steps(self, token: int, number: int) -> tuple[int, Steps]:
        """Returns the first row's token on the best path to a token of row `number`, and the path."""
        graph, rows = self.graph, number - self.first
        emitted, leaving, epsilons = np.full(rows, NONE), np.full(rows, NONE), []
        while True:  # a token knows only the one before it
            row = self._rows[rows]
            arc = int(row.back_arc[token])
            is_epsilon = row.within[token]
            if rows == 0 and not is_epsilon:
                break
            token = int(row.back_src[token])
            if is_epsilon:
                epsilons.append((rows, arc))
                continue
            rows -= 1
            emitted[rows], leaving[rows] = arc, self._rows[rows].names[token]
        arcs = np.array(epsilons[::-1], np.int64).reshape(-1, 2)
        behind = np.append(np.arange(1, len(emitted) + 1), arcs[:, 0])
        order = np.argsort(behind, kind="stable")
        words, behind = graph.olabel[np.append(emitted, arcs[:, 1])][order], behind[order]
        spoken = words > 0
        return token, Steps(graph.ilabel[emitted], leaving, words[spoken], self.first + behind[spoken])

    def forget(self, number: int) -> None:
        """Forgets the rows and links before row `number`, but not the best path to each token of row `number`."""
        rows = number - self.first
        found = [self._steps(token, number) for token in range(len(self._rows[rows].state))]
        self._past = [Past(steps, self._past[token]) for token, steps in found]
        row = self._rows[rows]
        gone = [*(row.emitting for row in self._rows[: rows + 1]), *(row.epsilons for row in self._rows[:rows])]
        self.num_links -= sum(len(links.arc) for links in gone)
        row.emitting = row.emitting.kept(np.zeros(len(row.emitting.arc), bool))
        row.back_arc, row.within = np.full(len(row.back_arc), NONE), np.zeros(len(row.within), bool)
        self._rows, self.first = self._rows[rows:], number

    def move(self, graph: Composition) -> None:
        """Goes on in another composition of the same parts."""
        old, self.graph = self.graph, graph
        assert isinstance(old, Composition)
        states = [row.state for row in self._rows]
        for row, state, before in zip(self._rows, states, [states[0], *states], strict=False):
            across = (row.back_arc >= 0) & ~row.within
            ways = (np.flatnonzero(row.within), state), (np.flatnonzero(across), before)
            for way, leaving in ways:
                row.back_arc[way] = graph.adopted_arcs(old, leaving[row.back_src[way]], row.back_arc[way])
            row.emitting.arc = graph.adopted_arcs(old, before[row.emitting.src], row.emitting.arc)
            row.epsilons.arc = graph.adopted_arcs(old, state[row.epsilons.src], row.epsilons.arc)
            row.state = graph.adopted(old, state)


class _JoinedLinks(NamedTuple):
    """The links of rows: tokens as numbered in all rows, arcs, costs, and whether each is within its row, (links,)."""

    src: Integers
    dst: Integers
    arc: Integers
    cost: Doubles
    within: Flags

    def kept(self, links: Flags, renamed: Integers) -> _JoinedLinks:
        """Returns some of the links, between tokens with other numbers."""
        src, dst = renamed[self.src[links]], renamed[self.dst[links]]
        return _JoinedLinks(src, dst, self.arc[links], self.cost[links], self.within[links])


def _joined_links(rows: Sequence[TokenRow], base: Integers) -> _JoinedLinks:
    """Returns the links of rows, whose tokens begin at `base`: within the first row, into the second, and so on."""
    links = [rows[0].epsilons, *(each for row in rows[1:] for each in (row.emitting, row.epsilons))]
    src, dst, arc, cost = (
        np.concatenate([getattr(each, name) for each in links]) for name in ("src", "dst", "arc", "cost")
    )
    number = np.repeat(np.arange(len(links)), [len(each.arc) for each in links])
    return _JoinedLinks(src + base[number // 2], dst + base[(number + 1) // 2], arc, cost, number % 2 == 0)


def _with_start(columns: Mapping[str, np.ndarray], first: int, entry: Doubles) -> dict[str, np.ndarray]:
    """Adds a start before row `first`, with an arc to each token of the row, at the token's cost `entry`."""
    more: dict[str, Any] = {
        "row_of_state": [first - 1],
        "depth": [0],
        "src": np.full(len(entry), len(columns["graph_state"])),
        "dst": np.arange(len(entry)),
        "graph_cost": entry,
        "final_graph": [np.inf],
        "graph_state": [NONE],
    }
    none = np.zeros(len(entry))
    return {name: np.append(column, more.get(name, none.astype(column.dtype))) for name, column in columns.items()}


def _within(links: _JoinedLinks, begin: Doubles, end: Doubles, beam: float) -> tuple[Flags, Flags]:
    """Marks tokens and links on paths within a little more than the beam, all without native code.

    begin, end: the costs of beginning and of ending with each token, (tokens,).
    """
    src, dst, cost = links.src, links.dst, links.cost
    forward, backward = begin.copy(), end.copy()
    if not find_best_paths(src, dst, cost, forward, backward):
        return np.ones(len(end), bool), np.ones(len(src), bool)
    through = forward + backward
    best = through.min(initial=np.inf)
    most = best + beam + _ROUNDING * (1 + abs(best))
    return through <= most, forward[src] + cost + backward[dst] <= most
