"""Ragged programs: a program for sequences of one length, restricted to the rows that shorter sequences have.

The sequences of a minibatch are ordered by falling length, so that the rows of time t that exist are the first of its
rows, and what is left of a range of rows is a range. A row of time t of a sequence that is d frames shorter than the
longest exists if t is at least d before the end of its node. So a sub-matrix of the restricted program is found by
counting: of rows [a, b) there remain those from count[a] up to count[b], where count[i] is how many of the first i
rows exist.

The rows of a matrix that holds one time step after the other (see `lowering.sharing`) have no time of their own. They
have, at each command, that of the other operands: what computes row by row reads and writes rows of the same indexes.
What moves rows between times moves those that exist on both sides; a row whose source does not exist becomes zero
where it is copied, and stays what it is where it is added to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, starmap
from typing import Any, NamedTuple

import numpy as np

from nnet3.families.precomputed import Entry, KernelRules
from nnet3.index import NO_TIME, IndexTable, N, T, find_rows
from nnet3.ir import commands as cmd
from nnet3.ir.computation import IoInfo, KernelRows, Matrix, MatrixInfo, NnetComputation, OutsideMatrix, SubMatrix
from nnet3.ir.declarations import AccessKind, Command, OperandField, with_operands, with_values
from nnet3.ir.kernel import KernelInfo
from nnet3.ir.repeats import repeats, unrolled, with_references_moved

_NEVER = 1 << 40  # so many frames are missing where there is no sequence
ALWAYS = _NEVER >> 1  # so far before the end are rows that every sequence has
_PADDING = -1  # and so far rows that none has


def _names_of_operands(command: Command) -> list[str]:
    """Returns the name of the field of each operand."""
    return [
        field.name
        for field in command.form.operand_fields
        for _ in (getattr(command, field.name) if field.several else (None,))
    ]


def _is_row_by_row(kernel: KernelInfo) -> bool:
    """True if the rows of its inputs are those of its output: so are those of what may lie in one place."""
    return kernel.row_by_row or any(promises.propagate_in_place for promises in kernel.inputs)


def _same_rows(one: IndexTable, other: IndexTable) -> bool:
    """True if two tables have the same rows, and padding at the same places."""
    is_real = one[:, T] != NO_TIME
    return np.array_equal(one[:, T], other[:, T]) and np.array_equal(one[is_real], other[is_real])


class NotRaggedError(Exception):
    """A program cannot be restricted to shorter sequences; the message says why."""


#: From rows of a node to how far before its end each is, (rows,).
Distances = Callable[[MatrixInfo], np.ndarray]


#: Where the first row of an operand stands in the list of all indexes: a number, or that of a version and a distance;
#: None for operands without samples.
_Place = int | tuple[int, int] | None


class _Rows:
    """The indexes of all matrices whose rows have times, each table once; -1 is the first row of the others."""

    def __init__(self, computation: NnetComputation, distances: Distances) -> None:
        self.base: dict[int, int] = {}
        self.rooms: set[int] = set()
        known: dict[bytes, int] = {}
        parts = [np.zeros((0, 2), np.int64)]
        size = 0

        def add(info: MatrixInfo) -> int:
            nonlocal size
            is_padding = info.indexes[:, T] == NO_TIME  # type: ignore[index]
            keys = np.stack([info.indexes[:, N], np.where(is_padding, _PADDING, distances(info))], axis=1)  # type: ignore[index]
            if keys.tobytes() not in known:
                known[keys.tobytes()] = size
                parts.append(keys)
                size += len(keys)
            return known[keys.tobytes()]

        self.of_entries = {
            entry: add(MatrixInfo(rows.node, False, rows.outputs))
            for entry, rows in enumerate(computation.precomputed_rows, 1)
        }
        for matrix in range(1, len(computation.matrices)):
            info = computation.matrix_info.get(matrix)
            if not computation.has_samples(matrix):
                continue
            if info is None or info.indexes is None:
                raise NotRaggedError(f"the rows of matrix m{matrix} have no indexes")
            if (info.indexes[:, T] == NO_TIME).all():
                self.rooms.add(matrix)
            else:
                self.base[matrix] = add(info)
        table = np.concatenate(parts)
        self.n, self.before_end = table[:, 0], table[:, 1]

    def same(self, one: int, other: int, count: int) -> bool:
        """True if two ranges of rows have the same indexes, counted from the ends."""
        return one == other or (
            np.array_equal(self.n[one : one + count], self.n[other : other + count])
            and np.array_equal(self.before_end[one : one + count], self.before_end[other : other + count])
        )

    def single_time(self, first: int, count: int) -> int | None:
        """Returns how far before the end these rows lie, None if they are of several times or not in order of n."""
        times, n = self.before_end[first : first + count], self.n[first : first + count]
        return int(times[0]) if (times == times[0]).all() and (n[1:] >= n[:-1]).all() else None


class _Versions:
    """The contents of rooms: each write makes a new version, whose times are those of the commands that use it."""

    def __init__(self, computation: NnetComputation, rows: _Rows) -> None:
        self._computation, self._rows = computation, rows
        self._now = {
            room: np.full(computation.matrices[room].num_cols, -1, dtype=np.int64) for room in sorted(rows.rooms)
        }
        self._parent: list[int] = []
        self._first: list[int] = []  # the place of row 0 of the room, -1 as long as it is not known
        self.rooms: list[int] = []

    def read(self, number: int) -> _Place:
        """Returns the place of a sub-matrix that is read or updated."""
        block = self._computation.submatrices[number]
        if block.matrix in self._rows.base:
            return self._rows.base[block.matrix] + block.row_offset
        if block.matrix not in self._now:
            return None
        columns = self._now[block.matrix][block.col_offset : block.col_offset + block.num_cols]
        version = int(columns[0])
        if version < 0:
            raise NotRaggedError(f"matrix m{block.matrix} is read before it is written")
        for other in np.unique(columns).tolist() if (columns != version).any() else ():
            self._join(version, other)
        return version, block.row_offset

    def write(self, number: int) -> _Place:
        """Returns the place of a sub-matrix that is overwritten."""
        block = self._computation.submatrices[number]
        if block.matrix not in self._now:
            return self.read(number)
        self._now[block.matrix][block.col_offset : block.col_offset + block.num_cols] = len(self._parent)
        self._parent.append(len(self._parent))
        self._first.append(-1)
        self.rooms.append(block.matrix)
        return len(self._parent) - 1, block.row_offset

    def unify(self, one: _Place, other: _Place, count: int) -> None:
        """Note that two operands of `count` rows are of the same indexes."""
        if one is None or other is None:
            raise NotRaggedError("rows with and without samples meet")
        if isinstance(one, tuple) and isinstance(other, tuple):
            if one[1] != other[1]:
                raise NotRaggedError("rows of two rooms meet at different places")
            self._join(one[0], other[0])
        elif isinstance(one, tuple):
            self._settle(one[0], other - one[1])  # type: ignore[operator]
        elif isinstance(other, tuple):
            self._settle(other[0], one - other[1])
        elif not self._rows.same(one, other, count):
            raise NotRaggedError("a command that works row by row has operands of different times")

    def place(self, place: _Place) -> int:
        """Returns the place as a number, once all is known; -1 for operands without samples."""
        if not isinstance(place, tuple):
            return -1 if place is None else place
        first = self._first[self._root(place[0])]
        if first < 0:
            raise NotRaggedError(f"nothing says which times rows of matrix m{self.rooms[place[0]]} have")
        return first + place[1]

    def is_known(self, place: _Place) -> bool:
        return not isinstance(place, tuple) or self._first[self._root(place[0])] >= 0

    def firsts(self) -> Iterator[tuple[int, int]]:
        """Yields each room and the place of its row 0 at some time."""
        for version, room in enumerate(self.rooms):
            if (first := self._first[self._root(version)]) >= 0:
                yield room, first

    def _root(self, version: int) -> int:
        while self._parent[version] != version:
            self._parent[version] = version = self._parent[self._parent[version]]
        return version

    def _settle(self, version: int, first: int) -> None:
        root = self._root(version)
        known, count = self._first[root], self._computation.matrices[self.rooms[root]].num_rows
        if first < 0 or (known >= 0 and not self._rows.same(known, first, count)):
            raise NotRaggedError(f"rows of matrix m{self.rooms[root]} are of two times at once")
        self._first[root] = first if known < 0 else known

    def _join(self, one: int, other: int) -> None:
        one, other = self._root(one), self._root(other)
        if one == other:
            return
        first = self._first[other]
        self._parent[other] = one
        if first >= 0:
            self._settle(one, first)


@dataclass(frozen=True, eq=False)
class Slots:
    """The sub-matrices of a ragged program, as arrays (slots,).

    With count[i] existing rows among the first i of all indexes, slot s begins at row start[s] + count[begin[s]] -
    count[origin[s]] + skipped of its matrix and has rows[s] + count[last[s]] - count[first[s]] - skipped rows, where
    skipped = count[after[s]] - count[before[s]]; where `whole` is set it is all rows of its matrix.
    """

    matrix: np.ndarray
    start: np.ndarray
    rows: np.ndarray
    begin: np.ndarray
    origin: np.ndarray
    first: np.ndarray
    last: np.ndarray
    before: np.ndarray
    after: np.ndarray
    whole: np.ndarray
    column: np.ndarray
    columns: np.ndarray


_ROWS_OF_SLOTS = ("start", "rows", "begin", "origin", "first", "last", "before", "after")


class _SlotTable:
    """Declares slots."""

    def __init__(self, computation: NnetComputation) -> None:
        self._computation = computation
        self._known: dict[tuple[int, ...], int] = {}
        self.rows: list[tuple[int, ...]] = []
        self.blocks: list[SubMatrix] = []
        self.plain(0, -1)

    def plain(self, number: int, place: int) -> int:
        """Returns the slot of a sub-matrix whose first row has this place, -1 if it has no samples."""
        block = self._computation.submatrices[number]
        if place < 0:
            return self._add(number, block.row_offset, block.num_rows, 0, 0, 0, 0)
        return self._counted(number, place, place, block.num_rows)

    def limited(self, number: int, place: int, to: int) -> int:
        """Returns as many of its first rows as remain of those at place `to`."""
        return self._counted(number, place, to, self._computation.submatrices[number].num_rows)

    def orphans(self, number: int, place: int, source: int) -> int:
        """Returns its rows behind those that `limited` gives."""
        count = self._computation.submatrices[number].num_rows
        return self._counted(number, place, place, count, source, source + count)

    def whole(self, number: int) -> int:
        return self._add(number, 0, 0, 0, 0, 0, 0, whole=1)

    def _counted(self, number: int, place: int, counted: int, rows: int, before: int = 0, after: int = 0) -> int:
        origin = place - self._computation.submatrices[number].row_offset
        return self._add(number, 0, 0, place, origin, counted, counted + rows, before, after)

    def _add(
        self,
        number: int,
        start: int,
        rows: int,
        begin: int,
        origin: int,
        first: int,
        last: int,
        before: int = 0,
        after: int = 0,
        whole: int = 0,
    ) -> int:
        block = self._computation.submatrices[number]
        row = (block.matrix, start, rows, begin, origin, first, last, before, after, whole, *block[3:5])
        found = self._known.setdefault(row, len(self.rows))
        if found == len(self.rows):
            self.rows.append(row)
            self.blocks.append(block)
        return found

    def slots(self) -> Slots:
        return Slots(*np.array(self.rows, dtype=np.int64).T.copy())


class _KernelRows(NamedTuple):
    """Rows of one side of a kernel: the place of the first one and the indexes of all."""

    place: int
    indexes: IndexTable


class _Unlike(NamedTuple):
    """The place of an operand, and that of as many rows of the output of its kernel, which are of other times."""

    place: int
    output: int
    num_rows: int


@dataclass(frozen=True, eq=False)
class _Entry:
    """What a precomputed entry is made of. `orders_rows`: its kernel may want its rows in another order, or padded."""

    node: str
    runs_backward: bool
    orders_rows: bool
    inputs: _KernelRows
    outputs: _KernelRows


@dataclass(frozen=True, eq=False)
class _Table:
    """A side table of a command and the places of the rows it names.

    `own`: the place of the first row of the operand that has a row for each entry, -1 without samples.
    """

    kind: str
    number: int
    own: int
    count: int
    other: int | Mapping[int, int]  # of a multi table by slot


class RaggedProgram:
    """A program for sequences of one length, as one for all lengths up to that.

    `template`: the program with a sub-matrix for each slot, and side tables of its own for each command.
    """

    refusals: tuple[str, ...] = ()

    def __init__(self, computation: NnetComputation, distances: Distances) -> None:
        """`distances`: from rows of a node to how far before its end each is. Raises NotRaggedError."""
        self.computation = unrolled(computation)
        self.rows = _Rows(computation, distances)
        versions = _Versions(self.computation, self.rows)
        #: The operands of kernels that have other rows than the output, by command and operand; see `_Unlike`.
        self.unlike: dict[int, dict[int, _Unlike]] = {}
        self._worked_on: list[tuple[cmd.Propagate | cmd.Backprop, _Place, int]] = []
        placed = [self._places(command, versions) for command in self.computation.commands]
        self._rows_worked_on = [(each, versions.place(place), count) for each, place, count in self._worked_on]
        #: True where a kernel wants rows of equal sequences as they are, by entry, length and number of sequences.
        self.in_order: dict[tuple[int, int, int], bool] = {}
        self.entries: list[_Entry | None] = [None] * len(computation.precomputed)
        for command, (places, _) in zip(self.computation.commands, placed, strict=True):
            if isinstance(command, cmd.Propagate) and command.precomputed:
                self.entries[command.precomputed] = self._entry(command, [versions.place(place) for place in places])
        table = _SlotTable(self.computation)
        self._tables: list[_Table] = []
        self.unlike_of: dict[int, dict[int, _Unlike]] = {}  # the same, by command with slots
        tables: dict[str, Any] = {"index_tables": [], "multi_tables": [], "range_tables": []}
        made = [
            self._restricted(command, places, versions, table, tables)
            for command, places in zip(self.computation.commands, placed, strict=True)
        ]
        self._zero_orphans(made)

        def slot_of(number: int) -> int:
            return table.plain(number, versions.place(versions.read(number)) if number else -1)

        ios = [number for io in (*computation.inputs, *computation.outputs) for number in (io.value, io.deriv)]
        if any(computation.submatrices[number].matrix in self.rows.rooms for number in ios):
            raise NotRaggedError("an input or output has no times")
        self._ios = {
            (io.name, is_deriv): (self.computation.submatrices[number], versions.place(versions.read(number)))
            for io in (*computation.inputs, *computation.outputs)
            for is_deriv, number in ((False, io.value), (True, io.deriv))
            if number
        }
        self.template = replace(
            computation,
            commands=[],
            outside=[OutsideMatrix(o.name, slot_of(o.submatrix), o.writable) for o in computation.outside],
            inputs=[IoInfo(io.name, slot_of(io.value), slot_of(io.deriv)) for io in computation.inputs],
            outputs=[IoInfo(io.name, slot_of(io.value), slot_of(io.deriv)) for io in computation.outputs],
            submatrices=table.blocks,
            attachments=None,
            **tables,
        )
        self._slots = table.slots()
        self._number_slots(list(self._rolled(computation, made)))
        rooms = sorted(set(versions.firsts()))
        self._room, self._first_of_room = np.array(rooms, dtype=np.int64).reshape(-1, 2).T
        self._room_rows = np.array([computation.matrices[room].num_rows for room, _ in rooms], dtype=np.int64)
        self._matrix_rows = np.array([matrix.num_rows for matrix in computation.matrices], dtype=np.int64)
        based = sorted(self.rows.base)
        self._based = np.array(based, dtype=np.int64)
        self._base = np.array([self.rows.base[matrix] for matrix in based], dtype=np.int64)

    def _number_slots(self, items: list[Command | _Loop]) -> None:
        """Give a number to each sub-matrix that programs for all lengths have: slots outside of loops, then columns."""
        template = self.template
        plain = [(item, command) for item, command in enumerate(items) if not isinstance(command, _Loop)]
        loops = [item for item in items if isinstance(item, _Loop)]
        slots = [(item, slot) for item, command in plain for slot in command.form.operands(command)]
        self._owner, self._slot_of_owner = np.array(slots, dtype=np.int64).reshape(-1, 2).T
        named = [0, *(o.submatrix for o in template.outside)]
        named += [number for io in (*template.inputs, *template.outputs) for number in (io.value, io.deriv)]
        named += [slot for loop in loops for operands in loop.operands for slot in operands if slot >= 0]
        named += [slot for table in self._tables if isinstance(table.other, Mapping) for slot in table.other]
        used = np.unique(np.concatenate([self._slot_of_owner, np.array(named, dtype=np.int64)]))
        self.used = used.tolist()
        self.number_of_slot = dict(zip(self.used, range(len(used)), strict=True))
        number = self.number_of_slot
        self.items, first = list[tuple[Command | _Loop, Command | list[Command]]](), len(used)
        for item in items:
            if isinstance(item, _Loop):
                item = replace(item, first_number=first, alike=self._columns_alike(item.slots))
                first += item.slots.shape[1]
                pairs = zip(item.body, item.operands, strict=True)
                refs = [[number[s] if s >= 0 else item.first_number - 1 - s for s in each] for _, each in pairs]
                self.items.append((item, list(map(with_operands, item.body, refs))))
            else:
                operands = item.form.operands(item)
                self.items.append((item, with_operands(item, [number[s] for s in operands]) if operands else item))
        self.columns = [loop.slots for loop in loops]
        kernels = cmd.Propagate | cmd.Backprop
        special = [i for i, (item, _) in enumerate(self.items) if isinstance(item, kernels) and self.is_special(item)]
        self._special = np.array(special, dtype=np.int64)
        self.template = replace(
            template,
            outside=[OutsideMatrix(o.name, number[o.submatrix], o.writable) for o in template.outside],
            inputs=[IoInfo(io.name, number[io.value], number[io.deriv]) for io in template.inputs],
            outputs=[IoInfo(io.name, number[io.value], number[io.deriv]) for io in template.outputs],
        )

    def is_special(self, command: cmd.Propagate | cmd.Backprop) -> bool:
        """True if a kernel's command, with slots, may need its rows in another order, or not all of them."""
        entry = self.entries[command.precomputed]
        return id(command) in self.unlike_of or (entry is not None and entry.orders_rows)

    def _columns_alike(self, slots: np.ndarray) -> np.ndarray:
        """Returns for each column of slots the first one whose rows begin and end at the same rows of its matrix."""
        rows = np.array([getattr(self._slots, name) for name in _ROWS_OF_SLOTS])
        known: dict[bytes, int] = {}
        firsts = [known.setdefault(rows[:, column].tobytes(), number) for number, column in enumerate(slots.T)]
        return np.array(firsts, dtype=np.int64)

    def lost(self, rows: np.ndarray) -> np.ndarray:
        """Returns which items have an operand without rows, or are commands of kernels that may need more, (items,)."""
        result = np.zeros(len(self.items), dtype=bool)
        result[self._owner[(rows[self._slot_of_owner] == 0) & (self._slot_of_owner > 0)]] = True
        result[self._special] = True
        return result

    def _zero_orphans(self, made: list[list[Command]]) -> None:
        """Let matrices begin as zeros in which copies leave rows without a source, if nobody has used these before."""
        for matrix in sorted({self._block_of(c, 0).matrix for c, each in enumerate(made) if len(each) > 1}):
            first_use = np.full(self.computation.matrices[matrix].num_rows, len(made))
            for number in range(len(made) - 1, -1, -1):
                for submatrix, _ in self.computation.commands[number].accesses(self.computation):
                    block = self.computation.submatrices[submatrix]
                    if block.matrix == matrix:
                        first_use[block.row_offset : block.row_offset + block.num_rows] = number
            copies = [c for c, each in enumerate(made) if len(each) > 1 and self._block_of(c, 0).matrix == matrix]
            blocks = [self._block_of(c, 0) for c in copies]
            firsts = [first_use[b.row_offset : b.row_offset + b.num_rows] for b in blocks]
            if all((first == c).all() for c, first in zip(copies, firsts, strict=True)):
                for copy in copies:
                    del made[copy][1:]
                for number, command in enumerate(self.computation.commands):
                    if isinstance(command, cmd.AllocMatrix) and self._block_of(number, 0).matrix == matrix:
                        made[number] = [with_values(made[number][0], zeroed=True)]

    def _block_of(self, command: int, operand: int) -> SubMatrix:
        numbers = self.computation.commands[command].form.operands(self.computation.commands[command])
        return self.computation.submatrices[numbers[operand]]

    def _rolled(self, computation: NnetComputation, made: list[list[Command]]) -> Iterator[Command | _Loop]:
        """Yields the commands, those of each Repeat as a loop if every turn has the same ones."""
        begin = at = 0
        for repeat, body in repeats(computation):
            before = body.start - 1 - begin
            yield from chain.from_iterable(made[at : at + before])
            at, begin = at + before, body.stop
            turns = made[at : at + repeat.turns * repeat.length]
            at += len(turns)
            kernels = (c for each in turns for c in each if isinstance(c, cmd.Propagate | cmd.Backprop))
            loop = None if any(map(self.is_special, kernels)) else _loop(repeat, turns)
            if loop is None:
                yield from chain.from_iterable(turns)
            else:
                yield loop
        yield from chain.from_iterable(made[at:])

    # ---- which rows operands have ----

    def _places(self, command: Command, versions: _Versions) -> Any:
        """Returns the places of the operands of a command, and of the sub-matrices that its multi table names."""
        if isinstance(command, cmd.Propagate | cmd.Backprop):
            return self._places_of_kernel(command, versions), {}
        places = []
        for name, declared, _ in command.form.operand_fields:
            assert isinstance(declared, OperandField)
            number = getattr(command, name)
            if declared.access is AccessKind.WRITE or (declared.access is None and name == "matrix"):
                ends = isinstance(command, cmd.DeallocMatrix)
                places.append(None if ends else versions.write(number))
            else:
                places.append(versions.read(number))
        if isinstance(command, cmd.AllocMatrix | cmd.SetConst) and isinstance(places[0], tuple):
            block = self.computation.submatrices[command.form.operands(command)[0]]
            if block.num_rows != self.computation.matrices[block.matrix].num_rows:
                raise NotRaggedError("a part of a room is set")
        of_table = {}
        if isinstance(command, cmd.CopyRowsMulti | cmd.AddRowsMulti | cmd.AddToRowsMulti):
            numbers = np.unique(self.computation.multi_tables[command.table][:, 0])
            of_table = {number: versions.read(number) for number in numbers[numbers >= 0].tolist()}
        return places, of_table

    def _places_of_kernel(self, command: cmd.Propagate | cmd.Backprop, versions: _Versions) -> list[_Place]:
        places: list[_Place] = []
        fields = [
            (number, field.declared.access)  # type: ignore[union-attr]
            for field in command.form.operand_fields
            for number in (getattr(command, field.name) if field.several else (getattr(command, field.name),))
        ]
        is_row_by_row = _is_row_by_row(self.computation.kernels[command.kernel])
        names = _names_of_operands(command)
        sides = [is_row_by_row or name.startswith("output") for name in names]
        own = "output" if isinstance(command, cmd.Propagate) else "output_deriv"
        made_of = self.computation.precomputed_rows[command.precomputed - 1].outputs if command.precomputed else None
        # What a command overwrites becomes a new version after it has read the old one.
        found: dict[int, _Place] = {
            i: versions.read(number) for i, (number, access) in enumerate(fields) if access is not AccessKind.WRITE
        }
        found |= {i: versions.write(number) for i, (number, access) in enumerate(fields) if access is AccessKind.WRITE}
        places = [found[i] for i in range(len(fields))]
        for of_output in (True, False):
            sampled = [i for i, place in enumerate(places) if place is not None and sides[i] is of_output]
            main = max(
                sampled, key=lambda i: (self._is_of_node(fields[i][0], command.node), names[i] == own), default=0
            )
            count = self.computation.submatrices[fields[main][0]].num_rows
            if main in sampled and made_of is not None and len(made_of) == count and is_row_by_row:
                versions.unify(places[main], self.rows.of_entries[command.precomputed], count)
            if sampled and sides[main]:
                self._worked_on.append((command, places[main], count))
            for i in sampled:
                if self.computation.submatrices[fields[i][0]].num_rows != count:
                    raise NotRaggedError(f"node {command.node} has operands of different numbers of samples")
                place, first = places[i], places[main]
                if isinstance(place, int) and isinstance(first, int) and not self.rows.same(place, first, count):
                    self.unlike.setdefault(id(command), {})[i] = _Unlike(place, first, count)
                else:
                    versions.unify(first, place, count)
        return places

    def _is_of_node(self, number: int, node: str) -> bool:
        info = self.computation.matrix_info.get(self.computation.submatrices[number].matrix)
        return info is not None and info.node == node

    def _entry(self, command: cmd.Propagate, places: Sequence[int]) -> _Entry:
        """Returns of which rows the precomputed entry of a command is made."""
        made_of = self.computation.precomputed_rows[command.precomputed - 1]
        is_row_by_row = _is_row_by_row(self.computation.kernels[command.kernel])

        def rows(number: int, place: int, stored: IndexTable) -> _KernelRows:
            block = self.computation.submatrices[number]
            if len(stored) == block.num_rows:
                return _KernelRows(place, stored)
            info = self.computation.matrix_info.get(block.matrix)
            if block.matrix in self.rows.rooms or info is None or info.indexes is None:
                raise NotRaggedError(f"nothing says of which rows node {command.node} has precomputed something")
            return _KernelRows(place, info.indexes[block.row_offset : block.row_offset + block.num_rows])

        outputs = rows(command.output, places[-1], made_of.outputs)
        inputs = _KernelRows(-1, outputs.indexes[:0])
        if command.inputs:
            inputs = outputs if is_row_by_row else rows(command.inputs[0], places[0], made_of.inputs)
        return _Entry(command.node, made_of.runs_backward, bool(command.inputs) and not is_row_by_row, inputs, outputs)

    # ---- the commands, with slots ----

    def _restricted(
        self, command: Command, places: Any, versions: _Versions, slots: _SlotTable, tables: dict[str, list[np.ndarray]]
    ) -> list[Command]:
        operands, of_table = places
        numbers = command.form.operands(command)
        if isinstance(command, cmd.AllocMatrix | cmd.DeallocMatrix | cmd.CompressMatrix | cmd.DecompressMatrix):
            return [with_operands(command, [slots.whole(numbers[0])])]
        if isinstance(command, cmd.SetConst) and isinstance(operands[0], tuple):
            return [with_operands(command, [slots.whole(numbers[0])])]
        at = [versions.place(place) for place in operands]
        if isinstance(command, cmd.MatrixCopy | cmd.MatrixAdd) and max(at) >= 0:
            return self._moved(command, at[0], at[1], slots, tables)
        plain = [slots.plain(number, place) for number, place in zip(numbers, at, strict=True)]
        restricted = with_operands(command, plain) if plain else command
        if id(command) in self.unlike:
            self.unlike_of[id(restricted)] = self.unlike[id(command)]
        for name, declared, _ in command.form.table_fields:
            kind = declared.tables  # type: ignore[union-attr]
            table = getattr(self.computation, kind)[getattr(command, name)]
            own, count = at[0], self.computation.submatrices[numbers[0]].num_rows
            other: int | dict[int, int] = at[-1]
            if kind == "multi_tables":
                places_of = {number: versions.place(place) for number, place in of_table.items()}
                slot_of = {number: slots.plain(number, place) for number, place in places_of.items()}
                other = {slot_of[number]: place for number, place in places_of.items()}
                mapped = np.array([slot_of.get(number, -1) for number in table[:, 0].tolist()], dtype=np.int32)
                table = np.stack([mapped, table[:, 1]], axis=1)
            restricted = with_values(restricted, **{name: self._add_table(tables, kind, table, own, count, other)})
        return [restricted]

    def _add_table(
        self, tables: dict[str, list[np.ndarray]], kind: str, table: np.ndarray, own: int, count: int, other: Any
    ) -> int:
        tables[kind].append(table)
        self._tables.append(_Table(kind, len(tables[kind]) - 1, own, count, other))
        return len(tables[kind]) - 1

    def _moved(
        self,
        command: cmd.MatrixCopy | cmd.MatrixAdd,
        dest: int,
        source: int,
        slots: _SlotTable,
        tables: dict[str, list[np.ndarray]],
    ) -> list[Command]:
        """Returns the commands that move the rows that exist on both sides."""
        count = self.computation.submatrices[command.dest].num_rows
        if min(dest, source) < 0:
            raise NotRaggedError("rows with samples are copied from rows without")
        if self.rows.same(dest, source, count):
            return [with_operands(command, [slots.plain(command.dest, dest), slots.plain(command.source, source)])]
        times = [self.rows.single_time(place, count) for place in (dest, source)]
        same_n = np.array_equal(self.rows.n[dest : dest + count], self.rows.n[source : source + count])
        if None in times or not same_n:
            kind = cmd.CopyRows if isinstance(command, cmd.MatrixCopy) else cmd.AddRows
            number = self._add_table(tables, "index_tables", np.arange(count, dtype=np.int32), dest, count, source)
            operands = slots.plain(command.dest, dest), slots.plain(command.source, source)
            return [kind(*operands, number, command.scale)]
        if times[1] > times[0]:  # type: ignore[operator]
            operands = slots.plain(command.dest, dest), slots.limited(command.source, source, dest)
            return [with_operands(command, operands)]
        operands = slots.limited(command.dest, dest, source), slots.plain(command.source, source)
        moved: list[Command] = [with_operands(command, operands)]
        if isinstance(command, cmd.MatrixCopy):
            moved.append(cmd.SetConst(slots.orphans(command.dest, dest, source), 0.0))
        return moved

    def check_entries(self, rules: KernelRules) -> None:
        """Find out of which rows entries are made that do not tell. Raises NotRaggedError where that is not possible.

        The rows of a matrix may stand for those of another node at other times: then these are later or earlier alike.
        """
        for number, entry in enumerate(self.entries):
            if entry is None or self._is_made_of(number, entry, rules):
                continue
            if entry.orders_rows:
                inputs, outputs = (
                    rows.indexes[rows.indexes[:, T] != NO_TIME] for rows in (entry.inputs, entry.outputs)
                )
                moved, is_real = entry.inputs.indexes.copy(), entry.inputs.indexes[:, T] != NO_TIME
                moved[is_real, T] += rules.first_input(entry.node, outputs) - inputs[:, T].min()
                entry = replace(entry, inputs=entry.inputs._replace(indexes=moved))
            if not self._is_made_of(number, entry, rules):
                raise NotRaggedError(f"it is not certain of which rows node {entry.node} has precomputed something")
            self.entries[number] = entry

    def _is_made_of(self, number: int, entry: _Entry, rules: KernelRules) -> bool:
        """True if these rows give an entry as it stands in the program."""
        sides = entry.inputs.indexes, entry.outputs.indexes
        if entry.orders_rows and not all(map(_same_rows, sides, rules.arrange(entry.node, *sides))):
            return False
        made = rules.precompute(KernelRows(entry.node, entry.runs_backward, *sides)) or {}
        known = self.computation.precomputed[number] or {}
        return made.keys() == known.keys() and all(np.array_equal(made[name], known[name]) for name in made)

    def rows_of_kernels(self) -> dict[tuple[str, str], np.ndarray]:
        """Returns how far before the end the rows of the first sequence lie on which the kernel of each node works.

        By the name of the node and what it does: "forward", "backward", or "learn" if it changes anything meanwhile.
        """
        found: dict[tuple[str, str], list[np.ndarray]] = {}
        for command, place, count in self._rows_worked_on:
            is_forward = isinstance(command, cmd.Propagate)
            learns = command.store_stats if isinstance(command, cmd.Propagate) else command.update
            does = "learn" + " forward" * is_forward if learns else "forward" if is_forward else "backward"
            before_end = self.rows.before_end[place : place + count]
            is_first = (self.rows.n[place : place + count] == 0) & (before_end != _PADDING)
            found.setdefault((command.node, does), []).append(before_end[is_first])
        return {key: np.concatenate(each) for key, each in found.items()}

    # ---- for given lengths ----

    def _exists(self, shorter: Sequence[int]) -> np.ndarray:
        num_sequences = int(self.rows.n.max(initial=-1)) + 1
        missing = np.full(max(num_sequences, len(shorter)), _NEVER, dtype=np.int64)
        missing[: len(shorter)] = shorter
        return np.asarray(self.rows.before_end >= missing[self.rows.n])

    def existing_rows(self, shorter: Sequence[int]) -> dict[tuple[str, bool], np.ndarray]:
        """Returns which rows of each input and output are left, (rows,); by name, and True for derivatives."""
        exists = self._exists(shorter)
        return {key: exists[place : place + block.num_rows] for key, (block, place) in self._ios.items() if place >= 0}

    def at(
        self, shorter: Sequence[int], rules: KernelRules | None = None, numbers: Sequence[int] | None = None
    ) -> NnetComputation:
        """Returns the program for sequences that are so much shorter, the longest first.

        Sequences that are left out have no rows at all. `rules`: those of the kernels, if they precompute anything.
        `numbers`: what n each sequence has, by default 0, 1, ....
        """
        exists = self._exists(shorter)
        count = np.zeros(len(exists) + 1, dtype=np.int64)
        np.cumsum(exists, out=count[1:])
        matrix_rows = self._matrix_rows.copy()
        matrix_rows[self._based] = count[self._base + matrix_rows[self._based]] - count[self._base]
        in_rooms = count[self._first_of_room + self._room_rows] - count[self._first_of_room]
        matrix_rows[self._room] = 0
        np.maximum.at(matrix_rows, self._room, in_rooms)
        np.maximum(matrix_rows[1:], 1, out=matrix_rows[1:])  # one row that nobody uses where none exists
        slots = self._slots
        skipped = count[slots.after] - count[slots.before]
        start = slots.start + count[slots.begin] - count[slots.origin] + skipped
        rows = slots.rows + count[slots.last] - count[slots.first] - skipped
        rows = np.where(slots.whole, matrix_rows[slots.matrix], rows)
        number_of_n = np.arange(len(shorter)) if numbers is None else np.array(numbers)
        return _Restriction(self, exists, count, matrix_rows, start, rows, number_of_n, shorter[0], rules).program()


