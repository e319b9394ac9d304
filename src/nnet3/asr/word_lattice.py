"""Lattices of words: of all paths of a search with the same words, the best one alone."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from nnet3.asr.columns import Waiting, joined, part
from nnet3.asr.raw_lattice import RawLattice
from nnet3.asr.search_graph import arcs_leaving
from nnet3.kaldi_io import Fst
from nnet3.kaldi_io.lattice import Lattice, Strings

Integers = npt.NDArray[np.integer]
Doubles = npt.NDArray[np.float64]
_NONE = -1
_BYTES = 8  # of a number
_NUMBERS_OF_SET = 16  # with its place in a dictionary
_NARROWER = 0.75
_NARROWEST_BEAM = 0.01
_SAME = 2.0**-13  # costs this close are taken for equal, where that only makes the lattice smaller
_MIX = np.array([0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB], np.uint64)


class _Pieces(NamedTuple):
    """Ways without words from a state where a word is over to others: `entry` (the state that each begins at), `state`
    (where it is), `cost`, and the way and the arc that it goes on from (-1 where it begins)."""

    entry: Integers
    state: Integers
    cost: Doubles
    before: Integers
    arc: Integers


_P = TypeVar("_P", "_Pieces", "_Spoken")


class _Members(NamedTuple):
    """States in sets: the number of the set, the number among the members of all sets, the lattice's state, and what it
    costs more than the best of its set."""

    set: Integers
    member: Integers
    entry: Integers
    excess: Doubles


class _Ways(NamedTuple):
    """Arcs of words out of members of sets: the set, the member, the cost of the best path to the set; the word, which
    leads from the set to another one, the state that the arc leads to, its cost, and its number."""

    set: Integers
    member: Integers
    best: Doubles
    word: Integers
    dst: Integers
    cost: Doubles
    arc: Integers


class _Spoken(NamedTuple):
    """Arcs of words between states where words are over: the way up to the word's arc, and that arc."""

    src: Integers
    dst: Integers
    word: Integers
    cost: Doubles
    piece: Integers
    arc: Integers


class WordLattice(NamedTuple):
    """A lattice of words, and the beam within which it has all paths."""

    lattice: Lattice
    beam: float

    def notices(self, beam: float) -> list[str]:
        """Says so if the beam is narrower than this one, which was asked for."""
        if self.beam >= beam:
            return []
        return [f"the lattice needs too much memory: its beam is {self.beam:.3g} instead of {beam:.3g} (max-mem)"]


class _TooLargeError(Exception):
    """What is made of a lattice needs more memory than it may have."""


class _Memory:
    """Counts what is held of so many bytes, by the numbers of rows and columns. Infinite: any number."""

    def __init__(self, most_bytes: float):
        self._left = most_bytes

    def hold(self, rows: int, columns: int) -> None:
        self._left -= _BYTES * rows * columns
        if self._left < 0:
            raise _TooLargeError

    def release(self, rows: int, columns: int) -> None:
        self._left += _BYTES * rows * columns

    def check(self, rows: int, columns: int) -> None:
        """Raises _TooLargeError if so much could not be held besides."""
        self.hold(rows, columns)
        self.release(rows, columns)


def word_lattice(lattice: RawLattice, beam: float, most_bytes: float = np.inf, minimize: bool = False) -> WordLattice:
    """Returns the paths within the beam; no two of them have the same words. Strings of transition-ids are complete.

    Lattices are determinized for that: a set of states that words lead to, each with what it costs more than the best
    one, is one state. Then each set is taken apart again, so that each path keeps its own transition-ids: a sequence of
    words leads to one set, and from there the best path backward is known. A word that leads on from a set stays if the
    best path through both is within the beam; so paths beyond it that consist of such words stay too, as in Kaldi's
    lattices. With `minimize`, states are one from which the same paths go on.

    Sets can be exponentially many. Where they need more than `most_bytes`, the beam is narrowed; the best path is left
    in any case.
    """
    narrowed = beam
    while narrowed >= _NARROWEST_BEAM:
        try:
            return WordLattice(
                _word_lattice(lattice.pruned(narrowed), narrowed, _Memory(most_bytes), minimize), narrowed
            )
        except (_TooLargeError, MemoryError):
            narrowed *= _NARROWER
    return WordLattice(_word_lattice(lattice.best_path(), 0.0, _Memory(np.inf), minimize), 0.0)


