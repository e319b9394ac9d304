"""Tape: a machine that notes the work of all commands, by groups of commands, for native code to do.

Commands of a group have equal fields but for operands and memos. Operands and memos have equal numbers of blocks, and
operands with equal numbers of rows in the first command have equal numbers in all. The first command of a group is
evaluated as by any machine, on `Recorded` elements; the rest call the noted template with new addresses and rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nnet3.base.native.library import library
from nnet3.engine.ir.declarations import Command, Life, PlainValue, Role, Schema, attributes
from nnet3.engine.ir.proof import field
from nnet3.engine.ir.proof.columns import ColumnSpan
from nnet3.engine.ir.proof.machine import Memo
from nnet3.engine.ir.proof.notes import AnyRows, CallTemplate, NotedKernel, Notes, OwnTemplate
from nnet3.engine.ir.proof.program_columns import keys_of_rows
from nnet3.engine.ir.proof.program_machine import ProgramMachine
from nnet3.engine.ir.proof.recorded_randoms import RandomRequest, RecordedRandoms
from nnet3.engine.ir.proof.recording import MEMORY, OPERANDS, Recorded, Words
from nnet3.engine.ir.variables import block_table, matrix_sizes
from nnet3.errors import ProofError

if TYPE_CHECKING:
    from nnet3.engine.ir.computation import NnetComputation

_Effect = tuple[str, str, int]
_NO_KERNEL = NotedKernel()
_UNLIKE: tuple[bytes, list[int], list[int]] = b"", [], []  # any other command
_UNDEFINED = RandomRequest(("undefined",))  # counts the random elements that stand for what nobody has written


class _Addresses:
    """The first element of each sub-matrix in memory, its matrix, rows and blocks, and numbers for sizes: by number."""

    def __init__(self, computation: NnetComputation, number: int, notes: Notes, widths: Sequence[int]) -> None:
        """`widths`: the blocks of the columns of each matrix."""
        table, columns = block_table(computation), notes.randoms.columns
        matrix, first_row, rows, first_column, num_columns, _ = table.T
        num_rows = matrix_sizes(computation)[:, 0]
        #: The first element of each matrix, and their number.
        self.starts = np.concatenate([[0], np.cumsum(num_rows * widths)])
        program, found = columns.programs[number], []
        for own, first, count in program.spans:
            blocks = columns.blocks(ColumnSpan((number, own), first, count)) if widths[own] else slice(0, 0)
            sizes = blocks.stop - blocks.start, widths[own], count, computation.has_samples(own)
            found.append((blocks.start, sizes[0], notes.number(sizes)))
        start, blocks, sizes = np.array(found, np.int64).T[:, program.span]
        width = np.array(widths, np.int64)[matrix]
        self.is_inside = (first_row >= 0) & (first_row + rows <= num_rows[matrix])  # its matrix
        self.is_inside &= (first_column >= 0) & (num_columns >= 0)
        self.matrix: list[int] = matrix.tolist()
        self.rows: list[int] = rows.tolist()
        self.blocks: list[int] = blocks.tolist()
        first = self.starts[matrix] + first_row * width + start
        self.first: list[int] = first.tolist()
        self.sizes: list[int] = sizes.tolist()  # a number for all sizes but the rows
        #: The matrix, the first element, a number for sizes and rows: (sub-matrices, 3).
        self.table = np.stack([matrix, first, sizes << 32 | rows], axis=1)
        self.table[0, 2] = -1


class _Fields(NamedTuple):
    """The fields of a class of commands that make its group: the kernel's name, the values, whether a group exists."""

    kernel: str
    values: Callable[[Command], Any]
    memo: str
    has_group: bool
    is_life: bool  # they begin or end the life of a matrix
    of_node: Callable[[Command], Any]  # the values, the node and the kernel


class _Call(NamedTuple):
    """How commands that are alike are called: their template, its instance for their rows, and these."""

    own: OwnTemplate
    instance: int
    rows: AnyRows