@dataclass(frozen=True, eq=False)
class _Loop:
    """A Repeat. Operand j of body command c is `operands[c][j]`: a slot, or -1 - i for that of column i of `slots`.

    `slots` (turns, columns): the slot in each turn.
    """

    repeat: cmd.Repeat
    body: tuple[Command, ...]
    operands: tuple[tuple[int, ...], ...]
    slots: np.ndarray
    first_number: int = 0  # of the sub-matrices of the columns
    alike: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))  # see `_columns_alike`

    def commands_of(self, turn: int) -> Iterator[Command]:
        """Yields the commands of one turn, with slots."""
        now = self.slots[turn].tolist()
        for command, operands in zip(self.body, self.operands, strict=True):
            moved = with_operands(command, [now[-1 - s] if s < 0 else s for s in operands])
            yield with_references_moved(moved, self.repeat, turn)


def _loop(repeat: cmd.Repeat, turns: Sequence[Sequence[Command]]) -> _Loop | None:
    """Returns the loop of commands that are the same in all turns but for their operands; None if they are not."""
    columns: dict[bytes, int] = {}
    arrays: list[np.ndarray] = []
    body: list[Command] = []
    of_body: list[tuple[int, ...]] = []
    for place in range(repeat.length):
        each = turns[place :: repeat.length]
        first = each[0][0] if each[0] else None
        if first is None or first.form.table_fields or any(len(c) != 1 or type(c[0]) is not type(first) for c in each):
            return None
        operands = np.array([command.form.operands(command) for (command,) in each], dtype=np.int64)
        refs = []
        for column in operands.T:
            if (column == column[0]).all():
                refs.append(int(column[0]))
                continue
            number = columns.setdefault(column.tobytes(), len(arrays))
            if number == len(arrays):
                arrays.append(column)
            refs.append(-1 - number)
        body.append(first)
        of_body.append(tuple(refs))
    slots = np.stack(arrays, axis=1) if arrays else np.zeros((repeat.turns, 0), np.int64)
    return _Loop(repeat, tuple(body), tuple(of_body), slots)