def _word_lattice(lattice: RawLattice, beam: float, memory: _Memory, minimize: bool) -> Lattice:
    """Determinizes a lattice that is pruned already."""
    most = lattice.best_cost + beam + _SAME
    pieces = _pieces(lattice, most + beam, memory)
    spoken = _spoken(lattice, pieces, memory)
    last_piece = _last_pieces(lattice, pieces)
    end_cost = np.where(last_piece >= 0, _total(lattice, pieces)[last_piece], np.inf)
    sets = _Sets(lattice, spoken, end_cost, most, memory)
    order = np.argsort(sets.entry, kind="stable")
    number: Integers = np.empty_like(order)
    number[order] = np.arange(len(order))
    arcs = np.argsort(number[sets.src], kind="stable")
    state, arc = sets.entry[order], sets.spoken[arcs]
    none = np.zeros(len(arcs), np.int64)
    words = RawLattice(
        lattice.row_of_state[state],
        lattice.depth[state],
        number[sets.src[arcs]],
        number[sets.dst[arcs]],
        spoken.word[arc],
        none,
        spoken.cost[arc],
        none.astype(np.float64),
        sets.final[order],
    )
    kept = words.backward < np.inf
    kept_arcs, final = kept[words.dst], words.final_cost
    number = np.cumsum(kept) - 1
    state, arc, final = state[kept], arc[kept_arcs], final[kept]
    src, dst = number[words.src[kept_arcs]], number[words.dst[kept_arcs]]
    if minimize:
        first, number, chosen = _merged(words.level[kept], state, final, src, dst, arc)
        state, final = state[first], final[first]
        src, dst, arc = number[src[chosen]], number[dst[chosen]], arc[chosen]
    rows = lattice.row_of_state
    memory.check(int((rows[spoken.dst[arc]] - rows[spoken.src[arc]]).sum()), 1)
    ids, graph, acoustic = _walked(lattice, pieces, spoken.piece[arc], spoken.arc[arc])
    ends = np.where(final < np.inf, last_piece[state], _NONE)
    final_ids, final_graph, final_acoustic = _walked(lattice, pieces, ends)
    final_graph += np.where(ends >= 0, lattice.final_cost[pieces.state[ends]], np.inf)
    fst = Fst.from_arcs(0, final_graph, src, dst, spoken.word[arc], graph)
    return Lattice(fst, acoustic.astype(np.float32), final_acoustic.astype(np.float32), ids, final_ids)


def _merged(
    level: Integers, state: Integers, final: Doubles, src: Integers, dst: Integers, arc: Integers
) -> tuple[Integers, Integers, Integers]:
    """Merges states from which the same paths go on, the last levels first.

    Returns the first one of each kind in the order of states, the kind of each state, and the arcs of these first ones.
    Arcs are sorted by `src`; `arc` says which of the lattice's way and word each is.
    """
    kind: Integers = _mixed(state, np.isfinite(final).astype(np.int64)).view(np.int64)
    by_level = np.argsort(level[src], kind="stable")
    edges = np.searchsorted(level[src][by_level], np.unique(level))
    for arcs in np.split(by_level, edges[1:])[::-1]:
        added = _mixed(arc[arcs], kind[dst[arcs]]).view(np.int64)
        with np.errstate(over="ignore"):
            np.add.at(kind, src[arcs], added)
    _, first, of_kind = np.unique(kind, return_index=True, return_inverse=True)
    order = np.argsort(first)
    number = np.empty_like(order)
    number[order] = np.arange(len(order))
    is_first = np.zeros(len(state), bool)
    is_first[first] = True
    return first[order], number[of_kind], np.flatnonzero(is_first[src])


def _walked(
    lattice: RawLattice, pieces: _Pieces, piece: Integers, last: Integers | None = None
) -> tuple[Strings, Doubles, Doubles]:
    """Returns transition-ids, graph costs and acoustic costs of ways up to pieces (-1: none), and of `last` arcs."""
    count = len(piece)
    way = np.flatnonzero(piece >= 0)
    piece = piece[way]
    whole: list[tuple[Integers, Integers]] = [(way[:0], way[:0]) if last is None else (np.arange(count), last)]
    while True:
        way, piece = way[pieces.arc[piece] >= 0], piece[pieces.arc[piece] >= 0]
        if not len(way):
            break
        whole.append((way, pieces.arc[piece]))
        piece = pieces.before[piece]
    way, arc = (np.concatenate(column) for column in zip(*whole[::-1], strict=True))
    order = np.argsort(way, kind="stable")
    way, arc = way[order], arc[order]
    graph, acoustic = (np.zeros(count) for _ in range(2))
    np.add.at(graph, way, lattice.graph_cost[arc])
    np.add.at(acoustic, way, lattice.acoustic_cost[arc])
    emits = lattice.transition_id[arc] > 0
    offsets = np.append(0, np.cumsum(np.bincount(way[emits], minlength=count)))
    return Strings(offsets, lattice.transition_id[arc[emits]].astype(np.int32)), graph, acoustic


