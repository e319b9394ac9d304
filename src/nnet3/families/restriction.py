"""Restriction: a ragged program for given lengths, of which counts of rows tell all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import starmap
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nnet3.families.precomputed import Entry, KernelRules
from nnet3.families.ragged_rows import NotRaggedError
from nnet3.families.ragged_slots import RaggedLoop, SideRows, SideTable, UnlikeOperand, names_of_operands
from nnet3.index import NO_TIME, IndexTable, N, T, find_rows
from nnet3.ir import commands as cmd
from nnet3.ir.computation import KernelRows, Matrix, MatrixInfo, NnetComputation, SubMatrix
from nnet3.ir.declarations import Command, with_operands, with_values
from nnet3.ir.repeats import with_references_moved

if TYPE_CHECKING:
    from nnet3.families.ragged import RaggedProgram


class _Order(NamedTuple):
    """The rows that a kernel wants, and the index tables from those that exist to these and back."""

    wanted: IndexTable
    to_wanted: int
    to_existing: int


class Restriction:
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
        template, slots = self.ragged.template, self.ragged.slots
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

    def _turn(self, loop: RaggedLoop, turn: int) -> Iterator[Command]:
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

    def _times_left(self, rows: SideRows) -> np.ndarray:
        """Returns which rows are of times at which the longest sequence has rows, and of sequences that are left."""
        own = slice(rows.place, rows.place + len(rows.indexes))
        is_left = self.ragged.rows.n[own] < len(self.numbers)
        return np.asarray(is_left & (self.ragged.rows.before_end[own] >= self.fewest))

    def _padded(self, rows: SideRows, mask: np.ndarray) -> _Order | None:
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
        base, columns = int(self.ragged.slots.matrix[slot]), int(self.ragged.slots.columns[slot])
        is_deriv = base in template.matrix_info and template.matrix_info[base].is_deriv
        matrix = Matrix(len(order.wanted), columns, template.matrices[base].dtype)
        self._ordered.append((len(self._chosen), matrix, MatrixInfo(node, is_deriv, self._renumbered(order.wanted))))
        self._chosen.append(0)
        return len(self._chosen) - 1

    def _existing(self, rows: SideRows) -> IndexTable:
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
        for i, (slot, name) in enumerate(zip(command.form.operands(command), names_of_operands(command), strict=True)):
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

    def _rows_of_output(self, unlike: UnlikeOperand) -> _Order:
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
        for table in self.ragged.tables:
            values = getattr(self.ragged.template, table.kind)[table.number]
            if table.own >= 0:
                values = values[self.exists[table.own : table.own + table.count]]
            result[table.kind].append(self._table(table, values).astype(np.int32))
        result["index_tables"] += self._order_tables
        return result

    def _table(self, table: SideTable, values: np.ndarray) -> np.ndarray:
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

    def _multi_table(self, table: SideTable, values: np.ndarray) -> np.ndarray:
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
