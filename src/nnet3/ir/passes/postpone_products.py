"""Postponing: a recurrence multiplies at each step only what its steps read; the rest is one product after the last.

A step of a projected LSTM makes Append(r, p) by one product, of which the next step reads r alone. The columns of p are
made at once from what all steps have multiplied, which reads their weights once instead of at each step. Where a step
writes over the input of the step before, inputs are kept:

    before                                       after
    ...                                          m8(0:1, :) = m3
    W.Propagate(m3, &m4(0:1, 0:7))               W[0:6 to 0:4].Propagate(m8(0:1, :), &m4(0:1, 0:3))
    ...                                          ...
    W.Propagate(m3, &m4(2:3, 0:7))               W[0:6 to 0:4].Propagate(m8(2:3, :), &m4(2:3, 0:3))
                                                 W[0:6 to 4:8].Propagate(m8, &m4(:, 4:7))
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from nnet3.index import distinct
from nnet3.ir.analysis import Analysis, analyse
from nnet3.ir.commands import AllocMatrix, Command, DeallocMatrix, MatrixCopy, Propagate, SegmentMarker
from nnet3.ir.computation import NnetComputation, SubMatrix
from nnet3.ir.kernel import KernelInfo, part_name


def postpone_products(computation: NnetComputation) -> NnetComputation:
    """Multiply the columns that no step of a recurrence reads after its last step, by one product."""
    groups = _candidates(computation)
    edges = _column_edges(computation) if groups else {}
    candidates = [(numbers, columns) for numbers in groups for columns in _ranges(computation, numbers, edges)]
    if not candidates:
        return computation
    result = computation.copy()
    instead: dict[int, list[Command]] = {}
    done: set[int] = set()
    asked = [(numbers, columns, _columns_of_steps(result, numbers, columns)) for numbers, columns in candidates]
    analysis = analyse(result)
    for numbers, columns, late in asked:
        after_all = np.array(numbers) + 1
        untouched = min(*analysis.next_read(late, after_all), *analysis.next_write(late, after_all)) > numbers[-1]
        if untouched and numbers[0] not in done:
            done.add(numbers[0])
            instead |= _postponed(result, analysis, numbers, columns)
    if not instead:
        return computation
    result.commands = [c for number, command in enumerate(result.commands) for c in instead.get(number, (command,))]
    return result


def _candidates(computation: NnetComputation) -> list[list[int]]:
    """Returns the commands of each kernel that has parts that write, within a segment, rows of one matrix in turn."""
    found: dict[tuple[int, str, int], list[int]] = defaultdict(list)
    segment = 0
    for number, command in enumerate(computation.commands):
        segment += isinstance(command, SegmentMarker)
        if not isinstance(command, Propagate) or command.memo >= 0 or command.store_stats:
            continue
        if computation.kernels[command.kernel].has_parts and len(command.inputs) == 1:
            found[command.kernel, command.node, segment].append(number)
    return [numbers for numbers in found.values() if len(numbers) > 1 and _are_rows_of_one(computation, numbers)]


def _are_rows_of_one(computation: NnetComputation, numbers: Sequence[int]) -> bool:
    outputs = [_step(computation, number)[1] for number in numbers]
    rows = np.concatenate([np.arange(b.row_offset, b.row_offset + b.num_rows) for b in outputs])
    is_range = len(distinct(rows)) == len(rows) == np.ptp(rows) + 1
    return bool(is_range) and len({(b.matrix, b.col_offset, b.num_cols) for b in outputs}) == 1


def _step(computation: NnetComputation, number: int) -> tuple[SubMatrix, SubMatrix]:
    """Returns the input and the output of a step."""
    command = computation.commands[number]
    assert isinstance(command, Propagate)
    return computation.submatrices[command.inputs[0]], computation.submatrices[command.output]


def _column_edges(computation: NnetComputation) -> dict[int, set[int]]:
    """Returns the columns of each matrix at which sub-matrices that are in use begin or end."""
    edges: dict[int, set[int]] = defaultdict(set)
    for number in {number for command in computation.commands for number, _ in command.accesses(computation)}:
        block = computation.submatrices[number]
        edges[block.matrix] |= {block.col_offset, block.col_offset + block.num_cols}
    return edges


def _ranges(
    computation: NnetComputation, numbers: Sequence[int], edges: Mapping[int, set[int]]
) -> list[tuple[int, int]]:
    """Returns the columns [first, end) of the output that might be late: all behind, or before, an edge; most first."""
    output = _step(computation, numbers[0])[1]
    cuts = [cut for edge in edges[output.matrix] if 0 < (cut := edge - output.col_offset) < output.num_cols]
    ranges = [(0, cut) for cut in cuts] + [(cut, output.num_cols) for cut in cuts]
    return sorted(ranges, key=lambda columns: (columns[0] - columns[1], columns))


def _columns_of_steps(computation: NnetComputation, numbers: Sequence[int], columns: tuple[int, int]) -> np.ndarray:
    """Returns the sub-matrices of these columns of the output of each step."""
    first, end = columns
    steps = [computation.commands[number] for number in numbers]
    outputs = [step.output for step in steps if isinstance(step, Propagate)]
    return np.array([computation.new_submatrix(output, 0, None, first, end - first) for output in outputs])


def _postponed(
    result: NnetComputation, analysis: Analysis, numbers: Sequence[int], late: tuple[int, int]
) -> dict[int, list[Command]]:
    """Returns what stands in the places of the steps of a kernel of which these columns of the output are late."""
    steps = [result.commands[number] for number in numbers]
    blocks = [_step(result, number) for number in numbers]
    (x, output), lowest = blocks[0], min(y.row_offset for _, y in blocks)
    count = sum(y.num_rows for _, y in blocks)
    early = (late[1], output.num_cols) if late[0] == 0 else (0, late[0])
    stays = _stays(analysis, numbers, [y.row_offset - lowest for _, y in blocks])
    info = result.matrix_info.get(output.matrix)
    if stays:
        kept = result.find_or_add(_rows_of(x, x.row_offset - (output.row_offset - lowest), count))
    else:
        if info is not None and info.indexes is not None:
            info = replace(info, indexes=info.indexes[lowest : lowest + count])
        kept = result.new_matrix(count, x.num_cols, info, result.matrices[x.matrix].dtype)
    instead: dict[int, list[Command]] = {}
    for number, step, (_, y) in zip(numbers, steps, blocks, strict=True):
        assert isinstance(step, Propagate)
        here = result.new_submatrix(kept, y.row_offset - lowest, y.num_rows)
        part = _product(result, step, early, here, step.output)
        instead[number] = [part] if stays else [MatrixCopy(here, step.inputs[0]), part]
    rows = result.find_or_add(_rows_of(output, lowest, count))
    assert isinstance(step, Propagate)
    instead[numbers[-1]].append(_product(result, step, late, kept, rows))
    if not stays:
        instead[numbers[0]].insert(0, AllocMatrix(kept, zeroed=False))
        instead[numbers[-1]].append(DeallocMatrix(kept))
    return instead


def _rows_of(block: SubMatrix, first: int, count: int) -> SubMatrix:
    return block._replace(row_offset=first, num_rows=count)


def _stays(analysis: Analysis, numbers: Sequence[int], rows: Sequence[int]) -> bool:
    """Tells whether the inputs of all steps are there after the last one, in the order of the rows of their outputs."""
    computation = analysis.computation
    inputs = [_step(computation, number)[0] for number in numbers]
    places = {(x.matrix, x.row_offset - row, x.col_offset) for x, row in zip(inputs, rows, strict=True)}
    if len(places) > 1:
        return False
    submatrices = np.array([computation.find_or_add(x) for x in inputs])
    is_written = analysis.next_write(submatrices, np.array(numbers) + 1).min() <= numbers[-1]
    return not is_written and not numbers[0] < analysis.dealloc_command[inputs[0].matrix] < numbers[-1]


def _product(
    computation: NnetComputation, step: Propagate, outputs: tuple[int, int], source: int, output: int
) -> Propagate:
    """Returns what makes these columns of the output of a step, or of all."""
    first, end = outputs
    whole = computation.kernels[step.kernel]
    width = computation.submatrices[source].num_cols
    info = KernelInfo(part_name(whole.name, 0, width, adds=False, outputs=outputs), row_by_row=True)
    if info not in computation.kernels:
        computation.kernels.append(info)
    columns = computation.new_submatrix(output, 0, None, first, end - first)
    return Propagate(computation.kernels.index(info), step.node, (source,), columns)