class _Order(NamedTuple):
    """The rows that a kernel wants, and the index tables from those that exist to these and back."""

    wanted: IndexTable
    to_wanted: int
    to_existing: int


class _Restriction:
    """A ragged program for given lengths, while it is made.

    `exists` and `count`: of all indexes; `matrix_rows` of each matrix, `start` and `rows` of each slot; `numbers`: what
    n becomes; `fewest`: by how much the longest sequence is shorter.
    """

    def __init__(
        self,
        ragged: RaggedProgram,
        exists: np.ndarray,
        count: np.ndarray,
        matrix_rows: np.ndarray,
        start: np.ndarray,
        rows: np.ndarray,
        numbers: np.ndarray,
        fewest: int,
        rules: KernelRules | None,
    ) -> None:
        self.ragged, self.exists, self.count, self.matrix_rows = ragged, exists, count, matrix_rows
        self.start, self.rows, self.numbers, self.fewest, self.rules = start, rows, numbers, fewest, rules
        self._are_renumbered = bool((numbers != np.arange(len(numbers))).any())
        self._orders: dict[int, tuple[_Order | None, _Order | None]] = {}  # of entries
        self._ordered: list[tuple[int, Matrix, MatrixInfo]] = []  # matrices in the order of kernels, by sub-matrix
        self._order_tables: list[np.ndarray] = []
        self._chosen = [*ragged.used, *(slot for slots in ragged.columns for slot in slots[0].tolist())]
        self._more: dict[int, int] = {}
        self._turns: dict[int, np.ndarray] = {}
        self._indexes: dict[tuple[int, int], np.ndarray] = {}

    def program(self) -> NnetComputation:
        template, slots = self.ragged.template, self.ragged._slots
        precomputed = [None, *map(self._precomputed, range(1, len(self.ragged.entries)))]
        commands, tables = self._commands(), self._tables()
        chosen = np.array(self._chosen, dtype=np.int64)
        columns = slots.matrix, self.start, self.rows, slots.column, slots.columns
        blocks = np.stack([column[chosen] for column in columns], axis=1)
        blocks[(blocks[:, 2] == 0) & (blocks[:, 0] > 0), 1:3] = 0, 1  # nobody uses them
        counts, first = self.matrix_rows.tolist(), len(template.matrices)
        matrices = [Matrix(rows, *matrix[1:]) for rows, matrix in zip(counts, template.matrices, strict=True)]
        infos = {matrix: self._info(matrix, info) for matrix, info in template.matrix_info.items()}
        for number, (place, matrix, info) in enumerate(self._ordered, first):
            blocks[place] = number, 0, matrix.num_rows, 0, matrix.num_cols
            matrices.append(matrix)
            infos[number] = info
        return replace(
            template,
            matrices=matrices,
            submatrices=list(starmap(SubMatrix, blocks.tolist())),
            turns=self._turns,
            matrix_info=infos,
            commands=commands,
            precomputed=precomputed,
            precomputed_rows=[],
            **tables,
        )

    def _number(self, slot: int) -> int:
        """Returns the number of a slot's sub-matrix, which is declared unless it is known."""
        known = self.ragged.number_of_slot.get(slot)
        if known is not None:
            return known
        number = self._more.setdefault(slot, len(self._chosen))
        if number == len(self._chosen):
            self._chosen.append(slot)
        return number

    # ---- commands ----

    def _commands(self) -> list[Command]:
        commands: list[Command] = []
        for (item, made), is_lost in zip(self.ragged.items, self.ragged.lost(self.rows).tolist(), strict=True):
            if isinstance(item, _Loop):
                assert isinstance(made, list)
                commands += self._loop(item, made)
            elif is_lost:
                commands += self._command(item)
            else:
                assert isinstance(made, Command)
                commands.append(made)
        return commands

    def _loop(self, loop: _Loop, body: list[Command]) -> Iterator[Command]:
        """Yields a Repeat of the turns with rows for each command; others at its beginning and end are written out."""
        filled = (self.rows[loop.slots] > 0).all(axis=1)
        fixed = [self.rows[slot] for operands in loop.operands for slot in operands if slot > 0]
        lasting = np.flatnonzero(filled & (min(fixed, default=1) > 0))
        first, end = (int(lasting[0]), int(lasting[-1]) + 1) if len(lasting) else (0, 0)
        if not filled[first:end].all():
            first = end = 0
        for turn in range(first):
            yield from self._turn(loop, turn)
        if end:
            own = np.unique(loop.alike)
            slots = loop.slots[first:end, own].T
            of_column = dict(zip(own.tolist(), np.stack([self.start[slots], self.rows[slots]], axis=2), strict=True))
            numbers = range(loop.first_number, loop.first_number + len(loop.alike))
            self._turns.update(zip(numbers, map(of_column.__getitem__, loop.alike.tolist()), strict=True))
            self._chosen[numbers.start : numbers.stop] = loop.slots[first].tolist()
            yield with_values(loop.repeat, turns=end - first)
            yield from (with_references_moved(command, loop.repeat, first) for command in body)
        for turn in range(end, loop.repeat.turns):
            yield from self._turn(loop, turn)

    def _turn(self, loop: _Loop, turn: int) -> Iterator[Command]:
        if self.rows[loop.slots[turn]].any():
            for command in loop.commands_of(turn):
                yield from self._command(command)

    def _command(self, command: Command) -> Iterator[Command]:
        """Yields what a command with slots becomes: nothing if there are no rows for it."""
        slots = command.form.operands(command)
        if command.role is cmd.Role.COMPUTE:
            lost = [slot for slot in slots if slot and not self.rows[slot]]
            if isinstance(command, cmd.CopyRows) and lost == [command.source]:
                yield cmd.SetConst(self._number(command.dest), 0.0)
                return
            if lost:
                return
        if isinstance(command, cmd.Propagate | cmd.Backprop) and self.ragged.is_special(command):
            yield from self._in_order(command)
            return
        yield with_operands(command, list(map(self._number, slots)))

    # ---- kernels with rules about their rows ----

    def _precomputed(self, number: int) -> Entry:
        """Returns a precomputed entry for the rows that exist, in the order that the kernel wants them in."""
        entry = self.ragged.entries[number]
        assert self.rules is not None
        if entry is None:
            return None
        inputs, outputs = (self._existing(rows) for rows in (entry.inputs, entry.outputs))
        if not len(outputs):
            return None
        wanted = inputs, outputs
        if entry.orders_rows:
            sides = entry.inputs, entry.outputs
            masks = [self._times_left(rows) for rows in sides]
            key, in_order = (number, self.fewest, len(self.numbers)), self.ragged.in_order
            if key not in in_order:
                full = [rows.indexes[mask] for rows, mask in zip(sides, masks, strict=True)]
                in_order[key] = all(map(np.array_equal, full, self.rules.arrange(entry.node, full[0], full[1])))
            if in_order[key]:  # all sequences at all times: so are some, with padding in the place of the others
                orders = self._padded(entry.inputs, masks[0]), self._padded(entry.outputs, masks[1])
            else:
                wanted = self.rules.arrange(entry.node, inputs, outputs)
                orders = self._order(inputs, wanted[0]), self._order(outputs, wanted[1])
            self._orders[number] = orders
            wanted = orders[0].wanted if orders[0] else inputs, orders[1].wanted if orders[1] else outputs
        numbered = [self._renumbered(rows) for rows in wanted]
        return self.rules.precompute(KernelRows(entry.node, entry.runs_backward, numbered[0], numbered[1]))

    def _times_left(self, rows: _KernelRows) -> np.ndarray:
        """Returns which rows are of times at which the longest sequence has rows, and of sequences that are left."""
        own = slice(rows.place, rows.place + len(rows.indexes))
        is_left = self.ragged.rows.n[own] < len(self.numbers)
        return np.asarray(is_left & (self.ragged.rows.before_end[own] >= self.fewest))

    def _padded(self, rows: _KernelRows, mask: np.ndarray) -> _Order | None:
        """Returns the order of rows with padding for those that do not exist, None if all do."""
        exists = self.exists[rows.place : rows.place + len(rows.indexes)][mask]
        if exists.all():
            return None
        wanted = rows.indexes[mask]
        wanted[~exists, T] = NO_TIME
        return self._new_order(wanted, np.where(exists, np.cumsum(exists) - 1, -1), np.flatnonzero(exists))

    def _new_order(self, wanted: IndexTable, to_wanted: np.ndarray, to_existing: np.ndarray) -> _Order:
        first = len(self.ragged.template.index_tables) + len(self._order_tables)
        self._order_tables += [to_wanted.astype(np.int32), to_existing.astype(np.int32)]
        return _Order(wanted, first, first + 1)

    def _order(self, existing: IndexTable, wanted: IndexTable) -> _Order | None:
        """Returns how rows are brought into the order that a kernel wants; None if they are in it."""
        if np.array_equal(existing, wanted):
            return None
        return self._new_order(wanted, find_rows(existing, wanted), find_rows(wanted, existing))

    def _new_ordered(self, node: str, slot: int, order: _Order) -> int:
        """Returns the sub-matrix of a new matrix for the rows of a slot in this order."""
        template = self.ragged.template
        base, columns = int(self.ragged._slots.matrix[slot]), int(self.ragged._slots.columns[slot])
        is_deriv = base in template.matrix_info and template.matrix_info[base].is_deriv
        matrix = Matrix(len(order.wanted), columns, template.matrices[base].dtype)
        self._ordered.append((len(self._chosen), matrix, MatrixInfo(node, is_deriv, self._renumbered(order.wanted))))
        self._chosen.append(0)
        return len(self._chosen) - 1

    def _existing(self, rows: _KernelRows) -> IndexTable:
        return (
            rows.indexes[self.exists[rows.place : rows.place + len(rows.indexes)]] if rows.place >= 0 else rows.indexes
        )

    def _renumbered(self, indexes: IndexTable) -> IndexTable:
        """Returns indexes with the n that sequences have."""
        if not self._are_renumbered:
            return indexes
        result = indexes.copy()
        result[:, N] = self.numbers[indexes[:, N]]
        return result

    def _in_order(self, command: cmd.Propagate | cmd.Backprop) -> Iterator[Command]:
        """Yields a kernel's command on matrices with rows in its own order, and what copies rows there and back."""
        before, after, ends = list[Command](), list[Command](), list[Command]()
        of_inputs, of_outputs = self._orders.get(command.precomputed, (None, None))
        unlike = self.ragged.unlike_of.get(id(command), {})
        numbers = []
        for i, (slot, name) in enumerate(zip(command.form.operands(command), _names_of_operands(command), strict=True)):
            number = self._number(slot)
            order = of_outputs if name.startswith("output") else of_inputs
            if i in unlike:
                if order is not None:
                    raise NotRaggedError("a kernel with an order of rows of its own has other rows than its operands")
                order = self._rows_of_output(unlike[i])
            if slot and order is not None:
                whole = self._new_ordered(command.node, slot, order)
                adds = name == "added_derivs"
                before.append(cmd.AllocMatrix(whole, zeroed=adds))
                if adds:
                    after.append(cmd.AddRows(number, whole, order.to_existing))
                elif name == "input_derivs" or (name == "output" and isinstance(command, cmd.Propagate)):
                    after.append(cmd.CopyRows(number, whole, order.to_existing))
                else:
                    before.append(cmd.CopyRows(whole, number, order.to_wanted))
                ends.append(cmd.DeallocMatrix(whole))
                number = whole
            numbers.append(number)
        yield from (*before, with_operands(command, numbers), *after, *ends)

    def _rows_of_output(self, unlike: _Unlike) -> _Order:
        """Returns the order of rows of an operand that leaves those out that the output does not have."""
        place, output, count = unlike
        both = slice(place, place + count), slice(output, output + count)
        wanted, existing = self.exists[both[1]], self.exists[both[0]]
        if (wanted & ~existing).any():
            raise NotRaggedError("a kernel has rows whose operands have no place")
        of_wanted = np.where(existing, self.count[both[0]] - self.count[place], -1)[wanted]
        of_existing = np.where(wanted, self.count[both[1]] - self.count[output], -1)[existing]
        indexes = np.zeros((len(of_wanted), 3), np.int32)
        indexes[:, N] = self.ragged.rows.n[both[1]][wanted]
        indexes[:, T] = NO_TIME
        return self._new_order(indexes, of_wanted, of_existing)

    # ---- tables ----

    def _info(self, matrix: int, info: MatrixInfo) -> MatrixInfo:
        if info.indexes is None:
            return info
        base = self.ragged.rows.base.get(matrix)
        if base is None:
            return MatrixInfo(info.node, info.is_deriv, info.indexes[: self.matrix_rows[matrix]])
        key = base, id(info.indexes)
        if key not in self._indexes:
            indexes = info.indexes[self.exists[base : base + len(info.indexes)]]
            self._indexes[key] = self._renumbered(indexes) if len(indexes) else info.indexes[:1]
        return MatrixInfo(info.node, info.is_deriv, self._indexes[key])

    def _tables(self) -> dict[str, Any]:
        """Returns the side tables, with rows that exist."""
        result: dict[str, Any] = {"index_tables": [], "multi_tables": [], "range_tables": []}
        for table in self.ragged._tables:
            values = getattr(self.ragged.template, table.kind)[table.number]
            if table.own >= 0:
                values = values[self.exists[table.own : table.own + table.count]]
            result[table.kind].append(self._table(table, values).astype(np.int32))
        result["index_tables"] += self._order_tables
        return result

    def _table(self, table: _Table, values: np.ndarray) -> np.ndarray:
        if table.kind == "multi_tables":
            return self._multi_table(table, values)
        other = table.other
        assert isinstance(other, int)
        if other < 0:
            return values
        places = other + values.astype(np.int64)
        if table.kind == "range_tables":
            return self.count[places] - self.count[other]
        found = (values >= 0) & self.exists[np.maximum(places, 0)]
        return np.where(found, self.count[places] - self.count[other], -1)

    def _multi_table(self, table: _Table, values: np.ndarray) -> np.ndarray:
        assert not isinstance(table.other, int)
        slots, which = np.unique(values[:, 0], return_inverse=True)
        which = which.reshape(-1)
        first = np.array([table.other.get(slot, -1) for slot in slots.tolist()], dtype=np.int64)[which]
        row = values[:, 1].astype(np.int64)
        places = np.maximum(first + row, 0)
        found = (values[:, 0] >= 0) & ((first < 0) | self.exists[places])
        row = np.where(first < 0, row, self.count[places] - self.count[np.maximum(first, 0)])
        number = np.array([self._number(max(slot, 0)) for slot in slots.tolist()], dtype=np.int64)[which]
        return np.where(found[:, None], np.stack([number, row], axis=1), -1)
