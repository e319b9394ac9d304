"""What each kind of command demands of its operands: that they exist and that their sizes agree.

A rule looks at one command and yields what is wrong with it. `checker` adds the rules about order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nnet3.computation import commands as cmd
from nnet3.computation.printer import format_submatrix

if TYPE_CHECKING:
    from nnet3.computation.computation import NnetComputation, SubMatrix
    from nnet3.computation.kernel import KernelInfo

Problems = Iterator[str]

COMPRESSION_METHODS = ("bfloat16", "sign")


def command_problems(computation: NnetComputation, command: cmd.Command) -> Problems:
    """What is wrong with this command, whatever stands before and after it.

    A rule may rely on what it has reported itself: take one problem at a time and stop at the first.
    """
    rule = _RULES.get(type(command))
    return iter(()) if rule is None else rule(computation, command)


# ---- operands ----


def _exists(computation: NnetComputation, role: str, number: int) -> Problems:
    if not 0 < number < len(computation.submatrices):
        yield f"its {role} is sub-matrix {number}, expected 1 to {len(computation.submatrices) - 1}"


def _exists_or_empty(computation: NnetComputation, role: str, number: int) -> Problems:
    if number != 0:
        yield from _exists(computation, role, number)


def _is_whole(computation: NnetComputation, role: str, number: int) -> Problems:
    yield from _exists(computation, role, number)
    if not computation.is_whole_matrix(number):
        yield f"its {role} must be a whole matrix, got {format_submatrix(computation, number)}"


def _shape(computation: NnetComputation, number: int) -> tuple[int, int]:
    block = computation.submatrices[number]
    return block.num_rows, block.num_cols


def _same_shape(computation: NnetComputation, role: str, number: int, other_role: str, other: int) -> Problems:
    rows, cols = _shape(computation, number)
    other_rows, other_cols = _shape(computation, other)
    if (rows, cols) != (other_rows, other_cols):
        yield f"its {role} is {rows} x {cols}, its {other_role} {other_rows} x {other_cols}; they must be equal"


def _same_columns(computation: NnetComputation, role: str, number: int, other_role: str, other: int) -> Problems:
    cols, other_cols = _shape(computation, number)[1], _shape(computation, other)[1]
    if cols != other_cols:
        yield f"its {role} has {cols} columns, its {other_role} {other_cols}; they must be equal"


def _same_rows(computation: NnetComputation, role: str, number: int, other_role: str, other: int) -> Problems:
    rows, other_rows = _shape(computation, number)[0], _shape(computation, other)[0]
    if rows != other_rows:
        yield f"its {role} has {rows} rows, its {other_role} {other_rows}; they must be equal"


def _table(tables: Sequence[np.ndarray], kind: str, number: int, rows: int, columns: int) -> Problems:
    """A side table that exists and has one entry a row; `columns` 0 is a plain list."""
    if not 0 <= number < len(tables):
        yield f"its {kind} table is {number}, expected 0 to {len(tables) - 1}"
    table = tables[number]
    shape = (rows, columns) if columns else (rows,)
    if table.shape != shape:
        yield f"its {kind} table has shape {table.shape}, expected {shape}: one entry for each row"
    if table.dtype.kind not in "iu":
        yield f"its {kind} table must hold integers, got {table.dtype}"


# ---- memory ----


def _whole_matrix(computation: NnetComputation, command: cmd.AllocMatrix | cmd.DeallocMatrix) -> Problems:
    yield from _is_whole(computation, "operand", command.matrix)


def _decompress(computation: NnetComputation, command: cmd.DecompressMatrix) -> Problems:
    yield from _is_whole(computation, "operand", command.matrix)


def _compress(computation: NnetComputation, command: cmd.CompressMatrix) -> Problems:
    yield from _is_whole(computation, "operand", command.matrix)
    if command.method not in COMPRESSION_METHODS:
        yield f"unknown compression method '{command.method}', expected one of {', '.join(COMPRESSION_METHODS)}"


def _swap(computation: NnetComputation, command: cmd.SwapMatrix) -> Problems:
    yield from _is_whole(computation, "first operand", command.first)
    yield from _is_whole(computation, "second operand", command.second)
    if computation.submatrices[command.first].matrix == computation.submatrices[command.second].matrix:
        yield "its operands must be two different matrices"
    yield from _same_shape(computation, "first operand", command.first, "second", command.second)


def _set_const(computation: NnetComputation, command: cmd.SetConst) -> Problems:
    yield from _exists(computation, "destination", command.dest)


# ---- kernels ----


def _kernel(computation: NnetComputation, command: cmd.Propagate | cmd.Backprop) -> Problems:
    if not 0 <= command.kernel < len(computation.kernels):
        yield f"its kernel is {command.kernel}, expected 0 to {len(computation.kernels) - 1}"
    if not 0 <= command.precomputed < len(computation.precomputed):
        yield f"its precomputed entry is {command.precomputed}, expected 0 to {len(computation.precomputed) - 1}"
    if not -1 <= command.memo < computation.num_memos:
        yield f"its memo is {command.memo}, expected -1 to {computation.num_memos - 1}"
    kernel = computation.kernels[command.kernel]
    if command.memo >= 0 and not kernel.uses_memo:
        yield f"it has memo {command.memo}, but kernel '{kernel.name}' uses none"


def _row_by_row(computation: NnetComputation, kernel: KernelInfo, inputs: Sequence[int], output: int) -> Problems:
    if not kernel.rows_can_be_merged:
        return
    for number in inputs:
        if number and output:
            yield from _same_rows(computation, "input", number, "output", output)


def _propagate(computation: NnetComputation, command: cmd.Propagate) -> Problems:
    yield from _kernel(computation, command)
    for number in command.inputs:
        yield from _exists(computation, "input", number)
    yield from _exists(computation, "output", command.output)
    kernel = computation.kernels[command.kernel]
    if command.store_stats and not kernel.stores_stats:
        yield f"it stores statistics, but kernel '{kernel.name}' has none"
    yield from _row_by_row(computation, kernel, command.inputs, command.output)


def _backprop(computation: NnetComputation, command: cmd.Backprop) -> Problems:
    yield from _kernel(computation, command)
    for number in command.inputs:
        yield from _exists_or_empty(computation, "input", number)
    yield from _exists_or_empty(computation, "output", command.output)
    yield from _exists(computation, "output derivative", command.output_deriv)
    for number in command.input_derivs:
        yield from _exists_or_empty(computation, "input derivative", number)
    kernel = computation.kernels[command.kernel]
    if len(command.inputs) != len(command.input_derivs):
        yield f"it has {len(command.inputs)} inputs and {len(command.input_derivs)} input derivatives"
    if kernel.backprop_needs_input and 0 in command.inputs:
        yield f"kernel '{kernel.name}' needs its input values, but one is empty"
    if kernel.backprop_needs_output and command.output == 0:
        yield f"kernel '{kernel.name}' needs its output value, but it is empty"
    if kernel.uses_memo and command.memo < 0:
        yield f"kernel '{kernel.name}' needs the memo of its Propagate, but none is given"
    if command.update and not computation.need_model_derivative and kernel.updatable:
        yield f"it updates kernel '{kernel.name}' in a computation without model derivative"
    if command.output:
        yield from _same_shape(computation, "output", command.output, "output derivative", command.output_deriv)
    for number, deriv in zip(command.inputs, command.input_derivs, strict=True):
        if number and deriv:
            yield from _same_shape(computation, "input", number, "input derivative", deriv)
    yield from _row_by_row(computation, kernel, (*command.inputs, *command.input_derivs), command.output_deriv)
    derivs = [computation.submatrices[number] for number in command.input_derivs if number]
    if any(overlap(a, b) for i, a in enumerate(derivs) for b in derivs[:i]):
        yield "two of its input derivatives overlap"


def overlap(a: SubMatrix, b: SubMatrix) -> bool:
    """Whether two sub-matrices have an element in common."""
    return (
        a.matrix == b.matrix
        and max(a.row_offset, b.row_offset) < min(a.row_offset + a.num_rows, b.row_offset + b.num_rows)
        and max(a.col_offset, b.col_offset) < min(a.col_offset + a.num_cols, b.col_offset + b.num_cols)
    )


# ---- copying and adding ----


def _dest_and_source(computation: NnetComputation, command: Any) -> Problems:
    yield from _exists(computation, "destination", command.dest)
    yield from _exists(computation, "source", command.source)


def _matrix(computation: NnetComputation, command: cmd.MatrixCopy | cmd.MatrixAdd) -> Problems:
    yield from _dest_and_source(computation, command)
    yield from _same_shape(computation, "destination", command.dest, "source", command.source)


def _rows(computation: NnetComputation, command: cmd.CopyRows | cmd.AddRows) -> Problems:
    yield from _dest_and_source(computation, command)
    yield from _same_columns(computation, "destination", command.dest, "source", command.source)
    source_rows = _shape(computation, command.source)[0]
    yield from _table(computation.index_tables, "index", command.indexes, _shape(computation, command.dest)[0], 0)
    indexes = computation.index_tables[command.indexes]
    for i in np.flatnonzero((indexes < -1) | (indexes >= source_rows))[:1]:
        yield f"entry {i} of its index table is row {indexes[i]}, expected -1 to {source_rows - 1}"


def _row_ranges(computation: NnetComputation, command: cmd.AddRowRanges) -> Problems:
    yield from _dest_and_source(computation, command)
    yield from _same_columns(computation, "destination", command.dest, "source", command.source)
    source_rows = _shape(computation, command.source)[0]
    yield from _table(computation.range_tables, "range", command.ranges, _shape(computation, command.dest)[0], 2)
    first, end = computation.range_tables[command.ranges].T
    for i in np.flatnonzero((first < 0) | (first > end) | (end > source_rows))[:1]:
        yield f"entry {i} of its range table is [{first[i]}, {end[i]}), expected 0 <= first <= end <= {source_rows}"


def _multi_table(computation: NnetComputation, number: int, role: str, matrix: int) -> Problems:
    """A table of (sub-matrix, row) with one entry for each row of `matrix`, whose role in the command is `role`."""
    yield from _exists(computation, role, matrix)
    rows, cols = _shape(computation, matrix)
    yield from _table(computation.multi_tables, "row", number, rows, 2)
    sub, row = computation.multi_tables[number].T
    known = (sub > 0) & (sub < len(computation.submatrices))
    for i in np.flatnonzero(~known & ~((sub == -1) & (row == -1)))[:1]:
        yield f"entry {i} of its row table is ({sub[i]}, {row[i]}), expected a sub-matrix and a row, or (-1, -1)"
    for i in np.flatnonzero(known & ((row < 0) | (row >= _column_of(computation, sub, 0))))[:1]:
        size = _shape(computation, sub[i])[0]
        yield f"entry {i} of its row table is row {row[i]} of {format_submatrix(computation, sub[i])}, which has {size}"
    for i in np.flatnonzero(known & (_column_of(computation, sub, 1) != cols))[:1]:
        name, size = format_submatrix(computation, sub[i]), _shape(computation, sub[i])[1]
        yield f"entry {i} of its row table is in {name} with {size} columns; its {role} has {cols}"


def _column_of(computation: NnetComputation, submatrices: np.ndarray, part: int) -> np.ndarray:
    """Rows (part 0) or columns (part 1) of each sub-matrix."""
    distinct, inverse = np.unique(submatrices, return_inverse=True)
    return np.array([_shape(computation, s)[part] for s in distinct.tolist()], dtype=np.int64)[inverse]


def _gather(computation: NnetComputation, command: cmd.CopyRowsMulti | cmd.AddRowsMulti) -> Problems:
    return _multi_table(computation, command.table, "destination", command.dest)


def _scatter(computation: NnetComputation, command: cmd.CopyToRowsMulti | cmd.AddToRowsMulti) -> Problems:
    yield from _multi_table(computation, command.table, "source", command.source)
    table = computation.multi_tables[command.table]
    entries = np.flatnonzero(table[:, 0] != -1)
    distinct, inverse = np.unique(table[entries, 0], return_inverse=True)
    blocks = [computation.submatrices[s] for s in distinct.tolist()]
    origin = np.array([(b.matrix, b.row_offset, b.col_offset) for b in blocks], dtype=np.int64).reshape(-1, 3)[inverse]
    row = origin[:, 1] + table[entries, 1]
    # All parts are equally wide, so among parts of one row any that overlap are neighbours by first column.
    order = np.lexsort((origin[:, 2], row, origin[:, 0]))
    same_row = (np.diff(origin[order, 0]) == 0) & (np.diff(row[order]) == 0)
    twice = same_row & (np.diff(origin[order, 2]) < _shape(computation, command.source)[1])
    for i in np.flatnonzero(twice)[:1]:
        first, second = sorted((entries[order[i]], entries[order[i + 1]]))
        yield f"entries {first} and {second} of its row table name the same row; a scatter must not name a row twice"


# ---- the outside world ----


def _accept(computation: NnetComputation, command: cmd.AcceptInput) -> Problems:
    yield from _exists(computation, "destination", command.dest)
    known = {i.name: i.value for i in computation.inputs} | {o.name: o.deriv for o in computation.outputs if o.deriv}
    yield from _fits_io(computation, command.name, command.dest, known, "an input or an output with derivative")


def _provide(computation: NnetComputation, command: cmd.ProvideOutput) -> Problems:
    yield from _exists(computation, "source", command.source)
    known = {i.name: i.deriv for i in computation.inputs if i.deriv} | {o.name: o.value for o in computation.outputs}
    yield from _fits_io(computation, command.name, command.source, known, "an output or an input with derivative")


def _fits_io(computation: NnetComputation, name: str, number: int, known: dict[str, int], wanted: str) -> Problems:
    if name not in known:
        yield f"'{name}' is not {wanted} of this computation"
    yield from _same_columns(computation, "operand", number, f"declared '{name}'", known[name])


_RULES: dict[type[cmd.Command], Callable[[NnetComputation, Any], Problems]] = {
    cmd.AllocMatrix: _whole_matrix,
    cmd.DeallocMatrix: _whole_matrix,
    cmd.SwapMatrix: _swap,
    cmd.SetConst: _set_const,
    cmd.CompressMatrix: _compress,
    cmd.DecompressMatrix: _decompress,
    cmd.Propagate: _propagate,
    cmd.Backprop: _backprop,
    cmd.MatrixCopy: _matrix,
    cmd.MatrixAdd: _matrix,
    cmd.CopyRows: _rows,
    cmd.AddRows: _rows,
    cmd.CopyRowsMulti: _gather,
    cmd.AddRowsMulti: _gather,
    cmd.CopyToRowsMulti: _scatter,
    cmd.AddToRowsMulti: _scatter,
    cmd.AddRowRanges: _row_ranges,
    cmd.AcceptInput: _accept,
    cmd.ProvideOutput: _provide,
}
