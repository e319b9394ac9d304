"""Def-use analysis: the order of accesses to each variable, and the live range of each matrix.

Results are arrays over all accesses of the computation: a recurrent net with ten thousand commands
on matrices cut into a thousand blocks is analysed with a fixed number of array operations.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import cache, cached_property, partial
from itertools import chain, pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from nnet3.base.index import concatenate_ranges, distinct
from nnet3.engine.ir.commands_control import ProvideOutput
from nnet3.engine.ir.commands_memory import AllocMatrix
from nnet3.engine.ir.declarations import AccessMode, Command, Life, submatrices_of
from nnet3.engine.ir.variables import Integers, Variables, matrix_sizes, submatrix_table

if TYPE_CHECKING:
    from nnet3.engine.ir.computation import NnetComputation

READ, WRITE, UPDATE = int(AccessMode.READ), int(AccessMode.WRITE), int(AccessMode.UPDATE)
"""Kinds of access in arrays; UPDATE is a READ and a WRITE, also when one command does both to one variable."""


class Accesses:
    """All accesses of a computation, and the changes of its matrices' live ranges.

    `command`, `submatrix` and `mode` are arrays, (accesses,), ordered by command, without allocations. `lives` lists
    (command, matrix) for each Life; `allocations` and `deallocations` are two of the lists. `numbers_of_class` lists
    the commands of each class, `memo_uses` (command, memo); `memo_makers` has the maker of each memo.
    """

    def __init__(self, computation: NnetComputation) -> None:
        self._computation = computation
        self.lives: dict[Life, list[tuple[int, int]]] = {life: [] for life in Life}
        self.allocations, self.deallocations = self.lives[Life.BEGINS], self.lives[Life.ENDS]
        self.memo_makers: dict[int, int] = {}
        self.memo_uses: list[tuple[int, int]] = []
        self._found: list[tuple[Integers, Integers, int]] = []
        self.numbers_of_class: dict[type[Command], list[int]] = defaultdict(list)
        for number, command in enumerate(computation.commands):
            self.numbers_of_class[type(command)].append(number)
        for command_class, numbers in self.numbers_of_class.items():
            self._add_class(command_class, numbers)
        self.command = np.concatenate([np.zeros(0, np.int64), *(each[0] for each in self._found)])
        self.submatrix = np.concatenate([np.zeros(0, np.int64), *(each[1] for each in self._found)])
        modes, counts = [each[2] for each in self._found], [len(each[0]) for each in self._found]
        self.mode = np.repeat(np.array(modes, dtype=np.uint8), counts)
        order = np.flatnonzero(self.submatrix)
        order = order[np.argsort(self.command[order], kind="stable")]
        self.command, self.submatrix, self.mode = self.command[order], self.submatrix[order], self.mode[order]

    def _add_class(self, command_class: type[Command], numbers: list[int]) -> None:
        schema, all_commands = command_class.schema, self._computation.commands
        commands = [all_commands[number] for number in numbers]
        self.memo_makers.update((memo, number) for number, memo in _memos(schema.makes_memo, numbers, commands))
        self.memo_uses += _memos(schema.uses_memo, numbers, commands)
        blocks, at = self._computation.submatrices, np.array(numbers, dtype=np.int64)
        for name, life in schema.lives:
            matrices = [blocks[getattr(command, name)].matrix for command in commands]
            self.lives[life] += zip(numbers, matrices, strict=True)
        for name, access, several, is_table in schema.accessed:
            values = map(attrgetter(name), commands)
            if is_table:
                submatrices = cache(partial(submatrices_of, self._computation))
                self._add(at, list(map(submatrices, values)), access)
            elif several:
                self._add(at, list(values), access)
            else:
                self._found.append((at, np.fromiter(values, np.int64, len(numbers)), access))

    def _add(self, at: Integers, values: Sequence[Sequence[int] | Integers], mode: int) -> None:
        """Add accesses of several sub-matrices by each command."""
        counts = list(map(len, values))
        flat = np.fromiter(chain.from_iterable(values), np.int64, sum(counts))
        self._found.append((np.repeat(at, counts), flat, mode))


def _memos(field: str, numbers: list[int], commands: list[Command]) -> list[tuple[int, int]]:
    """Returns (command, memo) for each command with a memo in `field`; none without the field."""
    memos = map(attrgetter(field), commands) if field else ()
    return [(number, memo) for number, memo in zip(numbers, memos, strict=False) if memo >= 0]


class Analysis:
    """Def-use chains by variable and live ranges by matrix. A command is its position in the computation's list.

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
    def begins_as_zeros(self) -> npt.NDArray[np.bool_]:
        """A mask, (matrices,), of the matrices allocated as zeros."""
        zeros = np.zeros(len(self.computation.matrices), dtype=bool)
        for number, matrix in self.accesses.allocations:
            command = self.computation.commands[number]
            zeros[matrix] = isinstance(command, AllocMatrix) and command.zeroed
        return zeros

    @cached_property
    def is_provided(self) -> npt.NDArray[np.bool_]:
        """A mask, (matrices,), of the matrices handed to the user."""
        provided = np.zeros(len(self.computation.matrices), dtype=bool)
        for number in self.accesses.numbers_of_class.get(ProvideOutput, ()):
            for source in ProvideOutput.schema.operands(self.computation.commands[number]):
                provided[self.table[source, 0]] = True
        return provided

    @cached_property
    def table(self) -> Integers:
        """The table of all sub-matrices; see `submatrix_table`."""
        return submatrix_table(self.computation)

    @cached_property
    def matrix_of_access(self) -> Integers:
        """The matrix of each access, (accesses,)."""
        return self.table[self.accesses.submatrix, 0]

    @cached_property
    def first_access(self) -> Integers:
        """The commands of the first accesses to matrices, (matrices,); num_commands without an access."""
        first = np.full(len(self.computation.matrices), self.num_commands)
        np.minimum.at(first, self.matrix_of_access, self.accesses.command)
        return first

    @cached_property
    def last_access(self) -> Integers:
        """The commands of the last accesses to matrices, (matrices,); -1 without an access."""
        last = np.full(len(self.computation.matrices), -1)
        np.maximum.at(last, self.matrix_of_access, self.accesses.command)
        return last

    # ---- variables ----

    @cached_property
    def variables(self) -> Variables:
        return Variables(self.table, matrix_sizes(self.computation), distinct(self.accesses.submatrix))

    @cached_property
    def _events(self) -> tuple[Integers, Integers, npt.NDArray[np.uint8]]:
        """The variable, command and mode of each event, sorted by variable and then by command."""
        submatrix, mode = self.accesses.submatrix, self.accesses.mode
        variable = self.variables.of_submatrices(submatrix)
        counts = self.variables.counts(submatrix)
        key = variable * self._key_base + np.repeat(self.accesses.command, counts)
        order = np.argsort(key, kind="stable")
        key, mode = key[order], np.repeat(mode, counts)[order]
        is_new = np.ones(len(key), dtype=bool)
        is_new[1:] = key[1:] != key[:-1]
        starts = np.flatnonzero(is_new)
        if len(starts):
            mode = np.bitwise_or.reduceat(mode, starts)
        variable, command = np.divmod(key[starts], self._key_base)
        return variable, command, mode

    @property
    def event_variable(self) -> Integers:
        """The variables of the events, ascending. An event is all accesses of a command to a variable."""
        return self._events[0]

    @property
    def event_command(self) -> Integers:
        """The command of each event, ascending within a variable."""
        return self._events[1]

    @property
    def event_mode(self) -> npt.NDArray[np.uint8]:
        """READ, WRITE or UPDATE, for each event."""
        return self._events[2]

    def commands_between(self, submatrices: Sequence[int], after: Sequence[int], last: int) -> list[list[int]]:
        """Returns the commands behind `after`, up to `last`, that access a part of each sub-matrix, ascending."""
        blocks = np.array(submatrices, np.int64)
        first_keys, counts = self.variables.of_submatrices(blocks) * self._key_base, self.variables.counts(blocks)
        begin = np.searchsorted(self._keys, first_keys + np.repeat(np.array(after, np.int64), counts), side="right")
        num_events = np.searchsorted(self._keys, first_keys + last, side="right") - begin
        query = np.repeat(np.repeat(np.arange(len(blocks)), counts), num_events)
        commands = self.event_command[concatenate_ranges(begin, num_events)]
        query, commands = np.divmod(distinct(query * self._key_base + commands), self._key_base)
        ends, found = np.searchsorted(query, np.arange(len(blocks) + 1)).tolist(), commands.tolist()
        return [found[first:end] for first, end in pairwise(ends)]

    @cached_property
    def first_event(self) -> Integers:
        """The position of the first event of each variable with events; see `event_variable`."""
        is_first = np.ones(len(self.event_variable), dtype=bool)
        is_first[1:] = self.event_variable[1:] != self.event_variable[:-1]
        return np.flatnonzero(is_first)

    @cached_property
    def source_of_event(self) -> Integers:
        """The event of the latest write before each event, whose value the event finds; -1 for none, (events,)."""
        variable = self.event_variable
        latest = np.where((self.event_mode & WRITE) != 0, np.arange(len(variable)), -1)
        latest = np.append(-1, np.maximum.accumulate(latest)[:-1]) if len(latest) else latest
        return np.where((latest >= 0) & (variable[latest] == variable), latest, -1)

    # ---- questions about the future of a sub-matrix ----

    def next_access(self, submatrices: Integers, at: Integers, mode: int) -> Integers:
        """Returns the first command, from command `at` on, that reads or writes any part of each sub-matrix.

        `mode`: READ or WRITE; an update is both. Result: (queries,), num_commands where no command does.
        """
        if len(submatrices) == 0:
            return np.zeros(0, dtype=np.int64)
        keys, command_of_key = self._keys_of_mode(mode)
        counts = self.variables.counts(submatrices)
        assert (counts > 0).all(), "an empty sub-matrix has no accesses"
        variable = self.variables.of_submatrices(submatrices)
        position = np.searchsorted(keys, variable * self._key_base + np.repeat(at, counts))
        last_key = (variable + 1) * self._key_base
        found = np.where(keys[position] < last_key, command_of_key[position], self.num_commands)
        return np.minimum.reduceat(found, np.cumsum(counts) - counts)

    def events_at(self, submatrices: Integers, at: Integers) -> Integers:
        """Returns the events of all variables of each sub-matrix at its command `at`, sub-matrix by sub-matrix."""
        wanted = self.variables.of_submatrices(submatrices) * self._key_base
        return np.searchsorted(self._keys, wanted + np.repeat(at, self.variables.counts(submatrices)))

    @cached_property
    def _keys(self) -> Integers:
        """The keys (variable, command) of all events, sorted."""
        return np.asarray(self.event_variable * self._key_base + self.event_command)

    @property
    def _key_base(self) -> int:
        return self.num_commands + 1

    def _keys_of_mode(self, mode: int) -> tuple[Integers, Integers]:
        """Returns the sorted keys (variable, command) of the events of a mode and their commands, with end marks."""
        if mode not in self._event_keys:
            chosen = (self.event_mode & mode) != 0
            commands = self.event_command[chosen]
            keys, end = self.event_variable[chosen] * self._key_base + commands, np.iinfo(np.int64).max
            self._event_keys[mode] = np.append(keys, end), np.append(commands, self.num_commands)
        return self._event_keys[mode]


def analyse(computation: NnetComputation) -> Analysis:
    """Returns the analysis of a computation, kept from the last call while commands and tables stay the same."""
    tables = [id(table) for table in computation.multi_tables]
    compared: list[list[Any]] = [computation.commands, computation.submatrices, computation.matrices, tables]
    kept = computation._analysis
    if kept is not None and kept[0] == compared:  # fast, since most elements are the same objects
        found: Analysis = kept[1]
        return found
    analysis = Analysis(computation)
    # The tables are kept as well, so that no other one gets their ids.
    computation._analysis = [list(each) for each in compared], analysis, list(computation.multi_tables)
    return analysis


def forget_analysis(computation: NnetComputation) -> None:
    """Free the analysis kept by `analyse`."""
    computation._analysis = None