def _pieces(lattice: RawLattice, most: float, memory: _Memory) -> _Pieces:
    """Follows arcs without words from the start and from behind each word, level by level."""
    is_entry = np.zeros(lattice.num_states, bool)
    is_entry[0] = is_entry[lattice.dst[lattice.word > 0]] = True
    silent = np.flatnonzero(lattice.word == 0)
    offsets = np.searchsorted(lattice.src[silent], np.arange(lattice.num_states + 1))
    waiting = Waiting[_Pieces]()
    entries = np.flatnonzero(is_entry)
    started = _Pieces(entries, entries, np.zeros(len(entries)), *np.full((2, len(entries)), _NONE))
    columns = len(started)
    memory.hold(len(entries), columns)
    waiting.add(started, lattice.level[entries])
    found, count = [], 0
    for level in range(int(lattice.level[-1]) + 1):
        arrived = waiting.take(level)
        if arrived is None:
            continue
        here = _best_of_each(arrived, arrived.entry * np.int64(lattice.num_states) + arrived.state)
        found.append(here)
        memory.release(len(arrived.entry) - len(here.entry), columns)
        memory.check(int(np.diff(offsets)[here.state].sum()), columns)
        number, place = arcs_leaving(offsets, here.state)
        arc = silent[number]
        entry, cost = here.entry[place], here.cost[place] + lattice.cost[arc]
        good = np.flatnonzero(lattice.forward[entry] + cost + lattice.backward[lattice.dst[arc]] <= most)
        arc = arc[good]
        further = _Pieces(entry[good], lattice.dst[arc], cost[good], count + place[good], arc)
        memory.hold(len(arc), columns)
        waiting.add(further, lattice.level[further.state])
        count += len(here.entry)
    return joined(found)


def _best_of_each(values: _P, key: Integers) -> _P:
    """Returns of the rows of equal keys the cheapest one each."""
    order = np.lexsort((values.cost, key))
    return part(values, order[_changes(key[order])])


def _spoken(lattice: RawLattice, pieces: _Pieces, memory: _Memory) -> _Spoken:
    """Returns the arcs of words behind all pieces; between two states the cheapest of each word. Sorted by `src`."""
    memory.hold(int(np.diff(lattice.offsets)[pieces.state].sum()), len(_Spoken._fields))
    arc, piece = arcs_leaving(lattice.offsets, pieces.state)
    cost = pieces.cost[piece] + lattice.cost[arc]
    entry, dst, word = pieces.entry[piece], lattice.dst[arc], lattice.word[arc].astype(np.int64)
    all_arcs = part(_Spoken(entry, dst, word, cost, piece, arc), word > 0)
    _, word_number = np.unique(all_arcs.word, return_inverse=True)
    states = np.int64(lattice.num_states)
    return _best_of_each(all_arcs, (all_arcs.src * states + all_arcs.dst) * (len(word) + 1) + word_number)


def _total(lattice: RawLattice, pieces: _Pieces) -> Doubles:
    """The cost of each piece and of ending there, (pieces,)."""
    return pieces.cost + lattice.final_cost[pieces.state]


def _last_pieces(lattice: RawLattice, pieces: _Pieces) -> Integers:
    """Returns the piece that ends the lattice from each state behind a word, (states,); -1 where none does."""
    total = _total(lattice, pieces)
    ending = np.flatnonzero(total < np.inf)
    order = ending[np.lexsort((-ending, total[ending]))[::-1]]
    last = np.full(lattice.num_states, _NONE)
    last[pieces.entry[order]] = order  # of several the last one in order, which is the cheapest
    return last


