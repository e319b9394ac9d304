"""Who touches what, and when: the order of accesses to each variable, and the lifetime of each matrix.

Everything is arrays over all accesses of the computation, so that a recurrent net with ten thousand commands
on matrices that are cut into a thousand blocks is analysed with a fixed number of array operations.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from nnet3.computation.commands import AccessKind, AllocMatrix, DeallocMatrix, SegmentMarker
from nnet3.computation.variables import Integers, Variables

if TYPE_CHECKING:
    from nnet3.computation.computation import NnetComputation

READ, WRITE, UPDATE = 1, 2, 3
"""Kinds of access in arrays; UPDATE is a READ and a WRITE, also when one command does both to one variable."""

_KIND = {READ: AccessKind.READ, WRITE: AccessKind.WRITE, UPDATE: AccessKind.UPDATE}


class Accesses:
    """What each command reads, writes and updates, and where matrices are allocated and deallocated.

    `command`, `submatrix`, `kind`: (accesses,), ordered by command, without allocations.
    `allocations`, `deallocations`: lists of (command, matrix).
    """

    def __init__(self, computation: NnetComputation) -> None:
        numbers: list[int] = []
        submatrices: list[int] = []
        kinds: list[AccessKind] = []
        self.allocations: list[tuple[int, int]] = []
        self.deallocations: list[tuple[int, int]] = []
        for number, command in enumerate(computation.commands):
            if isinstance(command, AllocMatrix):
                self.allocations.append((number, computation.submatrices[command.matrix].matrix))
            elif isinstance(command, DeallocMatrix):
                self.deallocations.append((number, computation.submatrices[command.matrix].matrix))
            else:
                for submatrix, kind in command.accesses(computation):
                    numbers.append(number)
                    submatrices.append(submatrix)
                    kinds.append(kind)
        self.command = np.array(numbers, dtype=np.int64)
        self.submatrix = np.array(submatrices, dtype=np.int64)
        # Comparing is several times faster than looking a member of an enum up in a dict.
        read, write = AccessKind.READ, AccessKind.WRITE
        self.kind = np.array([READ if k is read else WRITE if k is write else UPDATE for k in kinds], dtype=np.uint8)


class Analysis:
    """The accesses of a computation by variable and by matrix. Command numbers are positions in its list.

    An allocation is no access: `alloc_command` and `dealloc_command`, (matrices,), say where the (last)
    allocation and deallocation of each matrix are, or -1.
    """

    def __init__(self, computation: NnetComputation) -> None:
        self.computation = computation
        self.num_commands = len(computation.commands)
        self.accesses = Accesses(computation)
        self.alloc_command = self._by_matrix(self.accesses.allocations)
        self.dealloc_command = self._by_matrix(self.accesses.deallocations)
        self._event_keys: dict[int, tuple[Integers, Integers]] = {}

    def _by_matrix(self, pairs: list[tuple[int, int]]) -> Integers:
        result = np.full(len(self.computation.matrices), -1)
        for command, matrix in pairs:
            result[matrix] = command
        return result

    # ---- matrices ----

    @cached_property
    def matrix_of_access(self) -> Integers:
        """The matrix of each access, (accesses,)."""
        matrix_of_submatrix = np.array([s.matrix for s in self.computation.submatrices], dtype=np.int64)
        return matrix_of_submatrix[self.accesses.submatrix]

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
        return Variables(self.computation, np.unique(self.accesses.submatrix))

    @cached_property
    def _events(self) -> tuple[Integers, Integers, npt.NDArray[np.uint8]]:
        """Variable, command and kind of each event, sorted by variable and then by command."""
        variable = self.variables.of_submatrices(self.accesses.submatrix)
        counts = self.variables.counts(self.accesses.submatrix)
        command, kind = np.repeat(self.accesses.command, counts), np.repeat(self.accesses.kind, counts)
        order = np.argsort(variable, kind="stable")  # the accesses are ordered by command already
        variable, command, kind = variable[order], command[order], kind[order]
        is_new = np.ones(len(variable), dtype=bool)
        is_new[1:] = (variable[1:] != variable[:-1]) | (command[1:] != command[:-1])
        starts = np.flatnonzero(is_new)
        if len(starts):
            kind = np.bitwise_or.reduceat(kind, starts)
        return variable[starts], command[starts], kind

    @property
    def event_variable(self) -> Integers:
        """The variable of each event, ascending. An event is all that one command does to one variable."""
        return self._events[0]

    @property
    def event_command(self) -> Integers:
        """The command of each event, ascending within a variable."""
        return self._events[1]

    @property
    def event_kind(self) -> npt.NDArray[np.uint8]:
        """READ, WRITE or UPDATE, for each event."""
        return self._events[2]

    def accesses_of_variable(self, variable: int) -> list[tuple[int, AccessKind]]:
        """The commands that access this variable, in order, and what they do to it."""
        start, end = np.searchsorted(self.event_variable, [variable, variable + 1])
        commands, kinds = self.event_command[start:end].tolist(), self.event_kind[start:end].tolist()
        return [(command, _KIND[kind]) for command, kind in zip(commands, kinds, strict=True)]

    def variables_of(self, submatrix: int) -> Integers:
        """The variables of one sub-matrix."""
        return self.variables.of_submatrices(np.array([submatrix]))

    @cached_property
    def first_event(self) -> Integers:
        """The position of the first event of each variable that has any; see `event_variable`."""
        is_first = np.ones(len(self.event_variable), dtype=bool)
        is_first[1:] = self.event_variable[1:] != self.event_variable[:-1]
        return np.flatnonzero(is_first)

    # ---- questions about the future of a sub-matrix ----

    def next_read(self, submatrices: Integers, at: Integers) -> Integers:
        """For each sub-matrix the first command, from command `at` on, that reads any part of it.

        Shapes (queries,); num_commands where no command does. An update reads and writes.
        """
        return self._next(submatrices, at, READ)

    def next_write(self, submatrices: Integers, at: Integers) -> Integers:
        """As `next_read`, for the first command that writes to any part."""
        return self._next(submatrices, at, WRITE)

    def _next(self, submatrices: Integers, at: Integers, kind: int) -> Integers:
        if len(submatrices) == 0:
            return np.zeros(0, dtype=np.int64)
        keys, command_of_key = self._keys_of_kind(kind)
        counts = self.variables.counts(submatrices)
        assert (counts > 0).all(), "an empty sub-matrix has no accesses"
        variable = self.variables.of_submatrices(submatrices)
        place = np.searchsorted(keys, variable * self._key_base + np.repeat(at, counts))
        last_key = (variable + 1) * self._key_base
        found = np.where(keys[place] < last_key, command_of_key[place], self.num_commands)
        return np.minimum.reduceat(found, np.cumsum(counts) - counts)

    @property
    def _key_base(self) -> int:
        return self.num_commands + 1

    def _keys_of_kind(self, kind: int) -> tuple[Integers, Integers]:
        """Sorted keys (variable, command) of the events of a kind, and their commands; both with an end mark."""
        if kind not in self._event_keys:
            chosen = (self.event_kind & kind) != 0
            keys = self.event_variable[chosen] * self._key_base + self.event_command[chosen]
            end = np.iinfo(np.int64).max
            self._event_keys[kind] = np.append(keys, end), np.append(self.event_command[chosen], self.num_commands)
        return self._event_keys[kind]


def segment_of_command(computation: NnetComputation) -> Integers:
    """The number of the segment in which each command stands, (commands,); a marker ends its segment."""
    is_marker = np.array([isinstance(c, SegmentMarker) for c in computation.commands], dtype=np.int64)
    return np.cumsum(is_marker) - is_marker
