"""Ragged programs: a program for sequences of one length, restricted to the existing rows of shorter sequences.

The sequences of a minibatch are ordered by falling length. So the existing rows of time t come first among its rows,
and a range of rows stays a range. A row of time t exists in a sequence d frames shorter than the longest if t is at
least d before the end of its node. Sub-matrices of the restricted program are found by counting: rows [a, b) become
[count[a], count[b]), where count[i] is the number of existing rows among the first i.

The rows of a matrix that holds one time step after another (see `lowering.sharing`) have no fixed times. At
each command the rows have the times of the remaining operands: commands that work row by row read and write rows of
equal indexes. Commands that move rows between times move the rows existing on both sides. If the source of a row does
not exist, a copy makes the row zero, and an addition leaves the row alone.

The rule holds for existing copies. Passes take copies away (`share_copies`); then the rows that a command finds in a
buffer may have a time unlike the command's. The maker of a ragged program knows the rows of each step of a recurrence
(`steps`), and proves that kernels work on the rows of their nodes (`driver.ragged`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

from nnet3.engine.families.copied_operands import with_copied_operands
from nnet3.engine.families.moved_rows import moved_in_blocks
from nnet3.engine.families.operand_rows import OperandRows, goes_row_by_row
from nnet3.engine.families.precomputed import KernelRules
from nnet3.engine.families.ragged_regions import (
    ROWS_OF_REGIONS,
    DeclaredRegions,
    RaggedEntry,
    RaggedLoop,
    SideRows,
    SideTable,
    UnlikeOperand,
    loop_of,
)
from nnet3.engine.families.ragged_rows import NEVER, Distances, IndexRows, NotRaggedError, StepsOfNodes
from nnet3.engine.ir import commands as cmd
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.declarations import Command, with_operands, with_values
from nnet3.engine.ir.objects import Recent
from nnet3.engine.ir.program_tables import IoInfo, MatrixInfo, OutsideMatrix, SubMatrix
from nnet3.engine.ir.repeats import iterations_unrolled, unrolled

_MOST_FULL_ORDERS = 64  # lengths and numbers of sequences for which full orders are kept
_MOST_VARIANTS = 32  # sets of commands of which something is kept


@dataclass(frozen=True, eq=False)
class RowCounts:
    """The rows of a ragged program that remain for given lengths."""

    exists: np.ndarray  # a mask of all indexes, (indexes,)
    count: np.ndarray  # how many of the first i indexes remain, (1 + indexes,)
    matrix_rows: np.ndarray  # the rows of each matrix, (matrices,)
    start: np.ndarray  # the first row of each region in its matrix, (regions,)
    rows: np.ndarray  # the rows of each region, (regions,)


class RaggedProgram:
    """A program for sequences of one length, generalised to all shorter sequences.

    `full`: the program with a sub-matrix for each region, and separate side tables for each command.
    """

    def __init__(self, computation: NnetComputation, distances: Distances, steps: StepsOfNodes | None = None) -> None:
        """`distances`: from rows of a node to how far before its end each is. Raises NotRaggedError."""

        def operands_of(program: NnetComputation) -> OperandRows:
            return OperandRows(unrolled(program), IndexRows(program, distances, steps or {}))

        self.operands = operands_of(computation)
        copied = with_copied_operands(computation, self.operands)
        if copied is not computation:
            computation, self.operands = copied, operands_of(copied)
        self.computation = self.operands.computation
        self.rows, versions, starts_of_commands = self.operands.rows, self.operands.versions, self.operands.starts
        #: What kernels with orders of their own are given if all sequences are equal: by the length, counted from the
        #: end, and the number of sequences; then by entry (see `families.kernel_orders`).
        self.full_orders = Recent[dict[int, Any]](_MOST_FULL_ORDERS)
        self.entries: list[RaggedEntry | None] = [None] * len(computation.precomputed)
        for command in self.computation.commands:
            if isinstance(command, cmd.Propagate) and command.precomputed:
                self.entries[command.precomputed] = self._entry(command)
        table = DeclaredRegions(self.computation)
        self.tables: list[SideTable] = []
        self.unlike_of: dict[int, dict[int, UnlikeOperand]] = {}  # the same, by command with regions
        tables: dict[str, Any] = {"index_tables": [], "multi_tables": [], "range_tables": []}
        self._loops = list(iterations_unrolled(computation))
        self._in_iterations = {number for _, iterations in self._loops for number in iterations}
        made = [self._restricted(number, starts, table, tables) for number, starts in enumerate(starts_of_commands)]
        self._zero_orphans(made)

        def region_of(number: int) -> int:
            return table.plain(number, versions.start(versions.read(number)) if number else -1)

        if self.rows.buffers & computation.exchanged_matrices():
            raise NotRaggedError("an input or output has no times")
        self._ios = {
            (io.name, is_deriv): (self.computation.submatrices[number], versions.start(versions.read(number)))
            for io in (*computation.inputs, *computation.outputs)
            for is_deriv, number in ((False, io.value), (True, io.deriv))
            if number
        }
        named = [0, *(bound.submatrix for bound in computation.outside)]
        named += [number for io in (*computation.inputs, *computation.outputs) for number in (io.value, io.deriv)]
        regions = {number: region_of(number) for number in named}
        self.regions = table.regions()
        self._number_regions(list(self._rolled(made)), list(regions.values()))
        new = {number: self.number_of_region[region] for number, region in regions.items()}
        self.full = replace(
            computation,
            commands=[],
            outside=[OutsideMatrix(o.name, new[o.submatrix], o.writable) for o in computation.outside],
            inputs=[IoInfo(io.name, new[io.value], new[io.deriv]) for io in computation.inputs],
            outputs=[IoInfo(io.name, new[io.value], new[io.deriv]) for io in computation.outputs],
            submatrices=table.blocks,
            attachments=None,
            member=None,
            **tables,
        )
        buffers = sorted(set(versions.firsts()))
        self._buffer, self._first_of_buffer, self._buffer_rows = np.array(buffers, dtype=np.int64).reshape(-1, 3).T
        self._matrix_rows = np.array([matrix.num_rows for matrix in computation.matrices], dtype=np.int64)
        based = sorted(self.rows.base)
        self._based = np.array(based, dtype=np.int64)
        self._base = np.array([self.rows.base[matrix] for matrix in based], dtype=np.int64)

    def _number_regions(self, items: list[Command | RaggedLoop], others: Sequence[int]) -> None:
        """Give a number to each sub-matrix of programs for all lengths: regions outside of loops, then columns.

        `others`: regions of inputs, outputs and outside memory.
        """
        plain = [(item, command) for item, command in enumerate(items) if not isinstance(command, RaggedLoop)]
        loops = [item for item in items if isinstance(item, RaggedLoop)]
        regions = [(item, region) for item, command in plain for region in command.schema.operands(command)]
        self._owner, self._region_of_owner = np.array(regions, dtype=np.int64).reshape(-1, 2).T
        named = [*others]
        named += [region for loop in loops for operands in loop.operands for region in operands if region >= 0]
        named += [region for table in self.tables if isinstance(table.other, Mapping) for region in table.other]
        used = np.unique(np.concatenate([self._region_of_owner, np.array(named, dtype=np.int64)]))
        self.used = used.tolist()
        self.number_of_region = dict(zip(self.used, range(len(used)), strict=True))
        number = self.number_of_region
        self.items, first = list[tuple[Command | RaggedLoop, Command | list[Command]]](), len(used)
        for item in items:
            if isinstance(item, RaggedLoop):
                item = replace(item, first_number=first, alike=self._columns_alike(item.regions))
                first += item.regions.shape[1]
                pairs = zip(item.body, item.operands, strict=True)
                refs = [[number[s] if s >= 0 else item.first_number - 1 - s for s in each] for _, each in pairs]
                self.items.append((item, list(map(with_operands, item.body, refs))))
            else:
                operands = item.schema.operands(item)
                self.items.append((item, with_operands(item, [number[s] for s in operands]) if operands else item))
        self.loops = [item for item, _ in self.items if isinstance(item, RaggedLoop)]
        kernels = cmd.Propagate | cmd.Backprop
        special = [i for i, (item, _) in enumerate(self.items) if isinstance(item, kernels) and self.is_special(item)]
        self._special = np.array(special, dtype=np.int64)
        self.has_special = bool(special)
        #: True if programs for most lengths differ in their numbers of rows alone.
        self.has_variants = all(table.list_name == "index_tables" for table in self.tables)
        #: By what is equal for programs with the same commands: what was derived for all of them.
        self.variants = Recent[dict[str, Any]](_MOST_VARIANTS)

    def is_special(self, command: cmd.Propagate | cmd.Backprop) -> bool:
        """True if a kernel's command, with regions, may need its rows in another order, or only some of the rows."""
        entry = self.entries[command.precomputed]
        return id(command) in self.unlike_of or (entry is not None and entry.orders_rows)

    def _columns_alike(self, regions: np.ndarray) -> np.ndarray:
        """Returns for each column of regions the first column with rows from and to the same rows of the matrix."""
        rows = np.array([getattr(self.regions, name) for name in ROWS_OF_REGIONS])
        known: dict[bytes, int] = {}
        firsts = [known.setdefault(rows[:, column].tobytes(), number) for number, column in enumerate(regions.T)]
        return np.array(firsts, dtype=np.int64)

    def lost(self, rows: np.ndarray) -> np.ndarray:
        """Returns which items have an operand without rows, or are commands of kernels that may need more, (items,)."""
        result = np.zeros(len(self.items), dtype=bool)
        result[self._owner[(rows[self._region_of_owner] == 0) & (self._region_of_owner > 0)]] = True
        result[self._special] = True
        return result

    def _zero_orphans(self, made: list[list[Command]]) -> None:
        """Let matrices begin as zeros if copies leave rows without a source, and nobody has used the rows before."""
        leaving = [c for c, each in enumerate(made) if len(each) > 1 and isinstance(each[0], cmd.SetConst)]
        for matrix in sorted({self._first_block(c).matrix for c in leaving}):
            first_use = np.full(self.computation.matrices[matrix].num_rows, len(made))
            for number in range(len(made) - 1, -1, -1):
                for submatrix, _ in self.computation.commands[number].accesses(self.computation):
                    block = self.computation.submatrices[submatrix]
                    if block.matrix == matrix:
                        first_use[block.row_offset : block.row_offset + block.num_rows] = number
            copies = [c for c in leaving if self._first_block(c).matrix == matrix]
            blocks = [self._first_block(c) for c in copies]
            firsts = [first_use[b.row_offset : b.row_offset + b.num_rows] for b in blocks]
            if all((first == c).all() for c, first in zip(copies, firsts, strict=True)):
                for copy in copies:
                    del made[copy][0]
                for number, command in enumerate(self.computation.commands):
                    if isinstance(command, cmd.AllocMatrix) and self._first_block(number).matrix == matrix:
                        made[number] = [with_values(made[number][0], zeroed=True)]

    def _first_block(self, number: int) -> SubMatrix:
        """Returns the block of a command's first operand."""
        command = self.computation.commands[number]
        return self.computation.submatrices[command.schema.operands(command)[0]]

    def _rolled(self, made: list[list[Command]]) -> Iterator[Command | RaggedLoop]:
        """Yields the commands, the iterations of each Repeat as a loop if all iterations have equal commands."""
        at = 0
        for repeat, numbers in self._loops:
            yield from chain.from_iterable(made[at : numbers.start])
            iterations, at = made[numbers.start : numbers.stop], numbers.stop
            kernels = (c for each in iterations for c in each if isinstance(c, cmd.Propagate | cmd.Backprop))
            loop = None if any(map(self.is_special, kernels)) else loop_of(repeat, iterations)
            if loop is None:
                yield from chain.from_iterable(iterations)
            else:
                yield loop
        yield from chain.from_iterable(made[at:])

    # ---- the commands, with regions ----

    def _restricted(
        self,
        of_command: int,
        starts: Any,
        regions: DeclaredRegions,
        tables: dict[str, list[np.ndarray]],
    ) -> list[Command]:
        command, versions, (operands, of_table) = self.computation.commands[of_command], self.operands.versions, starts
        numbers = command.schema.operands(command)
        if isinstance(command, cmd.AllocMatrix | cmd.DeallocMatrix | cmd.CompressMatrix | cmd.DecompressMatrix):
            return [with_operands(command, [regions.whole(numbers[0])])]
        if isinstance(command, cmd.SetConst) and isinstance(operands[0], tuple):
            block = self.computation.submatrices[numbers[0]]
            if block.num_rows == self.computation.matrices[block.matrix].num_rows:
                return [with_operands(command, [regions.whole(numbers[0])])]
        at = [versions.start(start) for start in operands]
        if isinstance(command, cmd.MatrixCopy | cmd.MatrixAdd) and max(at) >= 0:
            return self._moved(of_command, command, at[0], at[1], regions, tables)
        if isinstance(command, cmd.CopyRows | cmd.AddRows) and of_command in self._in_iterations and min(at) >= 0:
            rows = self.computation.index_tables[command.indexes]
            moved = moved_in_blocks(command, (at[0], at[1]), rows, self.rows, regions, most=len(rows))
            if moved is not None:
                return moved
        self._check_rows(command, at)
        plain = [regions.plain(number, start) for number, start in zip(numbers, at, strict=True)]
        if of_command in self.operands.added:
            some = regions.limited(numbers[-1], at[-1], self.operands.added[of_command])
            copies = [cmd.MatrixCopy(plain[-1], plain[1])] if plain[-1] != plain[1] else []
            return [*copies, with_operands(command, [plain[0], some, *plain[2:-1], some])]
        for i, to in self.operands.limited.get(of_command, {}).items():
            plain[i] = regions.limited(numbers[i], at[i], to)
        restricted = with_operands(command, plain) if plain else command
        if of_command in self.operands.unlike:
            self.unlike_of[id(restricted)] = self.operands.unlike[of_command]
        for name, declared, _ in command.schema.table_fields:
            list_name = declared.tables  # type: ignore[union-attr]
            table = getattr(self.computation, list_name)[getattr(command, name)]
            own, count = at[0], self.computation.submatrices[numbers[0]].num_rows
            other: int | dict[int, int] = at[-1]
            if list_name == "multi_tables":
                starts_of = {number: versions.start(start) for number, start in of_table.items()}
                region_of = {number: regions.plain(number, start) for number, start in starts_of.items()}
                other = {region_of[number]: start for number, start in starts_of.items()}
                mapped = np.array([region_of.get(number, -1) for number in table[:, 0].tolist()], dtype=np.int32)
                table = np.stack([mapped, table[:, 1]], axis=1)
            restricted = with_values(restricted, **{name: self._add_table(tables, list_name, table, own, count, other)})
        return [restricted]

    def _check_rows(self, command: Command, at: Sequence[int]) -> None:
        """Raise NotRaggedError for a command without kernel and table that has operands with rows of several times."""
        if command.role is not cmd.Role.COMPUTE or command.schema.kernel or command.schema.table_fields:
            return
        numbers = command.schema.operands(command)
        rows = [(at_, self.computation.submatrices[n].num_rows) for at_, n in zip(at, numbers, strict=True) if at_ >= 0]
        if any(count != rows[0][1] or not self.rows.same(rows[0][0], start, count) for start, count in rows[1:]):
            raise NotRaggedError(
                f"command {type(command).__name__} works on rows of several times: only MatrixCopy, MatrixAdd and "
                "commands with tables move rows between times"
            )

    def _add_table(
        self, tables: dict[str, list[np.ndarray]], list_name: str, table: np.ndarray, own: int, count: int, other: Any
    ) -> int:
        tables[list_name].append(table)
        self.tables.append(SideTable(list_name, len(tables[list_name]) - 1, own, count, other))
        return len(tables[list_name]) - 1

    def _moved(
        self,
        of_command: int,
        command: cmd.MatrixCopy | cmd.MatrixAdd,
        dest: int,
        source: int,
        regions: DeclaredRegions,
        tables: dict[str, list[np.ndarray]],
    ) -> list[Command]:
        """Returns the commands for moving the rows existing on both sides."""
        count = self.computation.submatrices[command.dest].num_rows
        if min(dest, source) < 0:
            raise NotRaggedError("rows with samples are copied from rows without")
        plain = regions.plain(command.dest, dest), regions.plain(command.source, source)
        if self.rows.same(dest, source, count):
            return [with_operands(command, plain)]
        most = count if of_command in self._in_iterations else 1
        moved = moved_in_blocks(command, (dest, source), np.arange(count), self.rows, regions, most=most)
        if moved is None:
            kind = cmd.CopyRows if isinstance(command, cmd.MatrixCopy) else cmd.AddRows
            number = self._add_table(tables, "index_tables", np.arange(count, dtype=np.int32), dest, count, source)
            return [kind(*plain, number, command.scale)]
        return moved

    def _entry(self, command: cmd.Propagate) -> RaggedEntry:
        """Returns the precomputed entry of a command with the rows behind it."""
        made_of = self.computation.precomputed_rows[command.precomputed - 1]
        outputs = SideRows(self.rows.of_entries[command.precomputed], made_of.outputs)
        orders_rows = bool(command.inputs) and not goes_row_by_row(self.computation.kernels[command.kernel])
        has_own = orders_rows or not command.inputs
        inputs = SideRows(-1, made_of.inputs) if has_own else outputs
        return RaggedEntry(command.node, made_of.runs_backward, orders_rows, inputs, outputs)

    def locate_entries(self, rules: KernelRules) -> None:
        """Say whose rows kernels look for that may want them in another order."""
        for number, entry in enumerate(self.entries):
            if entry is not None and entry.orders_rows:
                info = MatrixInfo(rules.operand(entry.node), False, entry.inputs.indexes)
                inputs = entry.inputs._replace(start=self.rows.start_of(info))
                self.entries[number] = replace(entry, inputs=inputs)

    # ---- for given lengths ----

    @property
    def num_sequences(self) -> int:
        return int(self.rows.n.max(initial=-1)) + 1

    def _exists(self, missing: Sequence[int]) -> np.ndarray:
        frames = np.full(max(self.num_sequences, len(missing)), NEVER, dtype=np.int64)
        frames[: len(missing)] = missing
        return np.asarray(self.rows.before_end >= frames[self.rows.n])

    def existing_rows(self, missing: Sequence[int]) -> dict[tuple[str, bool], np.ndarray]:
        """Returns a mask of the remaining rows of each input and output, (rows,); by name, and True for derivatives."""
        exists = self._exists(missing)
        return {key: exists[start : start + block.num_rows] for key, (block, start) in self._ios.items() if start >= 0}

    def counted(self, missing: Sequence[int]) -> RowCounts:
        """Returns the rows that remain if each sequence lacks `missing` frames, the longest first."""
        exists = self._exists(missing)
        count = np.zeros(len(exists) + 1, dtype=np.int64)
        np.cumsum(exists, out=count[1:])
        matrix_rows = self._matrix_rows.copy()
        matrix_rows[self._based] = count[self._base + matrix_rows[self._based]] - count[self._base]
        in_buffers = count[self._first_of_buffer + self._buffer_rows] - count[self._first_of_buffer]
        matrix_rows[self._buffer] = 0
        np.maximum.at(matrix_rows, self._buffer, in_buffers)
        np.maximum(matrix_rows[1:], 1, out=matrix_rows[1:])  # one row that nobody uses where none exists
        regions = self.regions
        start = regions.start + count[regions.begin] - count[regions.origin]
        rows = regions.rows + count[regions.last] - count[regions.first]
        return RowCounts(exists, count, matrix_rows, start, np.where(regions.whole, matrix_rows[regions.matrix], rows))
