"""The printed form of a computation: its matrices, then one line a command, `c3: m2 += 0.5 * m1(0:9, 20:39)`.

Ranges are inclusive, as in `m1(0:9, :)` for the first ten rows of m1. Long index lists are cut, with their
length after the dots. A command that is broken (for instance one that names a table that is not there) still
prints, so that the checker can show it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nnet3.computation import commands as cmd
from nnet3.index import format_indexes

if TYPE_CHECKING:
    from nnet3.computation.computation import NnetComputation

_MAX_ITEMS = 8  # of an index list


def print_computation(computation: NnetComputation, max_commands: int | None = None) -> str:
    """The whole computation as text; with `max_commands` only that many commands, and how many were left out."""
    lines = [summary(computation)]
    lines += [_introduction(computation, m) for m in range(1, len(computation.matrices))]
    shown = computation.commands[:max_commands]
    lines += [numbered_command(computation, number) for number in range(len(shown))]
    if len(shown) < len(computation.commands):
        lines.append(f"... {len(computation.commands) - len(shown)} more commands")
    return "\n".join(lines)


def summary(computation: NnetComputation) -> str:
    """One line: how large the computation is."""
    segments = 1 + sum(isinstance(command, cmd.SegmentMarker) for command in computation.commands)
    counts = (
        _count(len(computation.matrices) - 1, "matrix", "matrices"),
        _count(len(computation.commands), "command"),
        _count(segments, "segment"),
    )
    return "# " + ", ".join(counts)


def numbered_command(computation: NnetComputation, number: int) -> str:
    """Command `number` with its number before it, `c3: m2 += m1`."""
    return f"c{number}: {format_command(computation, computation.commands[number])}"


def format_command(computation: NnetComputation, command: cmd.Command) -> str:
    """One command without its number."""
    formatter = _FORMATTERS.get(type(command))
    return repr(command) if formatter is None else formatter(computation, command)


def format_submatrix(computation: NnetComputation, number: int) -> str:
    """`m3` for a whole matrix, `m3(0:9, 20:39)` for a block of it, `[]` for the empty sub-matrix."""
    if number == 0:
        return "[]"
    if not 0 < number < len(computation.submatrices):
        return f"<no sub-matrix {number}>"
    block = computation.submatrices[number]
    return _block(computation, number, range(block.row_offset, block.row_offset + block.num_rows))


def _block(computation: NnetComputation, number: int, rows: range) -> str:
    """These rows of the matrix and the columns of sub-matrix `number`."""
    block = computation.submatrices[number]
    if not 0 <= block.matrix < len(computation.matrices):
        return f"<no matrix {block.matrix}>"
    matrix = computation.matrices[block.matrix]
    columns = range(block.col_offset, block.col_offset + block.num_cols)
    row_text, column_text = _range(rows, matrix.num_rows), _range(columns, matrix.num_cols)
    if row_text == column_text == ":":
        return f"m{block.matrix}"
    return f"m{block.matrix}({row_text}, {column_text})"


def _range(numbers: range, size: int) -> str:
    if numbers == range(size):
        return ":"
    return _run(numbers.start, numbers.stop - 1)


def _run(first: int, last: int) -> str:
    return f"{first}" if first == last else f"{first}:{last}"


def _count(number: int, noun: str, plural: str = "") -> str:
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def _introduction(computation: NnetComputation, matrix: int) -> str:
    size = computation.matrices[matrix]
    text = f"m{matrix}({size.num_rows}, {size.num_cols})"
    info = computation.matrix_info.get(matrix)
    if info is None:
        return text
    kind = "derivative" if info.is_deriv else "value"
    return f"{text} == {kind}: {info.node} {format_indexes(info.indexes, _MAX_ITEMS)}"


# ---- side tables ----


def _index_list(computation: NnetComputation, table: int) -> str:
    """Row numbers, `[0:11, -1x4]`: runs that count up, and runs of -1."""
    rows = _table(computation.index_tables, table, 1)
    if isinstance(rows, str):
        return rows
    goes_on = np.where(rows[:-1] == -1, rows[1:] == -1, rows[1:] == rows[:-1] + 1)
    items = (_run(rows[i], rows[j]) if rows[i] != -1 else _nothing(j - i + 1) for i, j in _runs(goes_on, len(rows)))
    return _elided(items, len(rows))


def _multi_list(computation: NnetComputation, table: int) -> str:
    """Rows of sub-matrices, `[m17(0:3, :), -1x2]`."""
    pairs = _table(computation.multi_tables, table, 2)
    if isinstance(pairs, str):
        return pairs
    sub, row = pairs[:, 0], pairs[:, 1]
    goes_on = (sub[1:] == sub[:-1]) & ((sub[:-1] == -1) | (row[1:] == row[:-1] + 1))
    items = (_multi_item(computation, sub[i], row[i], row[j], j - i + 1) for i, j in _runs(goes_on, len(sub)))
    return _elided(items, len(sub))


def _multi_item(computation: NnetComputation, sub: int, first: int, last: int, length: int) -> str:
    if sub == -1:
        return _nothing(length)
    if not 0 < sub < len(computation.submatrices):
        return format_submatrix(computation, sub)
    start = computation.submatrices[sub].row_offset
    return _block(computation, sub, range(start + first, start + last + 1))


def _range_list(computation: NnetComputation, table: int) -> str:
    """Row ranges, `[0:3, -, 4]`, with a dash for an empty one."""
    ranges = _table(computation.range_tables, table, 2)
    if isinstance(ranges, str):
        return ranges
    return _elided((_run(first, end - 1) if first != end else "-" for first, end in ranges), len(ranges))


def _table(tables: Sequence[np.ndarray], number: int, dimensions: int) -> np.ndarray | str:
    """The table as int64, or what to print in its place: a list has one dimension, pairs have two."""
    if not 0 <= number < len(tables):
        return f"[<no table {number}>]"
    if tables[number].ndim != dimensions:
        return f"[<table of shape {tables[number].shape}>]"
    return tables[number].astype(np.int64)


def _nothing(times: int) -> str:
    return "-1" if times == 1 else f"-1x{times}"


def _runs(goes_on: np.ndarray, length: int) -> Iterator[tuple[int, int]]:
    """First and last position of each run, where `goes_on[i]` says that i and i + 1 are in one run."""
    if length == 0:
        return iter(())
    cuts = np.flatnonzero(~goes_on)
    return zip([0, *(cuts[:_MAX_ITEMS] + 1).tolist()], [*cuts[: _MAX_ITEMS + 1].tolist(), length - 1], strict=False)


def _elided(items: Iterator[str], length: int) -> str:
    shown = [item for item, _ in zip(items, range(_MAX_ITEMS + 1), strict=False)]
    if len(shown) > _MAX_ITEMS:
        shown[-1] = f"... {length} rows"
    return f"[{', '.join(shown)}]"


# ---- commands ----

_Formatter = Callable[["NnetComputation", Any], str]


def _kernel_name(computation: NnetComputation, kernel: int) -> str:
    return computation.kernels[kernel].name if 0 <= kernel < len(computation.kernels) else f"<no kernel {kernel}>"


def _submatrix_list(computation: NnetComputation, numbers: Sequence[int], reference: str = "") -> str:
    """One or several operands; `reference` marks those that are filled."""
    names = [(reference if number else "") + format_submatrix(computation, number) for number in numbers]
    return names[0] if len(names) == 1 else f"({', '.join(names)})"


def _notes(*notes: str) -> str:
    kept = [note for note in notes if note]
    return f" [{', '.join(kept)}]" if kept else ""


def _propagate(computation: NnetComputation, command: cmd.Propagate) -> str:
    inputs = _submatrix_list(computation, command.inputs)
    output = format_submatrix(computation, command.output)
    notes = _notes(
        f"precomputed {command.precomputed}" if command.precomputed else "",
        f"memo {command.memo}" if command.memo >= 0 else "",
        "store stats" if command.store_stats else "",
    )
    return f"{_kernel_name(computation, command.kernel)}.Propagate({inputs}, &{output}){notes}"


def _backprop(computation: NnetComputation, command: cmd.Backprop) -> str:
    name = _kernel_name(computation, command.kernel)
    operands = (
        _submatrix_list(computation, command.inputs),
        format_submatrix(computation, command.output),
        format_submatrix(computation, command.output_deriv),
        _submatrix_list(computation, command.input_derivs, "&"),
    )
    notes = _notes(
        f"node {command.node}" if command.node != name else "",
        "update" if command.update else "",
        f"precomputed {command.precomputed}" if command.precomputed else "",
        f"memo {command.memo}" if command.memo >= 0 else "",
    )
    return f"{name}.Backprop({', '.join(operands)}){notes}"


def _alloc(computation: NnetComputation, command: cmd.AllocMatrix) -> str:
    name = format_submatrix(computation, command.matrix)
    contents = "zeros" if command.zeroed else "undefined"
    if not 0 < command.matrix < len(computation.submatrices):
        return f"{name} = {contents}"
    block = computation.submatrices[command.matrix]
    return f"{name} = {contents}({block.num_rows}, {block.num_cols})"


def _assignment(operator: str) -> _Formatter:
    def formatter(computation: NnetComputation, command: cmd.MatrixCopy | cmd.MatrixAdd) -> str:
        scale = "" if command.scale == 1 else f"{command.scale:g} * "
        source = format_submatrix(computation, command.source)
        return f"{format_submatrix(computation, command.dest)} {operator} {scale}{source}"

    return formatter


def _rows(name: str) -> _Formatter:
    def formatter(computation: NnetComputation, command: cmd.CopyRows | cmd.AddRows) -> str:
        source = format_submatrix(computation, command.source)
        rows = _index_list(computation, command.indexes)
        return f"{format_submatrix(computation, command.dest)}.{name}({command.scale:g}, {source}{rows})"

    return formatter


def _multi(name: str, operand: str) -> _Formatter:
    def formatter(computation: NnetComputation, command: cmd.Command) -> str:
        matrix, table, scale = (getattr(command, field) for field in (operand, "table", "scale"))
        return f"{format_submatrix(computation, matrix)}.{name}({scale:g}, {_multi_list(computation, table)})"

    return formatter


def _row_ranges(computation: NnetComputation, command: cmd.AddRowRanges) -> str:
    dest, source = format_submatrix(computation, command.dest), format_submatrix(computation, command.source)
    return f"{dest}.AddRowRanges({command.scale:g}, {source}, {_range_list(computation, command.ranges)})"


def _sub(template: str, *fields: str) -> _Formatter:
    """A template in which the named sub-matrix fields are printed; the rest of the command goes in as `command`."""

    def formatter(computation: NnetComputation, command: cmd.Command) -> str:
        names = {field: format_submatrix(computation, getattr(command, field)) for field in fields}
        return template.format(command=command, **names)

    return formatter


_FORMATTERS: dict[type[cmd.Command], _Formatter] = {
    cmd.AllocMatrix: _alloc,
    cmd.DeallocMatrix: _sub("{matrix} = []", "matrix"),
    cmd.SwapMatrix: _sub("{first}.swap({second})", "first", "second"),
    cmd.SetConst: _sub("{dest}.set({command.value:g})", "dest"),
    cmd.CompressMatrix: _sub("{matrix}.compress({command.method})", "matrix"),
    cmd.DecompressMatrix: _sub("{matrix}.decompress()", "matrix"),
    cmd.Propagate: _propagate,
    cmd.Backprop: _backprop,
    cmd.MatrixCopy: _assignment("="),
    cmd.MatrixAdd: _assignment("+="),
    cmd.CopyRows: _rows("CopyRows"),
    cmd.AddRows: _rows("AddRows"),
    cmd.CopyRowsMulti: _multi("CopyRowsMulti", "dest"),
    cmd.AddRowsMulti: _multi("AddRowsMulti", "dest"),
    cmd.CopyToRowsMulti: _multi("CopyToRowsMulti", "source"),
    cmd.AddToRowsMulti: _multi("AddToRowsMulti", "source"),
    cmd.AddRowRanges: _row_ranges,
    cmd.AcceptInput: _sub("{dest} = user input [for node: '{command.name}']", "dest"),
    cmd.ProvideOutput: _sub("output {source} to user [for node: '{command.name}']", "source"),
    cmd.NoOp: _sub("[no-op]"),
    cmd.SegmentMarker: _sub("[end of segment]"),
    cmd.Label: _sub("[label {command.name}]"),
    cmd.Goto: _sub("goto {command.label}"),
}
