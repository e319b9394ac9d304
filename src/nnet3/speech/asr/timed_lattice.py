"""Lattices whose arcs are words or silence, with the rows of each arc."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nnet3.base.index.row_hashes import mixed
from nnet3.base.kaldi_io.lattice import Strings, no_strings
from nnet3.speech.asr.arrays import Doubles, Integers
from nnet3.speech.asr.columns import Waiting, joined, part
from nnet3.speech.asr.determinizing import Leaps, Memory, changes
from nnet3.speech.asr.label_lattice import LabelLattice, LabelledArcs
from nnet3.speech.asr.levels import longest_paths
from nnet3.speech.asr.search_graph import arcs_leaving
from nnet3.speech.asr.strings import chained, hashes, without_first
from nnet3.speech.asr.word_times import WordBoundaries


@dataclass(frozen=True, eq=False)
class TimedLattice:
    """Arcs between rows: state 0 is the start, the last state the only end.

    row: (states,), rows of scores up to each. src, dst, label (0: no word), cost: (arcs,).
    """

    row: Integers
    src: Integers
    dst: Integers
    label: Integers
    cost: Doubles


def timed_lattice(lattice: LabelLattice, boundaries: WordBoundaries | None, graph_scale: float = 1.0) -> TimedLattice:
    """Returns the words of all paths with their rows, as their phones tell; silence has arcs of its own.

    Without boundaries a word takes the rows of its arc. Costs of the graph are scaled.
    """
    cost = graph_scale * lattice.graph_cost + lattice.acoustic_cost
    ends = np.flatnonzero(lattice.final_cost < np.inf)
    final_cost = graph_scale * lattice.final_graph[ends] + lattice.final_acoustic[ends]
    if boundaries is not None:
        return _Alignment(lattice, boundaries, cost, ends, final_cost).result()
    rows = _rows(lattice)
    final = np.full(lattice.num_states, np.inf)
    final[ends] = final_cost
    return _with_end(rows, _Steps(lattice.src, lattice.dst, lattice.label, cost), final)


def _rows(lattice: LabelLattice) -> Integers:
    """Returns the number of rows up to each state, (states,)."""
    rows = np.zeros(lattice.num_states, np.int64)
    lengths = lattice.ids.lengths
    for arcs in lattice.arcs_by_source():
        rows[lattice.dst[arcs]] = rows[lattice.src[arcs]] + lengths[arcs]
    return rows


class _Steps(NamedTuple):
    """Arcs between numbered things."""

    src: Integers
    dst: Integers
    label: Integers
    cost: Doubles


def _with_end(row: Integers, arcs: _Steps, final: Doubles) -> TimedLattice:
    """Adds an end behind all states that are final, unless one of them is that already."""
    ending = np.flatnonzero(final < np.inf)
    states = len(row)
    if len(ending) == 1 and final[ending[0]] == 0 and not (arcs.src == ending[0]).any():
        order = np.append(np.delete(np.arange(states), ending), ending)
        number = np.argsort(order)
        return TimedLattice(row[order], number[arcs.src], number[arcs.dst], arcs.label, arcs.cost)
    to_end = _Steps(ending, np.full(len(ending), states), 0 * ending, final[ending])
    return TimedLattice(np.append(row, row[ending].max(initial=0)), *joined([arcs, to_end]))


class _Pending(NamedTuple):
    """Nodes: their numbers, states, and the ids and words not yet taken by an arc."""

    number: Integers
    state: Integers
    ids: Strings
    words: Strings

    @property
    def first_words(self) -> Integers:
        """The first word of each node, 0 for no word."""
        begin = self.words.offsets[:-1]
        return np.where(self.words.lengths > 0, np.append(self.words.values, 0)[begin], 0)


class _Arrivals(NamedTuple):
    """Ways to nodes along arcs of the lattice: their source nodes, their costs, and the nodes reached."""

    src: Integers
    cost: Doubles
    state: Integers
    ids: Strings
    words: Strings


class _Alignment:
    """Follows all paths of a lattice; a node is a state with the ids and words not yet taken by an arc.

    If the ids of a node begin with a whole word, or with a whole phone outside of words, one arc leads to the node
    without the ids of this word or phone. From other nodes silent arcs follow the arcs of the lattice.
    """

    def __init__(
        self, lattice: LabelLattice, boundaries: WordBoundaries, cost: Doubles, ends: Integers, final_cost: Doubles
    ):
        self._boundaries = boundaries
        self._end = lattice.num_states
        last = np.full(len(ends), self._end)
        to_end = LabelledArcs(ends, last, 0 * ends, final_cost, 0 * final_cost, lattice.final_ids[ends])
        arcs = joined([lattice.arcs._replace(graph=cost), to_end])
        self._arcs = part(arcs, np.argsort(arcs.src, kind="stable"))
        self._offsets = np.searchsorted(self._arcs.src, np.arange(self._end + 2))
        self._row_of_state = np.append(_rows(lattice), 0)
        self._row_of_state[self._end] = (self._row_of_state[ends] + lattice.final_ids.lengths[ends]).max(initial=0)
        self._level = np.append(lattice.level, lattice.level[-1] + 1)
        self._number_of_key: dict[int, int] = {}
        self._rows: list[Integers] = []
        none = np.zeros(0, np.int64)
        self._silent, self._spoken = ([_Steps(none, none, none, np.zeros(0))] for _ in range(2))
        self._last: list[Integers] = []  # nodes where paths end
        self._waiting = Waiting[_Arrivals]()
        start, _ = self._nodes(np.zeros(1, np.int64), no_strings(1), no_strings(1))
        self._expand(_Pending(start, 0 * start, no_strings(1), no_strings(1)))
        for level in np.unique(self._level).tolist():
            arrived = self._waiting.take(level)
            if arrived is not None:
                number, is_new = self._nodes(*arrived[2:])
                self._silent.append(_Steps(arrived.src, number, 0 * number, arrived.cost))
                self._expand(part(_Pending(number, *arrived[2:]), is_new))

    def _nodes(self, state: Integers, ids: Strings, words: Strings) -> tuple[Integers, Integers]:
        """Returns the number of each node, and the places of the new nodes."""
        key = mixed(state, hashes(ids), hashes(words)).tolist()
        known = len(self._number_of_key)
        number = np.array([self._number_of_key.setdefault(each, len(self._number_of_key)) for each in key], np.int64)
        distinct, first = np.unique(number, return_index=True)
        new = first[distinct >= known]
        self._rows.append((self._row_of_state[state] - ids.lengths)[new])
        return number, new

    def _expand(self, nodes: _Pending) -> None:
        """Takes words and silence off new nodes of one level, and lets what is left go on."""
        while len(nodes.number):
            taken, is_word = self._units(nodes)
            self._go_on(part(nodes, taken == 0))
            nodes = part(nodes, taken > 0)
            taken, is_word = taken[taken > 0], is_word[taken > 0]
            ids, words = without_first(nodes.ids, taken), without_first(nodes.words, is_word.astype(np.int64))
            nodes = self._speak(nodes, np.where(is_word, nodes.first_words, 0), ids, words)

    def _units(self, nodes: _Pending) -> tuple[Integers, npt.NDArray[np.bool_]]:
        """Returns how many rows the arc from each node takes, 0 for none, and if these are a word."""
        lengths = nodes.ids.lengths
        table = np.zeros((len(lengths), int(lengths.max(initial=0)) + 1), np.int32)
        row = np.repeat(np.arange(len(lengths)), lengths)
        table[row, np.arange(len(row)) - nodes.ids.offsets[row]] = nodes.ids.values
        taken, is_word = self._boundaries.first_units(table, lengths)
        return np.where(is_word & (nodes.words.lengths == 0), 0, taken), is_word

    def _speak(self, nodes: _Pending, label: Integers, ids: Strings, words: Strings) -> _Pending:
        """Lets arcs with labels lead from nodes to the nodes with the given ids and words; returns the new nodes."""
        number, is_new = self._nodes(nodes.state, ids, words)
        self._spoken.append(_Steps(nodes.number, number, label, np.zeros(len(number))))
        return part(_Pending(number, nodes.state, ids, words), is_new)

    def _go_on(self, nodes: _Pending) -> None:
        """Lets nodes go on with the arcs of the lattice, or end with all that they have."""
        at_end = nodes.state == self._end
        is_empty = nodes.ids.lengths == 0
        self._last.append(nodes.number[at_end & is_empty])
        rest = part(nodes, at_end & ~is_empty)
        none = no_strings(len(rest.number))
        self._last.append(self._speak(rest, rest.first_words, none, none).number)
        arc, place = arcs_leaving(self._offsets, nodes.state)
        if len(arc):
            steps = part(self._arcs, arc)
            words = chained(nodes.words[place], Strings.of(steps.label > 0, steps.label[steps.label > 0]))
            ids = chained(nodes.ids[place], steps.ids)
            arrivals = _Arrivals(nodes.number[place], steps.graph, steps.dst, ids, words)
            self._waiting.add(arrivals, self._level[steps.dst])

    def result(self) -> TimedLattice:
        """Returns the lattice of the nodes that arcs with labels lead to, and the start."""
        row = np.concatenate(self._rows)
        silent, spoken = joined(self._silent), joined(self._spoken)
        arcs = joined([silent, spoken._replace(label=spoken.label + 1)])
        level = longest_paths(len(row), arcs.src, arcs.dst)
        order = np.argsort(level, kind="stable")
        number = np.argsort(order)
        arcs = arcs._replace(src=number[arcs.src], dst=number[arcs.dst])
        arcs = part(arcs, np.argsort(arcs.src, kind="stable"))
        final = np.full(len(row), np.inf)
        final[number[np.concatenate(self._last)]] = 0
        nodes = LabelLattice(
            *(level[order], arcs.src, arcs.dst, arcs.label, arcs.cost, 0 * arcs.cost, no_strings(len(arcs.src))),
            *(final, final, no_strings(len(row))),
        )
        return _without_silent(nodes, row[order])


def _without_silent(nodes: LabelLattice, row: Integers) -> TimedLattice:
    """Returns the lattice without arcs of no label; all other labels are one too large."""
    leaps, labelled = Leaps(nodes, Memory(np.inf)), np.flatnonzero(nodes.label)
    entry = np.repeat(np.arange(nodes.num_states), np.diff(leaps.offsets))
    final = np.full(nodes.num_states, np.inf)
    np.minimum.at(final, entry, leaps.graph + nodes.final_graph[leaps.state])
    number, place = arcs_leaving(np.searchsorted(nodes.src[labelled], np.arange(nodes.num_states + 1)), leaps.state)
    arc = labelled[number]
    src, dst, label, cost = entry[place], nodes.dst[arc], nodes.label[arc] - 1, leaps.graph[place] + nodes.cost[arc]
    order = np.lexsort((cost, label, dst, src))
    order = order[changes(src[order], dst[order], label[order])]
    whole = LabelLattice(
        *(nodes.level, src[order], dst[order], label[order], cost[order], 0 * cost[order], no_strings(len(order))),
        *(final, np.where(final < np.inf, 0.0, np.inf), no_strings(len(final))),
    )
    states, *_ = whole.within(np.inf)
    kept = whole.pruned(np.inf)
    return _with_end(row[states], _Steps(kept.src, kept.dst, kept.label, kept.cost), kept.final_cost)