class Tape(ProgramMachine):
    """The state of a run in which nothing is computed before all commands have been noted."""

    randoms: RecordedRandoms

    def __init__(self, computation: NnetComputation, number: int, notes: Notes) -> None:
        super().__init__(computation, number, notes.randoms)
        self._notes, self._recording = notes, notes.randoms.recording
        self._kernels = list(map(notes.kernel, computation.kernels))
        self._widths = [self._columns.num_blocks((number, k)) for k in range(len(computation.matrices))]
        self._at = _Addresses(computation, number, notes, self._widths)
        self._size = self._at.starts[-1]  # of memory, in elements
        self._begun = {0}
        self._memos: dict[int, tuple[int, int]] = {}  # where each memo lies, and its rows
        self._operands: Sequence[int] = ()  # of the command that is noted
        self._rows: Sequence[int] = ()  # theirs
        self._memo_rows = -1  # of the memo that it keeps
        self._results: dict[_Effect, tuple[int, int, int]] = {}
        self._calls: list[int] = []

    # ---- running ----

    def run(self) -> None:
        """Note all commands, and run the notes."""
        blocks, outside = self.computation.submatrices, self.computation.outside
        self._fill(0, self._size)
        for bound in outside:
            self._begun.add(blocks[bound.submatrix].matrix)
            values = self._named(("outside", bound.name), bound.submatrix)
            self._do(partial(self.write, bound.submatrix, values), bound.submatrix)
        calls, alike = dict[bytes, _Call | None](), self._alike()
        for number, command in enumerate(self.computation.commands):
            key, matrices, firsts = alike.get(number, _UNLIKE)
            call = calls.get(key)
            if call is not None and self._begun.issuperset(matrices):
                self._calls += [call.instance, *firsts, 0, *call.own.drawn]
            else:
                call = self._note_or_call(command)
                calls[key] = call if key else None
        for bound in filter(attrgetter("writable"), outside):
            self._do(partial(self._keep_result, ("memory", bound.name, 0), bound.submatrix), bound.submatrix)
        memory, drawn = self._run()
        for result, (first, rows, width) in self._results.items():
            self.outputs[result] = field.from_words(memory[first : first + rows * width].reshape(rows, width))
        for what in self.effects:
            first = self.randoms.first(RandomRequest(what, is_zero=True))
            self.effects[what] = field.from_words(drawn[first])
        self.calls.clear()  # they refer to the machine: programs are large

    def _run(self) -> tuple[Words, Words]:
        """Returns memory and the drawn elements, with the kernels' learned sums, after all calls."""
        recording, functions = self._recording, library()
        assert functions is not None
        undefined = self.randoms.first(_UNDEFINED)
        drawn = self.randoms.drawn()
        drawn[undefined] = self._undefined.base
        native, calls = recording.native_program(), np.array(self._calls, np.int64)
        scratch, memory = (np.empty(size + 1, np.uint64) for size in (native.scratch, self._size))
        numbers = self.randoms.drawn_numbers(1 + max(each.num_rows for each in self.computation.matrices))
        spaces = np.array([each.ctypes.data for each in (native.constants, drawn, numbers, scratch, memory)], np.uint64)
        arrays = spaces, native.instructions, native.starts, native.counts, calls
        functions.nnet3_run_elements(*[each.ctypes.data for each in arrays], len(calls), native.tables.ctypes.data)
        return memory, drawn

    def _alike(self) -> dict[int, tuple[bytes, list[int], list[int]]]:
        """Returns keys of commands, equal for equal calls, with the matrices and first elements of their operands.

        Left out are commands with memos, tables, or several operands in a matrix.
        """
        at, commands = self._at, self.computation.commands
        found = dict[int, tuple[bytes, list[int], list[int]]]()
        for position, (command_class, numbers, operands) in enumerate(self._columns.programs[self._number].commands):
            fields, known = _fields_of(command_class), dict[Any, int]()
            if not fields.has_group or fields.is_life or not operands.size:
                continue
            matrices = at.table[operands, 0]
            ordered = np.sort(matrices, axis=1)
            is_apart = ~((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] > 0)).any(axis=1)
            is_apart &= at.is_inside[operands].all(axis=1)
            own = [commands[number] for number in numbers]
            values = [known.setdefault(each, len(known)) for each in map(fields.of_node, own)]
            keys = keys_of_rows(values, np.full(len(own), position), at.table[operands, 2])
            rows = zip(keys, matrices.tolist(), at.table[operands, 1].tolist(), strict=True)
            if fields.memo:
                is_apart &= np.array([getattr(each, fields.memo) < 0 for each in own])
            found.update(
                (number, row) for number, row, apart in zip(numbers, rows, is_apart.tolist(), strict=True) if apart
            )
        return found

    def _note_or_call(self, command: Command) -> _Call | None:
        """Call the notes on commands that are alike, made now if there are none; returns how they are called."""
        command_class: Any = type(command)
        fields, operands = _fields_of(command_class), command.schema.operands(command)
        if fields.is_life:
            command.evaluate(self)
            return None
        at = self._at
        self._check_inside(operands)
        matrices = [at.matrix[number] for number in operands]
        memo = getattr(command, fields.memo) if fields.memo else -1
        memo_rows = -1 if memo < 0 else self._memos[memo][1] if memo in self._memos else -2
        if fields.has_group and self._begun.issuperset(matrices):
            is_new = len(set(operands)) == len(operands)  # each of them
            same = () if is_new else tuple([operands.index(each) for each in operands])
            call = self._of_group(command, operands, memo_rows, same)
        else:
            counts = tuple([at.rows[number] for number in operands])
            own = self._notes.own_of(self._note(partial(command.evaluate, self), operands, counts))
            call = self._new_call(own, AnyRows(counts, ()))
        self._call(call, [at.first[number] for number in operands], memo)
        for submatrix in self._spoiled(command):
            self._do(partial(self._spoil, submatrix), submatrix)
        return call

    def _check_inside(self, submatrices: Iterable[int]) -> None:
        """Raise ProofError if a sub-matrix is not inside its matrix."""
        for number in submatrices:
            if not self._at.is_inside[number]:
                raise ProofError(f"rows of sub-matrix {number} are none of matrix m{self._at.matrix[number]}")

    def _of_group(self, command: Command, operands: Sequence[int], memo_rows: int, same: Sequence[int]) -> _Call:
        """Returns how a command is called; it is noted if no command of its group was."""
        command_class: Any = type(command)
        notes, fields = self._notes, _fields_of(command_class)
        kernel = self._kernels[getattr(command, fields.kernel)] if fields.kernel else _NO_KERNEL
        rows = notes.any_rows((*[self._at.rows[number] for number in operands], memo_rows))
        group = command_class, fields.values(command), rows.noted, tuple([self._at.sizes[n] for n in operands]), same
        node = getattr(command, "node", "")
        own = notes.own.get((group, kernel.own, node))
        if own is None:
            template = notes.templates.get((group, kernel.alike))
            if template is None:
                template = self._note(partial(command.evaluate, self), operands, rows.noted, kernel.name)
                notes.templates[group, kernel.alike] = template
            own = notes.own[group, kernel.own, node] = notes.own_of(template, kernel.name, node)
        return self._new_call(own, rows)

    def _do(self, evaluate: Callable[[], None], *operands: int) -> None:
        """Note the operations of `evaluate` on sub-matrices, and call the template once."""
        self._check_inside(operands)
        own = self._notes.own_of(self._note(evaluate, operands, [self._at.rows[number] for number in operands]))
        self._call(self._new_call(own, AnyRows((), ())), [self._at.first[number] for number in operands], -1)

    def _note(
        self, evaluate: Callable[[], None], operands: Sequence[int], rows: Sequence[int], name: str = ""
    ) -> CallTemplate:
        """Returns the template of the operations of `evaluate` on operands with `rows` rows, for kernel `name`.

        `rows` may have a used memo's rows after the operands' rows.
        """
        self._operands, self._rows, self._memo_rows = operands, rows, -1
        self.randoms.begin(name, len(operands) + 1)
        evaluate()
        requests = self.randoms.wanted()
        number = self._recording.finish(len(operands) + 1 + len(requests))
        return CallTemplate(number, self._memo_rows, requests)

    def _new_call(self, own: OwnTemplate, rows: AnyRows) -> _Call:
        return _Call(own, self._recording.instance(own.template.number, rows.own), rows)

    def _call(self, call: _Call, firsts: Sequence[int], memo: int) -> None:
        """Call a template: with the addresses of operands, of a memo and of what was drawn."""
        own, instance, rows = call
        if own.template.memo_rows >= 0:
            memo_rows = rows.of(own.template.memo_rows)
            self._memos[memo] = self._new(2 * memo_rows + 1), memo_rows
        self._calls += [instance, *firsts, self._memos[memo][0] if memo in self._memos else 0, *own.drawn]
        if own.effects:
            self.effects |= own.effects

    def _new(self, count: int) -> int:
        """Returns where so many new elements lie in memory."""
        self._size += count
        return self._size - count

    # ---- what commands do: as `Machine` does it ----

    def begin(self, submatrix: int, zeroed: bool) -> None:
        matrix = self.computation.submatrices[submatrix].matrix
        first, end = self._at.starts[matrix : matrix + 2].tolist()
        if zeroed or matrix in self._begun:
            self._fill(first, end - first, zeroed)
        self._begun.add(matrix)

    def _fill(self, first: int, count: int, zeroed: bool = False) -> None:
        """Write zeros or random elements to memory."""
        rows = self._notes.any_rows((count,))
        own = self._notes.own.get((rows.noted, zeroed))
        if own is None:
            target = self._recording.memory(OPERANDS, 0, (*rows.noted, 1), 1)
            own = self._notes.own_of(self._note(partial(self._overwrite, target, zeroed), (0,), rows.noted))
            self._notes.own[rows.noted, zeroed] = own
        self._call(self._new_call(own, rows), [first], -1)

    def _spoil(self, submatrix: int) -> None:
        self._overwrite(self.read(submatrix))

    def _overwrite(self, target: Recorded, zeroed: bool = False) -> None:
        if zeroed:
            self._recording.write(target, field.ZERO)
        else:
            self._recording.randomize(target, self.randoms.asked(_UNDEFINED))

    def read(self, submatrix: int) -> Any:
        if not submatrix:
            return np.zeros((0, 0, 2), np.uint64)
        matrix = self.computation.submatrices[submatrix].matrix
        if matrix not in self._begun:
            raise ProofError(f"matrix m{matrix} is used before it begins")
        at, width = self._at, self._widths[matrix]
        if submatrix in self._operands:
            operand = self._operands.index(submatrix)
            return self._recording.memory(OPERANDS + operand, 0, (self._rows[operand], at.blocks[submatrix]), width)
        self._check_inside([submatrix])
        return self._recording.memory(MEMORY, at.first[submatrix], (at.rows[submatrix], at.blocks[submatrix]), width)

    def num_rows(self, submatrix: int) -> int:
        if submatrix in self._operands:
            return self._rows[self._operands.index(submatrix)]
        return super().num_rows(submatrix)

    def write(self, submatrix: int, values: Any) -> None:
        self._recording.write(self.read(submatrix), values)

    def add(self, submatrix: int, values: Any) -> None:
        self._recording.add(self.read(submatrix), values)

    def rows_of_table(self, table: int) -> Any:
        where, blocks = self._rows_of(table)
        return self._recording.gathered(where, blocks)

    def add_to_rows(self, table: int, values: Any) -> None:
        self._recording.send(values, self._rows_of(table)[0])

    def _rows_of(self, table: int) -> tuple[np.ndarray, int]:
        """Returns the beginnings in memory of the rows named by a multi table, -1 for none, and their blocks."""
        pairs, parts = self._entries(table)
        where, all_blocks = np.full(len(pairs), -1, np.int64), {1}
        for number, entries in parts:
            self.read(number)
            wanted = pairs[entries, 1]
            if len(wanted) and not 0 <= wanted.min() <= wanted.max() < self._at.rows[number]:
                raise ProofError(f"multi table {table} names rows that sub-matrix {number} does not have")
            where[entries] = self._at.first[number] + wanted * self._widths[self._at.matrix[number]]
            all_blocks = {self._at.blocks[number]}
        return where, all_blocks.pop()

    def provide(self, submatrix: int, name: str) -> None:
        self._keep_result(("output", name, self._count("provided", name)), submatrix)

    def _keep_result(self, what: _Effect, submatrix: int) -> None:
        rows, blocks = self._at.rows[submatrix], self._at.blocks[submatrix]
        first = self._new(rows * blocks)
        self._recording.write(self._recording.memory(MEMORY, first, (rows, blocks), blocks), self.read(submatrix))
        self._results[what] = first, rows, blocks

    # ---- kernels ----

    def keep(self, number: int, memo: Memo) -> None:
        self._memo_rows = len(memo.rows)
        for target, values in zip(self._memo_blocks(self._memo_rows), memo, strict=True):
            self._recording.write(target, values)

    def memo(self, number: int, num_rows: int) -> Memo | None:
        if number in self._memos:
            self.memos[number] = Memo(*self._memo_blocks(self._rows[len(self._operands)]))
        return super().memo(number, num_rows)

    def _memo_blocks(self, count: int) -> list[Any]:
        """Returns the blocks of the memo of a command, in memory: of rows, of all together, random numbers of rows."""
        space, memory = OPERANDS + len(self._operands), self._recording.memory
        return [memory(space, 0, (count,), 1), memory(space, 2 * count, (), 0), memory(space, count, (count,), 1)]

    def effect(self, kind: str, name: str, change: Any) -> None:
        what = kind, name, 0
        self.effects[what] = field.ZERO
        self._recording.add(self.randoms.asked(RandomRequest(what, is_zero=True)), change)

    def draws(self, kernel: str, node: str, count: int) -> Any:
        return self._recording.draws(count, self.randoms.asked(RandomRequest((kernel, "draws"), of_node=(node,))))


@cache
def _fields_of(command_class: Any) -> _Fields:
    schema: Schema = command_class.schema
    names = [each.name for each in schema.fields if isinstance(each.declared, PlainValue)]
    values = attributes([name for name in names if name != "node"])
    of_node = attributes([*names, schema.kernel] if schema.kernel else names)
    has_group = not schema.table_fields and command_class.role is not Role.IO
    is_life = any(each in (Life.BEGINS, Life.ENDS) for _, each in schema.lives)
    return _Fields(schema.kernel, values, schema.makes_memo or schema.uses_memo, has_group, is_life, of_node)
