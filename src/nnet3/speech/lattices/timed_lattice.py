"""Lattices of words and silence, with the rows or transition-ids of each arc."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nnet3.base.index.row_hashes import mixed
from nnet3.base.kaldi_io.lattice import Strings, no_strings
from nnet3.base.native.library import library
from nnet3.errors import ModelFormatError
from nnet3.speech.arrays.aliases import Doubles, Flags, Integers
from nnet3.speech.arrays.arcs import arcs_leaving
from nnet3.speech.arrays.columns import Waiting, joined, part
from nnet3.speech.lattices.array_sets import changes
from nnet3.speech.lattices.determinizing import leaps_of
from nnet3.speech.lattices.label_lattice import NO_ARCS, LabelLattice, LabelledArcs, final_columns
from nnet3.speech.lattices.label_sets import Memory
from nnet3.speech.lattices.levels import longest_paths
from nnet3.speech.lattices.native_alignment import native_alignment
from nnet3.speech.lattices.strings import chained, first_values, hashes, without_first
from nnet3.speech.lattices.word_times import WordBoundaries

_LEAST_NODES, _NODES_PER_ARC = 1000, 20  # of an alignment at most; lattices that fit their phones need about 2 per arc
_MISFIT = "words do not begin and end with their phones: is the file of the phones' places in words that of the graph?"


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
    """Returns an arc for each word, between the rows where the word's phones begin and end; silence has own arcs.

    Without `boundaries` a word takes the rows of its arc. Graph costs are multiplied by `graph_scale`.
    """
    cost = graph_scale * lattice.graph_cost + lattice.acoustic_cost
    final = np.full(lattice.num_states, np.inf)
    ends = np.flatnonzero(lattice.final_cost < np.inf)
    final[ends] = graph_scale * lattice.final_graph[ends] + lattice.final_acoustic[ends]
    if boundaries is not None:
        free = np.where(final < np.inf, 0.0, np.inf)
        whole = replace(lattice, graph_cost=cost, acoustic_cost=0 * cost, final_graph=final, final_acoustic=free)
        words, rows = LatticeAlignment(whole, boundaries, None).result()
        return _with_end(rows, _Steps(words.src, words.dst, words.label, words.cost), words.final_cost)
    rows = _rows(lattice)
    behind = int((rows[ends] + lattice.final_ids.lengths[ends]).max(initial=0))
    return _with_end(rows, _Steps(lattice.src, lattice.dst, lattice.label, cost), final, behind)


class OtherLabels(NamedTuple):
    """Labels of arcs without a word: of silence, and of parts of words where a search was broken off."""

    silence: int = 0
    partial_word: int = 0


def word_aligned(
    lattice: LabelLattice, boundaries: WordBoundaries, labels: OtherLabels, max_expand: float = 0.0
) -> tuple[LabelLattice, bool]:
    """Returns a lattice whose arcs have the transition-ids of a word, or of a phone outside of words.

    Also returns true if all paths end with a whole word, or silence. `max_expand`: see `LatticeAlignment`.
    """
    alignment = LatticeAlignment(lattice, boundaries, labels, max_expand)
    return alignment.result()[0], alignment.is_whole


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


def _with_end(row: Integers, arcs: _Steps, final: Doubles, behind: int | None = None) -> TimedLattice:
    """Adds a state, at row `behind`, as the only end; arcs lead to it from all final states.

    By default `behind` is the last final state's row. A single final state that fits becomes the end itself.
    """
    ending = np.flatnonzero(final < np.inf)
    states = len(row)
    last = int(row[ending].max(initial=0))
    behind = last if behind is None else behind
    if len(ending) == 1 and final[ending[0]] == 0 and behind == last and not (arcs.src == ending[0]).any():
        order = np.append(np.delete(np.arange(states), ending), ending)
        number = np.argsort(order)
        return TimedLattice(row[order], number[arcs.src], number[arcs.dst], arcs.label, arcs.cost)
    to_end = _Steps(ending, np.full(len(ending), states), 0 * ending, final[ending])
    return TimedLattice(np.append(row, behind), *joined([arcs, to_end]))


class Pending(NamedTuple):
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
    """Ways along arcs of the lattice: source nodes, costs, and the nodes reached."""

    src: Integers
    graph: Doubles
    acoustic: Doubles
    state: Integers
    ids: Strings
    words: Strings


class LatticeAlignment:
    """Follows all paths of a lattice; a node is a state with the ids and words not yet taken by an arc.

    If the ids of a node begin with a whole word, or with a whole phone outside of words, one arc leads to the node
    without the ids of this word or phone. From other nodes silent arcs follow the arcs of the lattice.
    """

    def __init__(
        self, lattice: LabelLattice, boundaries: WordBoundaries, labels: OtherLabels | None, max_expand: float = 0.0
    ):
        """`labels`: of silence and parts of words, for lattices with transition-ids; None: lattices with times alone.

        Raises NetworkError for transition-ids unknown to the model of `boundaries`, and ModelFormatError if words so
        rarely begin and end with their phones that each path of the lattice would need nodes of its own, or if there
        are more than 1000 nodes plus `max_expand`, if above 0, for each state.
        """
        for ids in (lattice.ids, lattice.final_ids):
            boundaries.model.check_ids(ids.values)
        self._boundaries, self._labels, self.is_whole = boundaries, labels or OtherLabels(), True
        self._keeps_ids = labels is not None
        self._end = lattice.num_states
        ends = np.flatnonzero(lattice.final_cost < np.inf)
        num_ids = len(lattice.ids.values) + int(lattice.final_ids.lengths[ends].sum())
        self._most = _LEAST_NODES + _NODES_PER_ARC * (self._end + len(lattice.src) + len(ends)) + num_ids
        self._too_many = _MISFIT
        allowed = _LEAST_NODES + max_expand * lattice.num_states
        if max_expand > 0 and allowed < self._most:
            self._most = int(allowed)
            self._too_many = f"aligned, it has more than {self._most} states, which --max-expand allows"
        self._rows: list[Integers] = []
        self._silent, self._spoken = [NO_ARCS], [NO_ARCS]
        self._last: list[Integers] = []  # nodes where paths end
        functions = library() if type(self) is LatticeAlignment else None
        if functions is None:
            self._follow(lattice, ends)
        else:
            self._take(functions, lattice)

    def _take(self, functions: ctypes.CDLL, lattice: LabelLattice) -> None:
        """Lets C follow all paths."""
        found = native_alignment(functions, lattice, self._boundaries, *self._labels, self._most)
        if found is None:
            raise ModelFormatError(self._too_many)
        self._rows, self._last, self.is_whole = [found.row], [found.last], found.is_whole
        src, dst, graph, acoustic = found.silent
        self._silent = [LabelledArcs(src, dst, 0 * src, graph, acoustic, no_strings(len(src)))]
        src, dst, label, ids = found.spoken
        free = np.zeros(len(src))
        self._spoken = [LabelledArcs(src, dst, label, free, free, ids if self._keeps_ids else no_strings(len(src)))]

    def _follow(self, lattice: LabelLattice, ends: Integers) -> None:
        """Follows all paths, level by level; behind the states `ends`, where paths end, comes one more state."""
        last = np.full(len(ends), self._end)
        finals = (lattice.final_graph[ends], lattice.final_acoustic[ends], lattice.final_ids[ends])
        arcs = joined([lattice.arcs, LabelledArcs(ends, last, 0 * ends, *finals)])
        self._arcs = part(arcs, np.argsort(arcs.src, kind="stable"))
        self._offsets = np.searchsorted(self._arcs.src, np.arange(self._end + 2))
        self._row_of_state = np.append(_rows(lattice), 0)
        self._row_of_state[self._end] = (self._row_of_state[ends] + lattice.final_ids.lengths[ends]).max(initial=0)
        self._level = np.append(lattice.level, lattice.level[-1] + 1)
        self._number_of_key: dict[int, int] = {}
        self._waiting = Waiting[_Arrivals]()
        start, _ = self._nodes(np.zeros(1, np.int64), no_strings(1), no_strings(1))
        self._expand(Pending(start, 0 * start, no_strings(1), no_strings(1)))
        for level in np.unique(self._level).tolist():
            arrived = self._waiting.take(level)
            if arrived is not None:
                pending = (arrived.state, arrived.ids, arrived.words)
                number, is_new = self._nodes(*pending)
                costs = (arrived.graph, arrived.acoustic)
                self._silent.append(LabelledArcs(arrived.src, number, 0 * number, *costs, no_strings(len(number))))
                self._expand(part(Pending(number, *pending), is_new))

    def _nodes(self, state: Integers, ids: Strings, words: Strings) -> tuple[Integers, Integers]:
        """Returns the number of each node, and the positions of the new nodes."""
        key = mixed(state, hashes(ids), hashes(words)).tolist()
        known = len(self._number_of_key)
        number = np.array([self._number_of_key.setdefault(each, len(self._number_of_key)) for each in key], np.int64)
        if len(self._number_of_key) > self._most:
            raise ModelFormatError(self._too_many)
        distinct, first = np.unique(number, return_index=True)
        new = first[distinct >= known]
        self._rows.append((self._row_of_state[state] - ids.lengths)[new])
        return number, new

    def _expand(self, nodes: Pending) -> None:
        """Takes words and silence off new nodes of one level, and lets the rest of the nodes go on."""
        while len(nodes.number):
            taken, is_word = self._units(nodes)
            self._go_on(part(nodes, taken == 0))
            nodes = part(nodes, taken > 0)
            taken, is_word = taken[taken > 0], is_word[taken > 0]
            ids, words = without_first(nodes.ids, taken), without_first(nodes.words, is_word.astype(np.int64))
            nodes = self._speak(nodes, np.where(is_word, nodes.first_words, self._labels.silence), taken, ids, words)

    def _units(self, nodes: Pending) -> tuple[Integers, npt.NDArray[np.bool_]]:
        """Returns the number of rows of the arc out of each node, 0 for none, and whether the rows are a word."""
        lengths = nodes.ids.lengths
        table = np.zeros((len(lengths), int(lengths.max(initial=0)) + 1), np.int32)
        row = np.repeat(np.arange(len(lengths)), lengths)
        table[row, np.arange(len(row)) - nodes.ids.offsets[row]] = nodes.ids.values
        taken, is_word = self._boundaries.first_units(table, lengths)
        return np.where(is_word & (nodes.words.lengths == 0), 0, taken), is_word

    def _speak(self, nodes: Pending, label: Integers, taken: Integers, ids: Strings, words: Strings) -> Pending:
        """Lets arcs with labels and `taken` ids lead from nodes to the nodes with the given ids and words.

        Returns the new nodes.
        """
        number, is_new = self._nodes(nodes.state, ids, words)
        own = first_values(nodes.ids, taken) if self._keeps_ids else no_strings(len(number))
        free = np.zeros(len(number))
        self._spoken.append(LabelledArcs(nodes.number, number, label, free, free, own))
        return part(Pending(number, nodes.state, ids, words), is_new)

    def _go_on(self, nodes: Pending) -> None:
        """Lets nodes go on along arcs of the lattice, or end with all their ids and words."""
        at_end = nodes.state == self._end
        is_over = self._is_over(nodes)
        self._last.append(nodes.number[at_end & is_over])
        self._last.append(self._break_off(part(nodes, at_end & ~is_over)))
        arc, position = arcs_leaving(self._offsets, nodes.state)
        if len(arc):
            steps = part(self._arcs, arc)
            words = chained(nodes.words[position], Strings.of(steps.label > 0, steps.label[steps.label > 0]))
            ids = chained(nodes.ids[position], steps.ids)
            arrivals = _Arrivals(nodes.number[position], steps.graph, steps.acoustic, steps.dst, ids, words)
            self._waiting.add(arrivals, self._level[steps.dst])

    def _is_over(self, nodes: Pending) -> Flags:
        """Marks the nodes that are done at the end of a path."""
        is_over = nodes.ids.lengths == 0
        self.is_whole &= not (is_over & (nodes.state == self._end) & (nodes.words.lengths > 0)).any()
        return is_over

    def _break_off(self, nodes: Pending) -> Integers:
        """Gives all ids of each node at the end to a last arc; returns the nodes behind the arcs.

        The last word of a path ends here: no later phone shows that the word is over.
        """
        count = len(nodes.number)
        if count == 0:
            return nodes.number
        kinds = self._boundaries
        first, last = (nodes.ids.values[positions] for positions in (nodes.ids.offsets[:-1], nodes.ids.offsets[1:] - 1))
        is_inside, is_word = kinds.is_inside[first], kinds.is_inside[first] | kinds.begins_word[first]
        is_part = (nodes.words.lengths == 0) & is_word
        is_cut = (is_word & ~kinds.ends_word[last]) | ~kinds.are_over(nodes.ids)
        self.is_whole &= not (is_part | is_inside | is_cut).any()
        label = np.where(nodes.words.lengths > 0, nodes.first_words, self._labels.silence)
        label = np.where(is_part, self._labels.partial_word, label)
        return self._speak(nodes, label, nodes.ids.lengths, no_strings(count), no_strings(count)).number

    def result(self) -> tuple[LabelLattice, Integers]:
        """Returns the lattice of the start and all nodes behind arcs with labels, and the states' rows, (states,)."""
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
        nodes = LabelLattice(level[order], *arcs, final, final, no_strings(len(row)))
        return _without_silent(nodes, row[order])


