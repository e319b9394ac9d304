"""TokenRows: the tokens of a search, row by row: pruned backwards, as a lattice, and as the best path."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nnet3.asr.arrays import Doubles, Integers
from nnet3.asr.composition import Composition
from nnet3.asr.raw_lattice import RawLattice
from nnet3.asr.search_graph import SearchGraph

_NONE = -1
_PRUNE_SCALE = 0.1  # of the lattice beam: smaller changes are not followed further back


@dataclass
class Links:
    """Arcs between tokens: src of the row before, or of the same row for epsilons, and dst of the row."""

    src: Integers
    dst: Integers
    arc: Integers
    cost: Doubles

    def kept(self, kept: npt.NDArray[np.bool_]) -> Links:
        return Links(self.src[kept], self.dst[kept], self.arc[kept], self.cost[kept])


@dataclass
class TokenRow:
    """The tokens behind a row: state of the graph, cost, and the best arc into each, with the token that it leaves.

    `excess`: what the best path through a token costs more than the best one, as far as was known at the last pruning;
    None before the first one.
    """

    state: Integers
    cost: Doubles
    back_src: Integers
    back_arc: Integers
    emitting: Links
    epsilons: Links
    excess: Doubles | None = None


class Steps(NamedTuple):
    """A path: the transition-id of each row's arc and the state that it leaves, (rows,); output labels and how many
    rows were over when each was passed, (words,)."""

    transition_ids: Integers
    states: Integers
    words: Integers
    word_rows: Integers

    @classmethod
    def joined(cls, parts: Iterable[Steps]) -> Steps:
        """Returns paths that follow each other as one."""
        return cls(*(np.concatenate(each) for each in zip(*parts, strict=True)))


class Past(NamedTuple):
    """The path to a token: its last steps, and the path before them, which other tokens may share."""

    steps: Steps
    before: Past | None


class TokenRows:
    """Rows of tokens, of which the first ones may be forgotten: of these the paths are left that lead to tokens of the
    first row that is there."""

    def __init__(self, graph: SearchGraph | Composition, row: TokenRow):
        self.graph, self.first = graph, 0
        self._rows, self.num_links = [row], len(row.epsilons.arc)
        self._past: list[Past | None] = [None] * len(row.state)  # the path to each token of the first row

    def __len__(self) -> int:
        """The number of the last row, which is the number of rows of scores that it is behind."""
        return self.first + len(self._rows) - 1

    @property
    def last(self) -> TokenRow:
        return self._rows[-1]

    def append(self, row: TokenRow) -> None:
        self._rows.append(row)
        self.num_links += len(row.emitting.arc) + len(row.epsilons.arc)

    def num_tokens(self, first: int) -> Integers:
        """Returns how many tokens there are behind each row from `first` on."""
        return np.array([len(row.state) for row in self._rows[first - self.first :]])

    def prune(self, beam: float) -> None:
        """Removes what is no part of a path within the beam, as far back as the last rows changed anything."""
        excess = np.zeros(len(self.last.state))
        for number in range(len(self._rows) - 1, 0, -1):
            row, before = self._rows[number], self._rows[number - 1]
            link_excess = excess[row.emitting.dst] + _excess(row.emitting, before.cost, row.cost)
            kept = link_excess <= beam
            self.num_links -= len(kept)
            row.emitting = row.emitting.kept(kept)
            self.num_links += len(row.emitting.arc)
            excess = np.full(len(before.state), np.inf)
            np.minimum.at(excess, row.emitting.src, link_excess[kept])
            excess = self._prune_epsilons(before, excess, beam)
            tokens = np.flatnonzero(excess < np.inf)
            if len(tokens) < len(excess):
                self._keep_tokens(before, row, tokens)
                if number == 1:
                    self._past = [self._past[token] for token in tokens.tolist()]
            known, before.excess = before.excess, excess[tokens]
            if known is not None and (np.abs(known - before.excess) <= _PRUNE_SCALE * beam).all():
                return
            excess = before.excess

    def _prune_epsilons(self, row: TokenRow, excess: Doubles, beam: float) -> Doubles:
        """Returns the excess of tokens with that of their epsilon arcs; infinite beyond the beam."""
        links = row.epsilons
        if len(links.arc):
            own = _excess(links, row.cost, row.cost)
            while True:
                before = excess.copy()
                np.minimum.at(excess, links.src, excess[links.dst] + own)
                if (excess == before).all():
                    break
            kept = excess[links.dst] + own <= beam
            self.num_links -= len(kept) - int(kept.sum())
            row.epsilons = links.kept(kept)
        return np.where(excess <= beam, excess, np.inf)

    def _keep_tokens(self, row: TokenRow, following: TokenRow, tokens: Integers) -> None:
        """Keeps only these tokens of a row, and numbers them anew wherever this row and the following one name them."""
        number = np.full(len(row.state), _NONE)
        number[tokens] = np.arange(len(tokens))
        row.state, row.back_src, row.back_arc = (values[tokens] for values in (row.state, row.back_src, row.back_arc))
        row.cost = row.cost[tokens]
        within = self._is_epsilon(row.back_arc)
        row.back_src[within] = number[row.back_src[within]]
        if row.excess is not None:
            row.excess = row.excess[tokens]
        self.num_links -= len(row.emitting.arc)
        row.emitting = row.emitting.kept(number[row.emitting.dst] >= 0)
        self.num_links += len(row.emitting.arc)
        row.emitting.dst = number[row.emitting.dst]
        row.epsilons.src, row.epsilons.dst = number[row.epsilons.src], number[row.epsilons.dst]
        following.emitting.src = number[following.emitting.src]
        across = (following.back_arc >= 0) & ~self._is_epsilon(following.back_arc)
        following.back_src[across] = number[following.back_src[across]]

    def _is_epsilon(self, arcs: Integers) -> npt.NDArray[np.bool_]:
        """Marks the arcs that take no row; -1 is none."""
        return (arcs >= 0) & (self.graph.ilabel[arcs] == 0)

    # ---- the lattice ----

    def lattice(self, first: int, last: int, final: Doubles, has_ended: bool) -> RawLattice:
        """Returns the lattice of the tokens behind rows `first` .. `last`, of which the last ones end with these costs.

        Where row 0 is not among them, the start leads to the tokens of the first row, for what they cost.
        """
        rows = self._rows[first - self.first : last + 1 - self.first]
        sizes = np.array([len(row.state) for row in rows])
        base = np.append(0, np.cumsum(sizes))
        src, dst, arc, total = [], [], [], []
        for number, row in enumerate(rows):
            for links, offset in ((row.emitting, base[number - 1]), (row.epsilons, base[number])):
                if number or links is row.epsilons:
                    src.append(links.src + offset)
                    dst.append(links.dst + base[number])
                    arc.append(links.arc)
                    total.append(links.cost)
        arcs, costs = np.concatenate(arc), np.concatenate(total)
        graph_cost = self.graph.cost[arcs].astype(np.float64)
        finals = np.full(base[-1], np.inf)
        finals[base[-2] :] = final
        columns = {
            "row_of_state": np.repeat(np.arange(first, last + 1), sizes),
            "src": np.concatenate(src),
            "dst": np.concatenate(dst),
            "word": self.graph.olabel[arcs],
            "transition_id": self.graph.ilabel[arcs],
            "graph_cost": graph_cost,
            "acoustic_cost": costs - graph_cost,
            "final_graph": finals,
            "graph_state": np.concatenate([row.state for row in rows]),
        }
        if first > 0:
            tokens = np.arange(sizes[0])
            entry: dict[str, Any] = {
                "row_of_state": [first - 1],
                "src": np.full(len(tokens), base[-1]),
                "dst": tokens,
                "graph_cost": rows[0].cost,
                "final_graph": [np.inf],
                "graph_state": [_NONE],
            }
            columns |= {name: np.append(columns[name], more) for name, more in entry.items()}
            none = np.zeros(len(tokens))
            for name in ("word", "transition_id", "acoustic_cost"):
                columns[name] = np.append(columns[name], none.astype(columns[name].dtype))
        return RawLattice.sorted(**columns, has_ended=has_ended)

    def piece(self, first: int, last: int) -> RawLattice:
        """Returns the lattice of rows `first` .. `last`, as of the last pruning. An end costs what the best path
        through it costs more than the best one, less what the path to it costs."""
        row = self._rows[last - self.first]
        excess = 0 if last == len(self) or row.excess is None else row.excess
        return self.lattice(first, last, excess - row.cost, has_ended=False)

    # ---- paths ----

    def path_to(self, token: int, first: int = 0) -> Steps:
        """Returns the best path to a token of the last row, or its end, which has the rows from `first` on and may have
        some more."""
        token, steps = self._steps(token, len(self))
        parts, past, begin = [steps], self._past[token], self.first
        while past is not None and begin > first:
            parts.append(past.steps)
            begin -= len(past.steps.states)
            past = past.before
        return Steps.joined(reversed(parts))

    def _steps(self, token: int, number: int) -> tuple[int, Steps]:
        """Returns the best path to a token of a row from the first row on, and the token of that row that it leaves."""
        graph, rows = self.graph, number - self.first
        emitted, leaving, epsilons = np.full(rows, _NONE), np.full(rows, _NONE), []
        while True:  # a token knows only the one before it
            row = self._rows[rows]
            arc = int(row.back_arc[token])
            is_epsilon = arc >= 0 and graph.ilabel[arc] == 0
            if rows == 0 and (self.first or not is_epsilon):
                break
            token = int(row.back_src[token])
            if is_epsilon:
                epsilons.append((rows, arc))
                continue
            rows -= 1
            emitted[rows], leaving[rows] = arc, self._rows[rows].state[token]
        arcs = np.array(epsilons[::-1], np.int64).reshape(-1, 2)
        behind = np.append(np.arange(1, len(emitted) + 1), arcs[:, 0])
        order = np.argsort(behind, kind="stable")
        words, behind = graph.olabel[np.append(emitted, arcs[:, 1])][order], behind[order]
        spoken = words > 0
        return token, Steps(graph.ilabel[emitted], leaving, words[spoken], self.first + behind[spoken])

    def forget(self, number: int) -> None:
        """Forgets the rows before this one, and what they have to do with each other."""
        rows = number - self.first
        found = [self._steps(token, number) for token in range(len(self._rows[rows].state))]
        self._past = [Past(steps, self._past[token]) for token, steps in found]
        row = self._rows[rows]
        gone = [*(row.emitting for row in self._rows[: rows + 1]), *(row.epsilons for row in self._rows[:rows])]
        self.num_links -= sum(len(links.arc) for links in gone)
        row.emitting = row.emitting.kept(np.zeros(len(row.emitting.arc), bool))
        row.back_arc = np.full(len(row.back_arc), _NONE)
        self._rows, self.first = self._rows[rows:], number

    def move(self, graph: Composition) -> None:
        """Goes on in another composition of the same parts."""
        old, self.graph = self.graph, graph
        assert isinstance(old, Composition)
        states = [row.state for row in self._rows]
        for row, state, before in zip(self._rows, states, [states[0], *states], strict=False):
            is_epsilon = (row.back_arc >= 0) & (old.ilabel[row.back_arc] == 0)
            ways = (np.flatnonzero(is_epsilon), state), (np.flatnonzero((row.back_arc >= 0) & ~is_epsilon), before)
            for way, leaving in ways:
                row.back_arc[way] = graph.adopted_arcs(old, leaving[row.back_src[way]], row.back_arc[way])
            row.emitting.arc = graph.adopted_arcs(old, before[row.emitting.src], row.emitting.arc)
            row.epsilons.arc = graph.adopted_arcs(old, state[row.epsilons.src], row.epsilons.arc)
            row.state = graph.adopted(old, state)


def _excess(links: Links, cost_before: Doubles, cost: Doubles) -> Doubles:
    """Returns the further cost of the path through each link, beside the best one to the token that it leads to."""
    return cost_before[links.src] + links.cost - cost[links.dst]
