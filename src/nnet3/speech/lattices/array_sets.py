"""Determinization with NumPy: where there is no native code, and to check native code against."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nnet3.base.index.row_hashes import mixed
from nnet3.base.kaldi_io.lattice import Strings
from nnet3.speech.arrays.aliases import Doubles, Integers
from nnet3.speech.arrays.arcs import arcs_leaving
from nnet3.speech.arrays.columns import Waiting, joined, part
from nnet3.speech.lattices.label_lattice import NO_ARCS, LabelLattice, LabelledArcs
from nnet3.speech.lattices.label_sets import LabelSets, Leaps, Memory, SetEnds
from nnet3.speech.lattices.strings import chained, common_lengths, first_values, hashes, without_first

_NONE = -1
_NUMBERS_OF_SET = 16  # with its position in a dictionary
_NUMBERS_OF_ARC = 5  # without its ids
_SAME = 2.0**-10  # costs this close are taken for equal


class _Pieces(NamedTuple):
    """Paths without labels, which begin at the start or behind an arc with a label.

    `entry`: the first state; `state`: the last state; `before` and `arc`: the piece continued by this piece, and the
    arc between them (-1 for a piece without arcs).
    """

    entry: Integers
    state: Integers
    cost: Doubles
    before: Integers
    arc: Integers


class _Members(NamedTuple):
    """States in sets.

    `graph`, `acoustic`: the state's costs beyond the costs of the best state of the set; `ids`: the ids of the state's
    path beyond the ids common to all states of the set.
    """

    set: Integers
    state: Integers
    graph: Doubles
    acoustic: Doubles
    ids: Strings


def array_sets(lattice: LabelLattice, most: float, memory: Memory) -> LabelSets:
    """Returns the sets of a lattice, without paths that cost more than `most`. Raises TooLargeError."""
    return _Sets(lattice, most, memory).result()


class _Sets:
    """Makes the sets, level by level. Members are final states and states with labels ahead."""

    def __init__(self, lattice: LabelLattice, most: float, memory: Memory):
        self._lattice, self._memory, self._most = lattice, memory, most
        self._labelled = np.flatnonzero(lattice.label)
        self._offsets = np.searchsorted(lattice.src[self._labelled], np.arange(lattice.num_states + 1))
        self._leaps = array_leaps(lattice, memory)
        self._sets_of_hash: dict[int, list[tuple[int, Doubles]]] = {}  # their numbers, and the excess of each member
        self._best = np.zeros(0)  # cost of the best path to each set
        self._waiting, self._levels = Waiting[_Members](), list[Integers]()
        self._arcs, self._ends = list[LabelledArcs](), list[SetEnds]()
        self._begin()
        for level in np.unique(lattice.level).tolist():
            members = self._waiting.take(level)
            if members is not None:
                self._end(members)
                self._expand(members)
                memory.release(len(members.set), len(members))

    def _begin(self) -> None:
        """Enters the states reached without a label as the first set, ids in common left where they are."""
        leaps = self._leaps
        leap = np.arange(leaps.offsets[1])
        members = _Members(0 * leap, leaps.state[leap], leaps.graph[leap], leaps.acoustic[leap], leaps.ids[leap])
        self._enter(members, np.zeros(1))

    def _expand(self, members: _Members) -> None:
        """Follows all labels out of sets that are complete: no later path leads to them."""
        lattice, leaps = self._lattice, self._leaps
        arc, position, group = self._ways(members)
        if not len(arc):
            return
        self._memory.check(int(np.diff(leaps.offsets)[lattice.dst[arc]].sum()), 2 * len(_Members._fields))
        leap, way = arcs_leaving(leaps.offsets, lattice.dst[arc])
        arc, position, group, state = arc[way], position[way], group[way], leaps.state[leap]
        graph = members.graph[position] + lattice.graph_cost[arc] + leaps.graph[leap]
        acoustic = members.acoustic[position] + lattice.acoustic_cost[arc] + leaps.acoustic[leap]
        total = graph + acoustic
        order = np.lexsort((graph, total, state, group))  # of equal costs, Kaldi takes the one with less of the graph
        order = order[changes(group[order], state[order])]
        arc, position, group, state, leap = arc[order], position[order], group[order], state[order], leap[order]
        graph, acoustic, total = graph[order], acoustic[order], total[order]
        whole = chained(members.ids[position], lattice.ids[arc], leaps.ids[leap])
        is_first = changes(group)
        starts, group = np.flatnonzero(is_first), np.cumsum(is_first) - 1
        best = np.lexsort((graph, total, group))[starts]
        common = common_lengths(whole, starts)
        excess = graph - graph[best][group], acoustic - acoustic[best][group]
        source = members.set[position[best]]
        found = _Members(group, state, *excess, without_first(whole, common[group]))
        target = self._enter(found, self._best[source] + total[best])
        self._memory.hold(len(target), _NUMBERS_OF_ARC)
        label, ids = lattice.label[arc[best]], first_values(whole[best], common)
        self._arcs.append(LabelledArcs(source, target, label, graph[best], acoustic[best], ids))

    def _ways(self, members: _Members) -> tuple[Integers, Integers, Integers]:
        """Returns the good arcs with labels out of members, and the position of the member and the group of each arc.

        A group is one set and one label; groups are numbered in order. An arc is good if its group's best path is
        within the beam.
        """
        lattice = self._lattice
        number, position = arcs_leaving(self._offsets, members.state)
        arc = self._labelled[number]
        order = np.lexsort((lattice.label[arc], members.set[position]))
        arc, position = arc[order], position[order]
        is_first = changes(members.set[position], lattice.label[arc])
        through = self._best[members.set[position]] + members.graph[position] + members.acoustic[position]
        through += lattice.cost[arc] + lattice.backward[lattice.dst[arc]]
        group = np.cumsum(is_first) - 1
        least = np.full(int(is_first.sum()), np.inf)
        np.minimum.at(least, group, through)
        good = (least <= self._most)[group]
        return arc[good], position[good], group[good]

    def _end(self, members: _Members) -> None:
        """SetEnds the sets with a final member, at the cost of the best final member."""
        lattice = self._lattice
        can = np.flatnonzero(lattice.final_cost[members.state] < np.inf)
        state, of = members.state[can], members.set[can]
        graph = members.graph[can] + lattice.final_graph[state]
        acoustic = members.acoustic[can] + lattice.final_acoustic[state]
        order = np.lexsort((graph, graph + acoustic, of))
        order = order[changes(of[order])]
        order = order[self._best[of[order]] + (graph + acoustic)[order] <= self._most]
        ids = chained(members.ids[can[order]], lattice.final_ids[state[order]])
        self._ends.append(SetEnds(of[order], graph[order], acoustic[order], ids))

    def _enter(self, members: _Members, path_cost: Doubles) -> Integers:
        """Finds the sets of groups of members, in order, or makes new sets; returns the set of each group.

        path_cost: (groups,), the cost of the best path to the group.
        """
        starts = np.flatnonzero(changes(members.set))
        sizes = np.diff(np.append(starts, len(members.set)))
        excess = np.split(members.graph + members.acoustic, starts[1:])
        key = np.add.reduceat(mixed(members.state, hashes(members.ids)), starts).tolist()
        known = len(self._best)
        number = self._numbers(key, excess)
        made = np.unique(number, return_index=True)[1]
        made = made[number[made] >= known]  # groups that are new sets, in the order of their numbers
        self._best = np.append(self._best, np.full(len(made), np.inf))
        np.minimum.at(self._best, number, path_cost)
        if not len(made):
            return number
        index, position = arcs_leaving(np.append(starts, len(members.set)), made)
        new = part(members, index)
        self._memory.hold(len(index) + len(new.ids.values) // 2, 1 + len(_Members._fields))
        self._memory.hold(len(made), _NUMBERS_OF_SET)
        first = np.cumsum(sizes[made]) - sizes[made]
        level = np.minimum.reduceat(self._lattice.level[members.state[index]], first)
        self._levels.append(level)
        self._waiting.add(new._replace(set=number[made][position]), level[position])
        return number

    def _numbers(self, keys: list[int], excess: list[Doubles]) -> Integers:
        """Returns the set of each group, or a new number: as in Kaldi, costs of members may differ a little."""
        numbers, count = list[int](), len(self._best)
        for key, costs in zip(keys, excess, strict=True):
            alike = self._sets_of_hash.setdefault(key, [])
            number = next((number for number, known in alike if (np.abs(costs - known) < _SAME).all()), count)
            if number == count:
                alike.append((number, costs))
                count += 1
            numbers.append(number)
        return np.array(numbers, np.int64)

    def result(self) -> LabelSets:
        return LabelSets(np.concatenate(self._levels), joined([NO_ARCS, *self._arcs]), joined(self._ends))


def array_leaps(lattice: LabelLattice, memory: Memory) -> Leaps:
    """Returns the leaps of a lattice. Raises TooLargeError."""
    pieces = _pieces(lattice, memory)
    is_kept = lattice.final_cost < np.inf
    is_kept[lattice.src[lattice.label > 0]] = True
    kept = np.flatnonzero(is_kept[pieces.state])
    kept = kept[np.lexsort((pieces.state[kept], pieces.entry[kept]))]
    offsets = np.searchsorted(pieces.entry[kept], np.arange(lattice.num_states + 1))
    return Leaps(offsets, pieces.state[kept], *_walked(lattice, pieces, kept))


def _walked(lattice: LabelLattice, pieces: _Pieces, piece: Integers) -> tuple[Doubles, Doubles, Strings]:
    """Returns graph costs, acoustic costs and ids of pieces from where they begin."""
    count, way = len(piece), np.arange(len(piece))
    whole: list[tuple[Integers, Integers]] = [(way[:0], way[:0])]
    while len(way):
        way, piece = way[pieces.arc[piece] >= 0], piece[pieces.arc[piece] >= 0]
        whole.append((way, pieces.arc[piece]))
        piece = pieces.before[piece]
    way, arc = (np.concatenate(column) for column in zip(*whole[::-1], strict=True))
    order = np.argsort(way, kind="stable")
    way, arc = way[order], arc[order]
    graph, acoustic = np.zeros((2, count))
    np.add.at(graph, way, lattice.graph_cost[arc])
    np.add.at(acoustic, way, lattice.acoustic_cost[arc])
    lengths = np.bincount(way, lattice.ids.lengths[arc], count).astype(np.int64)
    return graph, acoustic, Strings.of(lengths, lattice.ids[arc].values)


def _pieces(lattice: LabelLattice, memory: Memory) -> _Pieces:
    """Follows arcs without labels from the start and from behind each label, level by level."""
    is_entry = np.zeros(lattice.num_states, bool)
    is_entry[0] = is_entry[lattice.dst[lattice.label > 0]] = True
    silent = np.flatnonzero(lattice.label == 0)
    offsets = np.searchsorted(lattice.src[silent], np.arange(lattice.num_states + 1))
    waiting = Waiting[_Pieces]()
    entries = np.flatnonzero(is_entry)
    started = _Pieces(entries, entries, np.zeros(len(entries)), *np.full((2, len(entries)), _NONE))
    columns = len(started)
    memory.hold(len(entries), columns)
    waiting.add(started, lattice.level[entries])
    found, count = [], 0
    for level in np.unique(lattice.level).tolist():
        arrived = waiting.take(level)
        if arrived is None:
            continue
        order = np.lexsort((arrived.cost, arrived.state, arrived.entry))
        here = part(arrived, order[changes(arrived.entry[order], arrived.state[order])])
        found.append(here)
        memory.release(len(arrived.entry) - len(here.entry), columns)
        memory.check(int(np.diff(offsets)[here.state].sum()), columns)
        number, position = arcs_leaving(offsets, here.state)
        arc = silent[number]
        cost = here.cost[position] + lattice.cost[arc]
        further = _Pieces(here.entry[position], lattice.dst[arc], cost, count + position, arc)
        memory.hold(len(arc), columns)
        waiting.add(further, lattice.level[further.state])
        count += len(here.entry)
    return joined(found)


def changes(*columns: Integers) -> npt.NDArray[np.bool_]:
    """Marks the first row, and every row that differs from the row before."""
    different = np.zeros(len(columns[0]), bool)
    different[:1] = True
    for column in columns:
        different[1:] |= column[1:] != column[:-1]
    return different
