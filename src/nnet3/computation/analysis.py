"""Who touches what, and when: the order of accesses to each variable, and the lifetime of each matrix.

Everything is arrays over all accesses of the computation, so that a recurrent net with ten thousand commands
on matrices that are cut into a thousand blocks is analysed with a fixed number of array operations.

A loop (from a label to the goto at the end) is read twice, so that what one round leaves is seen by the next: accesses
have a *place*. The place of a command is its number, and that of command c in the second reading of a loop is
num_commands + c - (number of the label). Without a loop places and commands are the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from nnet3.computation.commands_control import Goto, Label, NoOp, SegmentMarker
from nnet3.computation.declarations import AccessKind, Command, Life, Operand, Table, submatrices_of
from nnet3.computation.variables import Integers, Variables, matrix_sizes, submatrix_table
from nnet3.index import distinct

if TYPE_CHECKING:
    from nnet3.computation.computation import NnetComputation

READ, WRITE, UPDATE = int(AccessKind.READ), int(AccessKind.WRITE), int(AccessKind.UPDATE)
"""Kinds of access in arrays; UPDATE is a READ and a WRITE, also when one command does both to one variable."""


class Accesses:
    """What each command reads, writes and updates, and where matrices are allocated and deallocated.

    `command`, `submatrix`, `kind`: (accesses,), ordered by command, without allocations.
    `allocations`, `deallocations`: lists of (command, matrix). `numbers_of_class`: the commands of each class.
    """

    def __init__(self, computation: NnetComputation) -> None:
        self._computation = computation
        self.allocations: list[tuple[int, int]] = []
        self.deallocations: list[tuple[int, int]] = []
        self._parts: list[tuple[Integers, Integers, int]] = []
        self.numbers_of_class: dict[type[Command], list[int]] = defaultdict(list)
        for number, command in enumerate(computation.commands):
            self.numbers_of_class[type(command)].append(number)
        for command_class, numbers in self.numbers_of_class.items():
            self._add_class(command_class, numbers)
        self.command = np.concatenate([np.zeros(0, np.int64), *(part[0] for part in self._parts)])
        self.submatrix = np.concatenate([np.zeros(0, np.int64), *(part[1] for part in self._parts)])
        kinds, counts = [part[2] for part in self._parts], [len(part[0]) for part in self._parts]
        self.kind = np.repeat(np.array(kinds, dtype=np.uint8), counts)
        order = np.argsort(self.command, kind="stable")
        order = order[self.submatrix[order] != 0]
        self.command, self.submatrix, self.kind = self.command[order], self.submatrix[order], self.kind[order]

    def _add_class(self, command_class: type[Command], numbers: list[int]) -> None:
        form, all_commands = command_class.form, self._computation.commands
        if not form.operand_fields and not form.table_fields:
            return
        commands = [all_commands[number] for number in numbers]
        at = np.array(numbers, dtype=np.int64)
        for name, declared, several in (*form.operand_fields, *form.table_fields):
            values = list(map(attrgetter(name), commands))
            if isinstance(declared, Operand) and declared.access is None:
                self._add_lives(declared.life, numbers, values)
            elif isinstance(declared, Table) and declared.access is not None:
                submatrices = {table: submatrices_of(self._computation, table) for table in set(values)}
                self._add(at, [submatrices[table] for table in values], declared.access)
            elif isinstance(declared, Operand) and several and declared.access is not None:
                self._add(at, values, declared.access)
            elif isinstance(declared, Operand) and declared.access is not None:
                self._parts.append((at, np.array(values, dtype=np.int64), declared.access))

    def _add(self, at: Integers, values: Sequence[Sequence[int] | Integers], kind: int) -> None:
        """Several sub-matrices for each command."""
        counts = list(map(len, values))
        flat = np.fromiter(chain.from_iterable(values), np.int64, sum(counts))
        self._parts.append((np.repeat(at, counts), flat, kind))

    def _add_lives(self, life: Life | None, numbers: list[int], values: list[int]) -> None:
        blocks = self._computation.submatrices
        pairs = [(number, blocks[s].matrix) for number, s in zip(numbers, values, strict=True)]
        (self.allocations if life is Life.BEGINS else self.deallocations).extend(pairs)


def find_loop(computation: NnetComputation) -> tuple[int, int] | None:
    """The label and the goto of the loop of a computation, if it has one."""
    number = len(computation.commands) - 1
    while number >= 0 and isinstance(computation.commands[number], NoOp):
        number -= 1
    last = computation.commands[number] if number >= 0 else None
    return (computation.commands.index(Label(last.label)), number) if isinstance(last, Goto) else None


class Analysis:
    """The accesses of a computation by variable and by matrix. Command numbers are positions in its list.

    An allocation is no access: `alloc_command` and `dealloc_command`, (matrices,), say where the (last)
    allocation and deallocation of each matrix are, or -1.
    """

    def __init__(self, computation: NnetComputation) -> None:
        self.computation = computation
        self.num_commands = len(computation.commands)
        self.loop = find_loop(computation)
        self.num_places = self.num_commands + (self.loop[1] - self.loop[0] + 1 if self.loop else 0)
        self.accesses = Accesses(computation)
        self.alloc_command = self._by_matrix(self.accesses.allocations)
        self.dealloc_command = self._by_matrix(self.accesses.deallocations)
        self._event_keys: dict[int, tuple[Integers, Integers]] = {}

    def place_to_command(self, places: Integers) -> Integers:
        """The commands that stand at these places."""
        if self.loop is None:
            return places
        return np.where(places < self.num_commands, places, places - self.num_commands + self.loop[0])

    def _by_matrix(self, pairs: list[tuple[int, int]]) -> Integers:
        result = np.full(len(self.computation.matrices), -1)
        for command, matrix in pairs:
            result[matrix] = command
        return result

    @cached_property
    def placed_accesses(self) -> tuple[Integers, Integers, npt.NDArray[np.uint8]]:
        """Place, sub-matrix and kind of each access, by place: those of a loop are there twice."""
        place, submatrix, kind = self.accesses.command, self.accesses.submatrix, self.accesses.kind
        if self.loop is None:
            return place, submatrix, kind
        again = np.flatnonzero(place >= self.loop[0])
        place = np.append(place, place[again] + self.num_commands - self.loop[0])
        return place, np.append(submatrix, submatrix[again]), np.append(kind, kind[again])

    # ---- matrices ----

    @cached_property
    def table(self) -> Integers:
        """All sub-matrices, see `submatrix_table`."""
        return submatrix_table(self.computation)

    @cached_property
    def matrix_of_access(self) -> Integers:
        """The matrix of each access, (accesses,)."""
        return self.table[self.accesses.submatrix, 0]

    @cached_property
    def first_access(self) -> Integers:
        """The first command that accesses each matrix, (matrices,); num_commands where there is none."""
        first = np.full(len(self.computation.matrices), self.num_commands)
        np.minimum.at(first, self.matrix_of_access, self.accesses.command)
        return first

    @cached_property
    def last_access(self) -> Integers:
        """The last command that accesses each matrix, (matrices,); -1 where there is none."""
        last = np.full(len(self.computation.matrices), -1)
        np.maximum.at(last, self.matrix_of_access, self.accesses.command)
        return last

    # ---- variables ----

    @cached_property
    def variables(self) -> Variables:
        return Variables(self.table, matrix_sizes(self.computation), distinct(self.accesses.submatrix))

    @cached_property
    def _events(self) -> tuple[Integers, Integers, npt.NDArray[np.uint8]]:
        """Variable, place and kind of each event, sorted by variable and then by place."""
        place, submatrix, kind = self.placed_accesses
        variable = self.variables.of_submatrices(submatrix)
        counts = self.variables.counts(submatrix)
        key = variable * self._key_base + np.repeat(place, counts)
        order = np.argsort(key, kind="stable")
        key, kind = key[order], np.repeat(kind, counts)[order]
        is_new = np.ones(len(key), dtype=bool)
        is_new[1:] = key[1:] != key[:-1]
        starts = np.flatnonzero(is_new)
        if len(starts):
            kind = np.bitwise_or.reduceat(kind, starts)
        variable, place = np.divmod(key[starts], self._key_base)
        return variable, place, kind

    @property
    def event_variable(self) -> Integers:
        """The variable of each event, ascending. An event is all that one command does to one variable."""
        return self._events[0]

    @property
    def event_place(self) -> Integers:
        """The place of each event, ascending within a variable."""
        return self._events[1]

    @cached_property
    def event_command(self) -> Integers:
        """The command of each event."""
        return self.place_to_command(self.event_place)

    @property
    def event_kind(self) -> npt.NDArray[np.uint8]:
        """READ, WRITE or UPDATE, for each event."""
        return self._events[2]

    def accesses_of_variable(self, variable: int) -> list[tuple[int, AccessKind]]:
        """The commands that access this variable, in order, and what they do to it."""
        start, end = np.searchsorted(self.event_variable, [variable, variable + 1])
        places, kinds = self.event_place[start:end].tolist(), self.event_kind[start:end].tolist()
        return [(p, AccessKind(kind)) for p, kind in zip(places, kinds, strict=True) if p < self.num_commands]

    def variables_of(self, submatrix: int) -> Integers:
        """The variables of one sub-matrix."""
        return self.variables.of_submatrices(np.array([submatrix]))

    @cached_property
    def first_event(self) -> Integers:
        """The position of the first event of each variable that has any; see `event_variable`."""
        is_first = np.ones(len(self.event_variable), dtype=bool)
        is_first[1:] = self.event_variable[1:] != self.event_variable[:-1]
        return np.flatnonzero(is_first)

    @cached_property
    def source_of_event(self) -> Integers:
        """For each event that of the latest write before it, whose value it finds; -1 if it finds none, (events,).

        In the second reading of a loop that may be a write of the round before. A matrix that is allocated in between
        holds nothing of it.
        """
        variable, place = self.event_variable, self.event_place
        latest = np.where((self.event_kind & WRITE) != 0, np.arange(len(variable)), -1)
        latest = np.append(-1, np.maximum.accumulate(latest)[:-1]) if len(latest) else latest
        found = (latest >= 0) & (variable[latest] == variable)
        if self.loop is not None:
            label = self.loop[0]
            allocated = self.alloc_command[self.variables.matrix_of(variable)]
            allocated = np.where(allocated > label, allocated + self.num_commands - label, -1)
            found &= ~((place[latest] < allocated) & (allocated < place))
        return np.where(found, latest, -1)

    # ---- questions about the future of a sub-matrix ----

    def next_read(self, submatrices: Integers, at: Integers) -> Integers:
        """For each sub-matrix the place of the first command, from place `at` on, that reads any part of it.

        Shapes (queries,); num_places where no command does. An update reads and writes.
        """
        return self._next(submatrices, at, READ)

    def next_write(self, submatrices: Integers, at: Integers) -> Integers:
        """As `next_read`, for the first command that writes to any part."""
        return self._next(submatrices, at, WRITE)

    def _next(self, submatrices: Integers, at: Integers, kind: int) -> Integers:
        if len(submatrices) == 0:
            return np.zeros(0, dtype=np.int64)
        keys, place_of_key = self._keys_of_kind(kind)
        counts = self.variables.counts(submatrices)
        assert (counts > 0).all(), "an empty sub-matrix has no accesses"
        variable = self.variables.of_submatrices(submatrices)
        place = np.searchsorted(keys, variable * self._key_base + np.repeat(at, counts))
        last_key = (variable + 1) * self._key_base
        found = np.where(keys[place] < last_key, place_of_key[place], self.num_places)
        return np.minimum.reduceat(found, np.cumsum(counts) - counts)

    def places_of(self, commands: Integers) -> list[Integers]:
        """The places of these commands in each reading: one without a loop, else two.

        A command that stands before the loop has its one place in both.
        """
        if self.loop is None:
            return [commands]
        return [commands, np.where(commands >= self.loop[0], commands + self.second_round, commands)]

    @property
    def second_round(self) -> int:
        """How much later than a command its place in the second reading of a loop is."""
        return self.num_commands - self.loop[0] if self.loop else 0

    def events_at(self, submatrices: Integers, at: Integers) -> Integers:
        """The events of all variables of these sub-matrices at these places, sub-matrix by sub-matrix."""
        keys = self.event_variable * self._key_base + self.event_place
        wanted = self.variables.of_submatrices(submatrices) * self._key_base
        return np.searchsorted(keys, wanted + np.repeat(at, self.variables.counts(submatrices)))

    @property
    def _key_base(self) -> int:
        return self.num_places + 1

    def _keys_of_kind(self, kind: int) -> tuple[Integers, Integers]:
        """Sorted keys (variable, place) of the events of a kind, and their places; both with an end mark."""
        if kind not in self._event_keys:
            chosen = (self.event_kind & kind) != 0
            keys = self.event_variable[chosen] * self._key_base + self.event_place[chosen]
            end = np.iinfo(np.int64).max
            self._event_keys[kind] = np.append(keys, end), np.append(self.event_place[chosen], self.num_places)
        return self._event_keys[kind]


def analyse(computation: NnetComputation) -> Analysis:
    """The analysis of a computation, kept for the next who asks if its commands and tables are still the same."""
    tables = [id(table) for table in computation.multi_tables]
    parts: list[list[Any]] = [computation.commands, computation.submatrices, computation.matrices, tables]
    kept = computation.__dict__.get("_analysis")
    if kept is not None and kept[0] == parts:  # fast, since most elements are the same objects
        return kept[1]
    analysis = Analysis(computation)
    # The tables are kept as well, so that no other one gets their ids.
    computation.__dict__["_analysis"] = [list(part) for part in parts], analysis, list(computation.multi_tables)
    return analysis


def forget_analysis(computation: NnetComputation) -> None:
    """Give back the memory of what `analyse` has kept."""
    computation.__dict__.pop("_analysis", None)


def segment_of_command(computation: NnetComputation) -> Integers:
    """The number of the segment in which each command stands, (commands,); a marker ends its segment."""
    is_marker = np.array([isinstance(c, SegmentMarker) for c in computation.commands], dtype=np.int64)
    return np.cumsum(is_marker) - is_marker