def _without_silent(nodes: LabelLattice, row: Integers) -> tuple[LabelLattice, Integers]:
    """Returns the lattice without arcs of label 0, all other labels less one, and the states' rows, (states,).

    Among arcs of equal label and ids between two states the best stays.
    """
    leaps, labelled = leaps_of(nodes, Memory(np.inf)), np.flatnonzero(nodes.label)
    entry = np.repeat(np.arange(nodes.num_states), np.diff(leaps.offsets))
    behind = leaps.graph + leaps.acoustic + nodes.final_cost[leaps.state]
    ending = np.flatnonzero(behind < np.inf)
    ending = ending[np.lexsort((behind[ending], entry[ending]))]
    ending = ending[changes(entry[ending])]
    finals = final_columns(
        nodes.num_states, entry[ending], leaps.graph[ending], leaps.acoustic[ending], no_strings(len(ending))
    )
    number, position = arcs_leaving(np.searchsorted(nodes.src[labelled], np.arange(nodes.num_states + 1)), leaps.state)
    arc = labelled[number]
    graph, acoustic = leaps.graph[position] + nodes.graph_cost[arc], leaps.acoustic[position] + nodes.acoustic_cost[arc]
    arcs = LabelledArcs(entry[position], nodes.dst[arc], nodes.label[arc] - 1, graph, acoustic, nodes.ids[arc])
    strings = hashes(arcs.ids)
    order = np.lexsort((graph + acoustic, strings, arcs.label, arcs.dst, arcs.src))
    order = order[changes(arcs.src[order], arcs.dst[order], arcs.label[order], strings[order])]
    whole = LabelLattice(nodes.level, *part(arcs, order), *finals)
    states, *_ = whole.within(np.inf)
    return whole.pruned(np.inf), row[states]