class _Sets:
    """Determinizes arcs of words. The members of all sets are the states of the result.

    entry: (members,), the lattice's state. src, dst: (arcs,), members, and `spoken` the arc between their states.
    final: (members,), the cost of ending for the one member of a set that ends it best, infinite for others.
    """

    def __init__(self, lattice: RawLattice, spoken: _Spoken, end_cost: Doubles, most: float, memory: _Memory):
        self._lattice, self._spoken, self._end_cost, self._most = lattice, spoken, end_cost, most
        self._memory = memory
        self._offsets = np.searchsorted(spoken.src, np.arange(lattice.num_states + 1))
        self._number_of_hash: dict[int, int] = {}
        self._best = np.zeros(0)  # cost of the best path to each set
        self._first_member = np.zeros(0, np.int64)
        self._waiting = Waiting[_Members]()
        self._entries: list[Integers] = []
        self._arcs: list[tuple[Integers, Integers, Integers]] = [(np.zeros(0, np.int64),) * 3]
        self._ends: list[tuple[Integers, Doubles]] = []
        start = np.zeros(1, np.int64)
        self._enter(start, start, np.zeros(1), np.zeros(1))
        for level in range(int(lattice.level[-1]) + 1):
            members = self._waiting.take(level)
            if members is not None:
                self._expand(members)
                memory.release(len(members.set), len(members))
        self.entry = np.concatenate(self._entries)
        self.src, self.dst, self.spoken = (np.concatenate(column) for column in zip(*self._arcs, strict=True))
        self.final = np.full(len(self.entry), np.inf)
        for member, cost in self._ends:
            self.final[member] = cost

    def _expand(self, members: _Members) -> None:
        """Follows all words from some sets, to which no further path leads."""
        best = self._best[members.set]
        self._end(members, best)
        self._memory.check(int(np.diff(self._offsets)[members.entry].sum()), len(_Ways._fields))
        arc, place = arcs_leaving(self._offsets, members.entry)
        spoken = self._spoken
        cost = members.excess[place] + spoken.cost[arc]
        of_member = members.set[place], members.member[place], best[place]
        ways = _Ways(*of_member, spoken.word[arc], spoken.dst[arc], cost, arc)
        if not len(ways.arc):
            return
        ways = part(ways, np.lexsort((ways.cost, ways.dst, ways.word, ways.set)))
        ways = part(ways, _changes(ways.set, ways.word, ways.dst))
        is_new = _changes(ways.set, ways.word)
        total = np.minimum.reduceat(ways.best + ways.cost + self._lattice.backward[ways.dst], np.flatnonzero(is_new))
        ways = part(ways, (total <= self._most)[np.cumsum(is_new) - 1])
        if not len(ways.arc):
            return
        is_new = _changes(ways.set, ways.word)
        group, starts = np.cumsum(is_new) - 1, np.flatnonzero(is_new)
        least = np.minimum.reduceat(ways.cost, starts)
        member = self._enter(group, ways.dst, ways.cost - least[group], ways.best[starts] + least)
        self._memory.hold(len(member), len(self._arcs[0]))
        self._arcs.append((ways.member, member, ways.arc))

    def _end(self, members: _Members, best: Doubles) -> None:
        total = members.excess + self._end_cost[members.entry]
        good = np.flatnonzero(best + total <= self._most)
        order = good[np.lexsort((total[good], members.set[good]))]
        first = order[_changes(members.set[order])]
        self._ends.append((members.member[first], self._end_cost[members.entry[first]]))

    def _enter(self, group: Integers, entry: Integers, excess: Doubles, path_cost: Doubles) -> Integers:
        """Finds the sets of groups of states, sorted in each group, or makes them; returns the member of each state.

        path_cost: (groups,), the cost of the best path that leads there.
        """
        starts = np.flatnonzero(_changes(group))
        sizes = np.diff(np.append(starts, len(group)))
        key = np.add.reduceat(_mixed(entry, np.round(excess / _SAME).astype(np.int64)), starts).tolist()
        known = len(self._number_of_hash)
        number = np.array([self._number_of_hash.setdefault(each, len(self._number_of_hash)) for each in key], np.int64)
        made = np.unique(number, return_index=True)[1]
        made = made[number[made] >= known]
        made = made[np.argsort(number[made])]  # groups that are new sets, in the order of their numbers
        index, place = arcs_leaving(np.append(starts, len(group)), made)
        first = sum(map(len, self._entries)) + np.cumsum(sizes[made]) - sizes[made]
        self._first_member = np.append(self._first_member, first)
        self._best = np.append(self._best, np.full(len(made), np.inf))
        np.minimum.at(self._best, number, path_cost)
        member = self._first_member[number][group] + np.arange(len(group)) - starts[group]
        self._memory.hold(len(index), 1 + len(_Members._fields))
        self._memory.hold(len(made), _NUMBERS_OF_SET)
        self._entries.append(entry[index])
        level = self._lattice.level[entry[starts[made]]][place]
        self._waiting.add(_Members(number[made][place], member[index], entry[index], excess[index]), level)
        return member


def _changes(*columns: Integers) -> npt.NDArray[np.bool_]:
    """Marks rows that differ from the one before; the first one too."""
    different = np.zeros(len(columns[0]), bool)
    different[:1] = True
    for column in columns:
        different[1:] |= column[1:] != column[:-1]
    return different


def _mixed(first: Integers, second: Integers) -> npt.NDArray[np.uint64]:
    with np.errstate(over="ignore"):
        mixed = first.astype(np.uint64) * _MIX[0] + second.astype(np.uint64) * _MIX[1]
        mixed = (mixed ^ (mixed >> np.uint64(29))) * _MIX[2]
        return mixed ^ (mixed >> np.uint64(32))
