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


class _Ways(NamedTuple):
    """Arcs with labels out of members of sets.

    `set`, `graph`, `acoustic`, `ids`: the member's; `best`: the cost of the best path through the set and the label.
    """

    set: Integers
    arc: Integers
    best: Doubles
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
        self._waiting, self._levels = Waiting[_Ways](), list[Integers]()
        self._arcs, self._ends = list[LabelledArcs](), list[SetEnds]()
        self._begin()
        for level in np.unique(lattice.level).tolist():
            ways = self._waiting.take(level)
            if ways is not None:
                self._follow(ways)

    def _begin(self) -> None:
        """Enters the states reached without a label as the first set, ids in common left where they are."""
        leaps = self._leaps
        leap = np.arange(leaps.offsets[1])
        members = _Members(0 * leap, leaps.state[leap], leaps.graph[leap], leaps.acoustic[leap], leaps.ids[leap])
        self._open(self._enter(members, np.zeros(1))[1])

    def _follow(self, ways: _Ways) -> None:
        """Follows all ways to sets of a level, the best label first, to sets just behind the labels, and on from there.

        As in Kaldi, a set is close to many, and joins the first: behind labels, and again where labels are ahead.
        """
        lattice, leaps = self._lattice, self._leaps
        ways = part(ways, np.lexsort((lattice.label[ways.arc], ways.set, ways.best)))
        first = changes(ways.set, lattice.label[ways.arc])
        self._memory.check(int(np.diff(leaps.offsets)[lattice.dst[ways.arc]].sum()), 2 * len(_Members._fields))
        graph, acoustic = ways.graph + lattice.graph_cost[ways.arc], ways.acoustic + lattice.acoustic_cost[ways.arc]
        ids = chained(ways.ids, lattice.ids[ways.arc])
        said, common = _best_members(_Members(np.cumsum(first) - 1, lattice.dst[ways.arc], graph, acoustic, ids))
        kind = np.array(_first_close(said, dict[int, list[tuple[int, Doubles]]](), 0), np.int64)
        source, label = ways.set[first], lattice.label[ways.arc[first]]
        is_new = np.unique(kind, return_index=True)[1]
        said = part(said, np.isin(said.set, is_new))
        leap, position = arcs_leaving(leaps.offsets, said.state)
        graph, acoustic = said.graph[position] + leaps.graph[leap], said.acoustic[position] + leaps.acoustic[leap]
        of, ids = np.searchsorted(is_new, said.set)[position], chained(said.ids[position], leaps.ids[leap])
        found, rest = _best_members(_Members(of, leaps.state[leap], graph, acoustic, ids))
        path = self._best[source[is_new]] + (common.graph + common.acoustic)[is_new]
        target, made = self._enter(found, path + (rest.graph + rest.acoustic))
        on = part(rest, kind)
        weights = common.graph + on.graph, common.acoustic + on.acoustic, chained(common.ids, on.ids)
        self._arcs.append(LabelledArcs(source, target[kind], label, *weights))
        self._memory.hold(len(source), _NUMBERS_OF_ARC)
        self._open(made)

    def _open(self, members: _Members) -> None:
        """Ends new sets, and lets the ways out of them wait."""
        self._end(members)
        self._wait(members)

    def _wait(self, members: _Members) -> None:
        """Lets the good arcs with labels out of members wait for the level of the set they lead to.

        A group is one set and one label. An arc is good if its group's best path is within the beam.
        """
        lattice, leaps = self._lattice, self._leaps
        number, position = arcs_leaving(self._offsets, members.state)
        arc = self._labelled[number]
        order = np.lexsort((lattice.label[arc], members.set[position]))
        order = order[np.diff(leaps.offsets)[lattice.dst[arc[order]]] > 0]
        arc, of = arc[order], part(members, position[order])
        through = self._best[of.set] + of.graph + of.acoustic
        through += lattice.cost[arc] + lattice.backward[lattice.dst[arc]]
        is_first = changes(of.set, lattice.label[arc])
        starts, group = np.flatnonzero(is_first), np.cumsum(is_first) - 1
        if len(starts):
            through = np.minimum.reduceat(through, starts)[group]
            state = np.minimum.reduceat(leaps.state[leaps.offsets[lattice.dst[arc]]], starts)[group]
            good = through <= self._most
            ways = part(_Ways(of.set, arc, through, of.graph, of.acoustic, of.ids), good)
            self._waiting.add(ways, lattice.level[state[good]])
        self._memory.release(len(members.set) + len(members.ids.values) // 2, len(members))

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

    def _enter(self, members: _Members, path_cost: Doubles) -> tuple[Integers, _Members]:
        """Finds the sets of groups of members, in order, or makes new sets.

        Returns the set of each group, and the members of new sets.

        path_cost: (groups,), the cost of the best path to the group.
        """
        starts = np.flatnonzero(changes(members.set))
        sizes = np.diff(np.append(starts, len(members.set)))
        known = len(self._best)
        number = np.array(_first_close(members, self._sets_of_hash, known), np.int64)
        made = np.unique(number, return_index=True)[1]
        made = made[number[made] >= known]  # groups that are new sets, in the order of their numbers
        self._best = np.append(self._best, path_cost[made])
        index, position = arcs_leaving(np.append(starts, len(members.set)), made)
        new = part(members, index)._replace(set=number[made][position])
        if not len(made):
            return number, new
        self._memory.hold(len(index) + len(new.ids.values) // 2, 1 + len(_Members._fields))
        self._memory.hold(len(made), _NUMBERS_OF_SET)
        first = np.cumsum(sizes[made]) - sizes[made]
        self._levels.append(np.minimum.reduceat(self._lattice.level[new.state], first))
        return number, new

    def result(self) -> LabelSets:
        return LabelSets(np.concatenate(self._levels), joined([NO_ARCS, *self._arcs]), joined(self._ends))


class _Common(NamedTuple):
    """What all members of a set have in common."""

    graph: Doubles
    acoustic: Doubles
    ids: Strings


def _best_members(reached: _Members) -> tuple[_Members, _Common]:
    """Keeps the best way to each state of each set; costs and ids of members are beyond what the set has in common."""
    graph, total = reached.graph, reached.graph + reached.acoustic
    order = np.lexsort((graph, total, reached.state, reached.set))  # of equal costs, less of the graph: as Kaldi
    order = order[changes(reached.set[order], reached.state[order])]
    kept, total = part(reached, order), total[order]
    starts = np.flatnonzero(changes(kept.set))
    best = np.lexsort((kept.graph, total, kept.set))[starts]
    count, group = common_lengths(kept.ids, starts), kept.set
    common = _Common(kept.graph[best], kept.acoustic[best], first_values(kept.ids[best], count))
    excess = kept.graph - common.graph[group], kept.acoustic - common.acoustic[group]
    return _Members(group, kept.state, *excess, without_first(kept.ids, count[group])), common


def _first_close(members: _Members, known: dict[int, list[tuple[int, Doubles]]], count: int) -> list[int]:
    """Returns the number of each set, that of the first known set with costs that differ a little at most, as in Kaldi.

    Other sets get numbers from `count` on, and are known then: `known` has the numbers and costs of sets by a hash of
    states and ids.
    """
    starts = np.flatnonzero(changes(members.set))
    excess = np.split(members.graph + members.acoustic, starts[1:])
    keys = np.add.reduceat(mixed(members.state, hashes(members.ids)), starts).tolist()
    numbers = list[int]()
    for key, costs in zip(keys, excess, strict=True):
        alike = known.setdefault(key, [])
        number = next((number for number, close in alike if (np.abs(costs - close) < _SAME).all()), count)
        if number == count:
            alike.append((number, costs))
            count += 1
        numbers.append(number)
    return numbers


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
