"""GrowingLattice: the lattice of words of a search that goes on, made piece by piece.

Zh. Chen, M. Yarmohammadi, H. Xu, H. Lv, L. Xie, D. Povey, S. Khudanpur: Incremental lattice determinization for WFST
decoders. ASRU, 2019.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from nnet3.base.kaldi_io.lattice import Stretched, Strings, no_strings
from nnet3.speech.arrays.aliases import Integers
from nnet3.speech.arrays.columns import joined, part
from nnet3.speech.lattices.label_lattice import NO_ARCS, LabelLattice, LabelledArcs, final_columns
from nnet3.speech.lattices.levels import longest_paths
from nnet3.speech.lattices.raw_lattice import RawLattice
from nnet3.speech.lattices.strings import chained
from nnet3.speech.lattices.word_lattice import PhoneLabels, within_memory

_TOKEN, _STATE = 1 << 32, 1 << 33  # labels from here on are those of tokens, and of states of the lattice


def _linear(arcs: LabelledArcs, first: int) -> LabelledArcs:
    """Returns arcs of one id at most: the first of each way has the label and the costs, and states from `first` on
    come between."""
    way, src, dst, is_first = Stretched.of(arcs.ids.lengths, arcs.src, arcs.dst, first)
    label, graph, acoustic = (np.where(is_first, each[way], 0) for each in (arcs.label, arcs.graph, arcs.acoustic))
    return LabelledArcs(src, dst, label, graph, acoustic, Strings.of(arcs.ids.lengths[way] > 0, arcs.ids.values))


class GrowingLattice:
    """Takes the lattice of a search in pieces and determinizes it; a piece begins at the last row of the piece before.

    States with words that go on into the next piece, and the states behind them, are open: determinized once more
    together with the next piece. The lattice before the open states stays as it is, though later pieces may show parts
    of it to be beyond the beam.
    """

    def __init__(self, beam: float, phones: PhoneLabels, most_bytes: float = np.inf):
        self._beam, self._phones, self._most_bytes = beam, phones, most_bytes
        self.narrowest = beam
        self.num_rows = 0
        self._begin()

    def _begin(self) -> None:
        self._forward = np.zeros(1)  # what the best path to each state costs
        self._fixed: list[LabelledArcs] = []
        self._entering = self._inside = NO_ARCS  # arcs to open states, and from them
        self._ends = NO_ARCS  # arcs from open states to tokens: `dst` is the state of the search's graph
        self._open: Integers = np.zeros(1, np.int64)

    @property
    def first_row(self) -> int:
        """The first row of the next piece: 0 as long as the start is open, then the last row of the piece before."""
        return 0 if self._open[0] == 0 else self.num_rows

    def close_start(self) -> None:
        """Lets a state behind the start take the start's position among the open ones."""
        if self._open[0] != 0 or not self.num_rows:
            return
        state = len(self._forward)
        self._forward = np.append(self._forward, 0.0)
        step = np.zeros(1, np.int64)
        self._entering = LabelledArcs(step, step + state, step, np.zeros(1), np.zeros(1), no_strings(1))
        self._inside, self._ends = (
            arcs._replace(src=np.where(arcs.src == 0, state, arcs.src)) for arcs in (self._inside, self._ends)
        )
        self._open = np.append(self._open[1:], state)

    def rename_tokens(self, renamed: Callable[[Integers], Integers]) -> None:
        """Gives the states of the search's graph other numbers."""
        self._ends = self._ends._replace(dst=renamed(self._ends.dst))

    def with_piece(self, raw: RawLattice) -> GrowingLattice:
        """Returns a copy of the lattice with one piece more."""
        grown = copy.copy(self)
        grown._fixed = list(self._fixed)
        grown.add(raw)
        return grown

    def add(self, raw: RawLattice) -> None:
        """Adds the raw lattice of rows from `first_row` on, determinized together with the states still open.

        Final costs of the last row's states are costs expected behind the row: they count in pruning, and are
        subtracted again from the last arcs.
        """
        is_first = self.first_row == 0
        if is_first:
            self._begin()
        ending = np.flatnonzero(raw.final_cost < np.inf)
        found, beam = within_memory(self._piece(raw, ending), self._beam, self._most_bytes, self._phones)
        self.narrowest = min(self.narrowest, beam)
        self.num_rows = raw.num_rows
        arcs = found.arcs
        to_token = (arcs.label >= _TOKEN) & (arcs.label < _STATE)
        state = self._numbered(found, arcs, to_token)
        self._reach(found, state)
        known = self._forward[state[arcs.src]] < np.inf
        inner = part(arcs, known & ~to_token & (arcs.label < _STATE))
        inner = inner._replace(src=state[inner.src], dst=state[inner.dst])
        ends = part(arcs, known & to_token)
        cost_of_token = dict(zip(raw.graph_state[ending].tolist(), raw.final_cost[ending].tolist(), strict=True))
        token = ends.label - _TOKEN
        expected = np.array([cost_of_token[each] for each in token.tolist()])
        self._ends = ends._replace(src=state[ends.src], dst=token, graph=ends.graph - expected)
        self._open = _reached(self._ends.src, inner)
        arcs = joined([self._entering, inner])
        is_open = np.zeros(len(self._forward), bool)
        is_open[self._open] = True
        leaves, enters = is_open[arcs.src], is_open[arcs.dst]
        self._inside, self._entering = part(arcs, leaves), part(arcs, ~leaves & enters)
        self._fixed.append(part(arcs, ~leaves & ~enters))

    def _numbered(self, found: LabelLattice, arcs: LabelledArcs, to_token: npt.NDArray[np.bool_]) -> Integers:
        """Returns the number in the whole lattice of each state of a determinized piece.

        Arcs now enter the formerly open states. Costs and ids common to all paths from an open state move to the arcs
        that enter it.
        """
        state = np.full(found.num_states, -1)
        again = part(arcs, arcs.label >= _STATE)
        was_open = again.label - _STATE
        state[again.dst[::-1]] = was_open[::-1]
        state[0] = 0
        is_new = state < 0
        is_new[arcs.dst[to_token]] = False
        state[is_new] = len(self._forward) + np.arange(is_new.sum())
        position = np.full(len(self._forward), -1)
        position[was_open] = np.arange(len(was_open))
        entering = part(self._entering, position[self._entering.dst] >= 0)
        at = position[entering.dst]
        self._entering = entering._replace(
            dst=state[again.dst[at]],
            graph=entering.graph + again.graph[at] - self._forward[entering.dst],
            acoustic=entering.acoustic + again.acoustic[at],
            ids=chained(entering.ids, again.ids[at]),
        )
        self._forward = np.append(self._forward, np.zeros(int(is_new.sum())))
        return state

    def _reach(self, found: LabelLattice, state: Integers) -> None:
        """Finds what the best path to each state of a determinized piece costs: `state` is its number in the lattice.

        It is infinite for an open state that other open states led to, with a word that now leads elsewhere.
        """
        self._forward[state[state >= 0]] = np.inf
        self._forward[0] = 0
        entering = self._entering
        cost = entering.graph + entering.acoustic
        np.minimum.at(self._forward, entering.dst, self._forward[entering.src] + cost)
        for level in found.arcs_by_source():
            src, dst, cost = state[found.src[level]], state[found.dst[level]], found.cost[level]
            inner = (dst >= 0) & (found.label[level] < _STATE)
            np.minimum.at(self._forward, dst[inner], self._forward[src[inner]] + cost[inner])

    def _piece(self, raw: RawLattice, ending: Integers) -> LabelLattice:
        """Returns the piece to determinize: a start, the open states, `raw`, and an end behind arcs with tokens."""
        states, words = raw.num_states, raw.labelled()
        tokens = LabelledArcs(raw.src, raw.dst, raw.word.astype(np.int64), raw.graph_cost, raw.acoustic_cost, words.ids)
        end = states
        to_end = (ending, np.full(len(ending), end), _TOKEN + raw.graph_state[ending].astype(np.int64))
        last = LabelledArcs(*to_end, raw.final_cost[ending], np.zeros(len(ending)), no_strings(len(ending)))
        parts, level = [tokens, last], np.append(raw.level, raw.level[-1] + 1)
        if self.first_row:
            before, inner = self._before(raw, states + 1)
            parts = [part(tokens, raw.src > 0), last, before]
            depth = longest_paths(states + 1 + inner, *_without(before, states + 1))
            level = np.append(level + depth.max(initial=0) + 1, depth[states + 1 :])
            level[0] = 0
        arcs = joined(parts)
        order = np.argsort(level, kind="stable")
        final = np.where(order == end, 0.0, np.inf)
        return LabelLattice(level[order], *arcs.renumbered(order), final, final, no_strings(len(order)))

    def _before(self, raw: RawLattice, first: int) -> tuple[LabelledArcs, int]:
        """Returns the arcs in front of the piece's first row, and the number of their states, numbered from `first` on.

        Arcs lead from the start to each open state, between open states, and from them to tokens of the first row. An
        arc to a token that was lost since leads to a state that nothing leaves: as in Kaldi, ids common to all other
        arcs stay behind a state with such an arc. An arc of several transition-ids becomes a chain of arcs with states
        between.
        """
        position = np.full(len(self._forward), -1)
        position[self._open] = first + np.arange(len(self._open))
        entry = raw.dst[raw.src == 0]
        order = np.argsort(raw.graph_state[entry])
        keys = np.append(raw.graph_state[entry][order], -1)
        at = np.searchsorted(keys[:-1], self._ends.dst)
        lost = first + len(self._open)
        token = np.where(keys[at] == self._ends.dst, np.append(entry[order], lost)[at], lost)
        inside = self._inside._replace(src=position[self._inside.src], dst=position[self._inside.dst])
        ends = self._ends._replace(src=position[self._ends.src], dst=token, label=0 * token)
        steps = _linear(joined([inside, ends]), lost + 1)
        none = np.zeros(len(self._open))
        start = LabelledArcs(
            *(none.astype(np.int64), position[self._open], _STATE + self._open),
            *(self._forward[self._open], none, no_strings(len(none))),
        )
        return joined([start, steps]), max(int(steps.src.max(initial=0)), lost) + 1 - first

    def lattice(self, final: npt.NDArray[np.float32] | None) -> LabelLattice | None:
        """Returns the lattice so far; None if no path is left. final: (states of the search's graph,), their costs of
        ending; None: ending costs nothing.
        """
        cost = np.zeros(len(self._ends.src)) if final is None else final[self._ends.dst].astype(np.float64)
        graph = self._ends.graph + cost
        order = np.lexsort((graph + self._ends.acoustic, self._ends.src))
        ending, first = np.unique(self._ends.src[order], return_index=True)
        best = order[first]
        states = len(self._forward)
        acoustic = np.where(graph[best] < np.inf, self._ends.acoustic[best], np.inf)
        final_graph, final_acoustic, final_ids = final_columns(
            states, ending, graph[best], acoustic, self._ends.ids[best]
        )
        arcs = joined([*self._fixed, self._entering, self._inside])
        level = longest_paths(states, arcs.src, arcs.dst)
        order = np.lexsort((np.arange(states) > 0, level))
        finals = final_graph[order], final_acoustic[order], final_ids[order]
        whole = LabelLattice(level[order], *arcs.renumbered(order), *finals)
        return whole.pruned(np.inf) if whole.best_cost < np.inf else None


def _without(arcs: LabelledArcs, first: int) -> tuple[Integers, Integers]:
    """Returns the ends of the arcs that lead to states from `first` on."""
    inner = arcs.dst >= first
    return arcs.src[inner], arcs.dst[inner]


def _reached(states: Integers, arcs: LabelledArcs) -> Integers:
    """Returns all states reached from `states`, themselves included, in order, without repeats."""
    states = np.unique(states)
    while True:
        more = np.union1d(states, arcs.dst[np.isin(arcs.src, states)])
        if len(more) == len(states):
            return more
        states = more
