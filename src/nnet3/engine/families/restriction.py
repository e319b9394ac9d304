"""Restriction: a ragged program for given lengths, of which counts of rows tell all."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import starmap
from typing import Any

import numpy as np

from nnet3.engine.families.kernel_orders import KernelOrders, RowOrder, WantedRows
from nnet3.engine.families.precomputed import Entry, KernelRules
from nnet3.engine.families.ragged_program import RaggedProgram
from nnet3.engine.families.ragged_regions import RaggedLoop, SideTable, names_of_operands
from nnet3.engine.ir import commands as cmd
from nnet3.engine.ir.computation import NnetComputation, RowNumbers, lazy_like
from nnet3.engine.ir.declarations import Command, with_operands, with_values
from nnet3.engine.ir.program_tables import Matrix, MatrixInfo, SubMatrix
from nnet3.engine.ir.repeats import with_references_moved


def restricted(
    ragged: RaggedProgram,
    missing: Sequence[int],
    rules: KernelRules | None = None,
    numbers: Sequence[int] | None = None,
    *,
    is_lazy: bool = True,
) -> NnetComputation:
    """Returns the program for sequences of which each lacks `missing` frames, the longest sequence first.

    Sequences beyond the length of `missing` have no rows. `rules`: the rules of kernels that precompute anything.
    `numbers`: the n of each sequence, by default 0, 1, .... `is_lazy`: it may be made when it is looked at.
    """
    number_of_n = np.arange(len(missing)) if numbers is None else np.array(numbers)
    made = partial(Restriction, ragged, missing, number_of_n, rules)
    return made().program((lambda: made().program()) if is_lazy else None)


class Restriction:
    """A ragged program for given lengths, while it is made. For `missing` see `restricted`."""

    def __init__(
        self, ragged: RaggedProgram, missing: Sequence[int], numbers: np.ndarray, rules: KernelRules | None
    ) -> None:
        """For `numbers` and `rules` see `KernelOrders`."""
        self.ragged, counts = ragged, ragged.counted(missing)
        self.exists, self.count, self.matrix_rows = counts.exists, counts.count, counts.matrix_rows
        self.start, self.rows = counts.start, counts.rows
        self.orders = KernelOrders(ragged, counts.exists, counts.count, numbers, missing[0], rules)
        #: The matrices in the order of kernels, by sub-matrix, and the rows in them.
        self._ordered: list[tuple[int, Matrix, MatrixInfo, WantedRows]] = []
        self._chosen = [*ragged.used, *(region for loop in ragged.loops for region in loop.regions[0].tolist())]
        self._more: dict[int, int] = {}
        self._iterations: dict[int, np.ndarray] = {}
        self._cuts: dict[int, tuple[int, int]] = {}  # by loop
        self._indexes: dict[tuple[int, int], np.ndarray] = {}

    def program(self, again: Callable[[], NnetComputation] | None = None) -> NnetComputation:
        """Returns the program. With `again`, which makes the program anew, it is made when looked at, if possible.

        Most sets of lengths have the same commands on other rows, and the rows' numbers are enough to run the program.
        """
        ragged = self.ragged
        if not ragged.has_variants:
            return self._program()
        precomputed = self._precomputed
        commands = self._commands if ragged.has_special else ()  # before the tables: they add some
        tables = self._tables()["index_tables"]
        key = self._variant_key(tables), tuple(commands), tuple([each is None for each in precomputed])
        if again is None:
            return self._program()
        is_new, kept = key not in ragged.variants, ragged.variants.get_or_make(key, dict)
        if is_new:
            program = self._program()
            return replace(program, row_numbers=self._row_numbers(tables, precomputed, kept))
        rows, full = self._row_numbers(tables, precomputed, kept), ragged.full
        return lazy_like(full, again, row_numbers=rows, inputs=full.inputs, outputs=full.outputs)

    def _row_numbers(
        self, tables: Sequence[np.ndarray], precomputed: Sequence[Entry], kept: dict[str, Any]
    ) -> RowNumbers:
        num_iterations = [end - first for first, end in self._cuts.values() if end]
        rows = np.append(self.matrix_rows, [matrix.num_rows for _, matrix, *_ in self._ordered])
        return RowNumbers(self._blocks()[:, 1:3], rows, self._iterations, num_iterations, tables, precomputed, kept)

    @cached_property
    def _precomputed(self) -> list[Entry]:
        """The precomputed entries for the rows that exist; entry 0 is None."""
        return [None, *map(self.orders.precomputed, range(1, len(self.ragged.entries)))]

    def _program(self) -> NnetComputation:
        full = self.ragged.full
        precomputed, commands, tables = self._precomputed, self._commands, self._tables()
        blocks, counts, first = self._blocks(), self.matrix_rows.tolist(), len(full.matrices)
        matrices = [Matrix(rows, *matrix[1:]) for rows, matrix in zip(counts, full.matrices, strict=True)]
        infos = {matrix: self._info(matrix, info) for matrix, info in full.matrix_info.items()}
        for number, (submatrix, matrix, info, wanted) in enumerate(self._ordered, first):
            blocks[submatrix, 0] = number
            matrices.append(matrix)
            infos[number] = replace(info, indexes=self.orders.renumbered(wanted.indexes))
        return replace(
            full,
            matrices=matrices,
            submatrices=list(starmap(SubMatrix, blocks.tolist())),
            iterations=self._iterations,
            matrix_info=infos,
            commands=commands,
            precomputed=precomputed,
            precomputed_rows=[],
            **tables,
        )

    def _blocks(self) -> np.ndarray:
        """Returns the sub-matrices, (sub-matrices, 5). Of matrices in the order of kernels the number is 0."""
        regions, chosen = self.ragged.regions, np.array(self._chosen, dtype=np.int64)
        columns = regions.matrix, self.start, self.rows, regions.column, regions.columns
        blocks = np.stack([column[chosen] for column in columns], axis=1)
        blocks[(blocks[:, 2] == 0) & (blocks[:, 0] > 0), 1:3] = 0, 1  # nobody uses them
        for submatrix, matrix, *_ in self._ordered:
            blocks[submatrix] = 0, 0, matrix.num_rows, 0, matrix.num_cols
        return blocks

    def _variant_key(self, tables: Sequence[np.ndarray]) -> Hashable:
        """Returns a key, equal for lengths with equal commands; all sub-matrices of commands have numbers then."""
        is_left = self.rows > 0
        parts: list[Hashable] = [is_left[self.ragged.used].tobytes()]
        parts += [bool((table < 0).any()) for table in tables]
        for loop in self.ragged.loops:
            first, end = self._cut(loop)
            iterations = np.flatnonzero(is_left[loop.regions].any(axis=1))
            iterations = iterations[(iterations < first) | (iterations >= end)]
            numbers = [
                self._number(region) if is_left[region] else -1 for region in loop.regions[iterations].ravel().tolist()
            ]
            moves = bool(loop.repeat.memo_step or loop.repeat.precomputed_step)
            parts += [end > 0, int((iterations < first).sum()), len(iterations), *numbers]
            parts += (first, *iterations.tolist()) if moves else ()
        return tuple(parts)

    def _number(self, region: int) -> int:
        """Returns the number of a region's sub-matrix, declared first if it is unknown."""
        known = self.ragged.number_of_region.get(region)
        if known is not None:
            return known
        number = self._more.setdefault(region, len(self._chosen))
        if number == len(self._chosen):
            self._chosen.append(region)
        return number

    # ---- commands ----

    @cached_property
    def _commands(self) -> list[Command]:
        commands: list[Command] = []
        for (item, made), is_lost in zip(self.ragged.items, self.ragged.lost(self.rows).tolist(), strict=True):
            if isinstance(item, RaggedLoop):
                assert isinstance(made, list)
                commands += self._loop(item, made)
            elif is_lost:
                commands += self._command(item)
            else:
                assert isinstance(made, Command)
                commands.append(made)
        return commands

    def _loop(self, loop: RaggedLoop, body: list[Command]) -> Iterator[Command]:
        """Yields a Repeat of the iterations with rows for each command; iterations before and after are written out."""
        first, end = self._cut(loop)
        for iteration in range(first):
            yield from self._iteration(loop, iteration)
        if end:
            yield with_values(loop.repeat, iterations=end - first)
            yield from (with_references_moved(command, loop.repeat, first) for command in body)
        for iteration in range(end, loop.repeat.iterations):
            yield from self._iteration(loop, iteration)

    def _cut(self, loop: RaggedLoop) -> tuple[int, int]:
        """Returns the iterations [first, end) of the Repeat, and notes the positions of its sub-matrices in these
        iterations."""
        if id(loop) in self._cuts:
            return self._cuts[id(loop)]
        first, end = self._cuts[id(loop)] = self._lasting(loop)
        if end:
            own = np.unique(loop.alike)
            regions = loop.regions[first:end, own].T
            of_column = dict(
                zip(own.tolist(), np.stack([self.start[regions], self.rows[regions]], axis=2), strict=True)
            )
            numbers = range(loop.first_number, loop.first_number + len(loop.alike))
            self._iterations.update(zip(numbers, map(of_column.__getitem__, loop.alike.tolist()), strict=True))
            self._chosen[numbers.start : numbers.stop] = loop.regions[first].tolist()
        return first, end

    def _lasting(self, loop: RaggedLoop) -> tuple[int, int]:
        """Returns the iterations in which all commands have rows; (0, 0) without such iterations or with gaps
        between."""
        filled = (self.rows[loop.regions] > 0).all(axis=1)
        fixed = [self.rows[region] for operands in loop.operands for region in operands if region > 0]
        lasting = np.flatnonzero(filled & (min(fixed, default=1) > 0))
        first, end = (int(lasting[0]), int(lasting[-1]) + 1) if len(lasting) else (0, 0)
        return (first, end) if filled[first:end].all() else (0, 0)

    def _iteration(self, loop: RaggedLoop, iteration: int) -> Iterator[Command]:
        if self.rows[loop.regions[iteration]].any():
            for command in loop.commands_of(iteration):
                yield from self._command(command)

    def _command(self, command: Command) -> Iterator[Command]:
        """Yields a command with regions as a command with sub-matrices: nothing if there are no rows for it."""
        regions = command.schema.operands(command)
        if command.role is cmd.Role.COMPUTE:
            lost = [region for region in regions if region and not self.rows[region]]
            if isinstance(command, cmd.CopyRows) and lost == [command.source]:
                yield cmd.SetConst(self._number(command.dest), 0.0)
                return
            if lost:
                return
        if isinstance(command, cmd.Propagate | cmd.Backprop) and self.ragged.is_special(command):
            yield from self._in_order(command)
            return
        yield with_operands(command, list(map(self._number, regions)))

    def _new_ordered(self, node: str, region: int, order: RowOrder) -> int:
        """Returns the sub-matrix of a new matrix for the rows of a region in this order."""
        full = self.ragged.full
        base, columns = int(self.ragged.regions.matrix[region]), int(self.ragged.regions.columns[region])
        is_deriv = base in full.matrix_info and full.matrix_info[base].is_deriv
        matrix = Matrix(len(order.wanted.rows), columns)
        self._ordered.append((len(self._chosen), matrix, MatrixInfo(node, is_deriv, None), order.wanted))
        self._chosen.append(0)
        return len(self._chosen) - 1

    def _in_order(self, command: cmd.Propagate | cmd.Backprop) -> Iterator[Command]:
        """Yields a kernel's command on matrices with rows in its own order, and the copies of rows there and back."""
        before, after, ends = list[Command](), list[Command](), list[Command]()
        sides = self.orders.wanted.get(command.precomputed)
        unlike = self.ragged.unlike_of.get(id(command), {})
        numbers = []
        for i, (region, name) in enumerate(
            zip(command.schema.operands(command), names_of_operands(command), strict=True)
        ):
            number, order = self._number(region), None
            is_moved = name == "input_derivs" or (name == "output" and isinstance(command, cmd.Propagate))
            if region and sides is not None:
                order = self.orders.order(region, sides[name.startswith("output")], is_read=name != "input_derivs")
            elif region and i in unlike:
                order = self.orders.order(region, self.orders.rows_of_output(unlike[i]), is_read=not unlike[i].may_lack)
            if order is not None:
                whole = self._new_ordered(command.node, region, order)
                adds = name == "added_derivs"
                before.append(cmd.AllocMatrix(whole, zeroed=adds))
                if adds:
                    after.append(cmd.AddRows(number, whole, order.to_existing))
                elif is_moved:
                    after.append(cmd.CopyRows(number, whole, order.to_existing))
                else:
                    before.append(cmd.CopyRows(whole, number, order.to_wanted))
                ends.append(cmd.DeallocMatrix(whole))
                number = whole
            numbers.append(number)
        yield from (*before, with_operands(command, numbers), *after, *ends)

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
            self._indexes[key] = self.orders.renumbered(indexes) if len(indexes) else info.indexes[:1]
        return MatrixInfo(info.node, info.is_deriv, self._indexes[key])

    def _tables(self) -> dict[str, Any]:
        """Returns the side tables, with rows that exist."""
        result: dict[str, Any] = {"index_tables": [], "multi_tables": [], "range_tables": []}
        for table in self.ragged.tables:
            values = getattr(self.ragged.full, table.list_name)[table.number]
            if table.own >= 0:
                values = values[self.exists[table.own : table.own + table.count]]
            result[table.list_name].append(self._table(table, values).astype(np.int32))
        result["index_tables"] += self.orders.tables
        return result

    def _table(self, table: SideTable, values: np.ndarray) -> np.ndarray:
        if table.list_name == "multi_tables":
            return self._multi_table(table, values)
        other = table.other
        assert isinstance(other, int)
        if other < 0:
            return values
        indexes = other + values.astype(np.int64)
        if table.list_name == "range_tables":
            return self.count[indexes] - self.count[other]
        found = (values >= 0) & self.exists[np.maximum(indexes, 0)]
        return np.where(found, self.count[indexes] - self.count[other], -1)

    def _multi_table(self, table: SideTable, values: np.ndarray) -> np.ndarray:
        assert not isinstance(table.other, int)
        regions, which = np.unique(values[:, 0], return_inverse=True)
        which = which.reshape(-1)
        first = np.array([table.other.get(region, -1) for region in regions.tolist()], dtype=np.int64)[which]
        row = values[:, 1].astype(np.int64)
        indexes = np.maximum(first + row, 0)
        found = (values[:, 0] >= 0) & ((first < 0) | self.exists[indexes])
        row = np.where(first < 0, row, self.count[indexes] - self.count[np.maximum(first, 0)])
        number = np.array([self._number(max(region, 0)) for region in regions.tolist()], dtype=np.int64)[which]
        return np.where(found[:, None], np.stack([number, row], axis=1), -1)
