"""A matrix that is nothing but a copy of a block of another one gives way to that block.

Most descriptors pass one node on to one component, and most derivatives have one consumer; both come out of the
compiler as a copy. The copy is not needed if, once its rows are written, neither they nor the rows they came from
are written again.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from nnet3.computation.analysis import READ, Analysis
from nnet3.computation.commands import (
    AccessKind,
    AllocMatrix,
    Command,
    CompressMatrix,
    DeallocMatrix,
    DecompressMatrix,
    Goto,
    MatrixCopy,
    ProvideOutput,
    SwapMatrix,
)
from nnet3.computation.computation import NnetComputation, SubMatrix
from nnet3.computation.declarations import substitute, substitute_in_table


@dataclass(frozen=True)
class _Copies:
    """All commands that write a matrix: copies of blocks of one other, all with the same shift."""

    matrix: int
    source: int
    row_shift: int
    col_shift: int
    commands: tuple[int, ...]


def share_copies(computation: NnetComputation) -> NnetComputation:
    """Read the original instead of a copy, wherever both stay as they are."""
    if any(isinstance(command, Goto) for command in computation.commands):
        return computation  # in a loop "later" is not what the order of the list says
    shared = _share_once(computation)
    while shared is not computation:  # sharing can make copies of several matrices copies of one
        computation, shared = shared, _share_once(shared)
    return computation


def _share_once(computation: NnetComputation) -> NnetComputation:
    candidates = _matrices_that_are_copies(computation)
    if not candidates:
        return computation
    analysis = Analysis(computation)
    shared = {c.matrix: c for c in candidates if _originals_stay(analysis, c)}
    if not shared:
        return computation
    return _redirect(computation, shared)


def _matrices_that_are_copies(computation: NnetComputation) -> list[_Copies]:
    """Matrices that are written by unscaled copies of another matrix only, completely, each row once."""
    writers: dict[int, list[int]] = defaultdict(list)
    excluded = {0, *computation.outside_by_matrix()}
    for number, command in enumerate(computation.commands):
        if isinstance(command, ProvideOutput):
            excluded.add(computation.submatrices[command.source].matrix)
        elif isinstance(command, SwapMatrix | CompressMatrix | DecompressMatrix):
            excluded |= {computation.submatrices[a.submatrix].matrix for a in command.accesses(computation)}
        if not isinstance(command, AllocMatrix):
            for access in command.accesses(computation):
                if access.kind is not AccessKind.READ:
                    writers[computation.submatrices[access.submatrix].matrix].append(number)
    found = [_as_copies(computation, matrix, numbers) for matrix, numbers in writers.items() if matrix not in excluded]
    return [copies for copies in found if copies is not None and copies.source not in excluded - {0}]


def _as_copies(computation: NnetComputation, matrix: int, numbers: list[int]) -> _Copies | None:
    shifts: set[tuple[int, int, int]] = set()
    ranges: list[tuple[int, int]] = []
    for number in numbers:
        command = computation.commands[number]
        if not isinstance(command, MatrixCopy) or command.scale != 1.0:
            return None
        dest, source = computation.submatrices[command.dest], computation.submatrices[command.source]
        if dest.num_cols != computation.matrices[matrix].num_cols:
            return None
        ranges.append((dest.row_offset, dest.row_offset + dest.num_rows))
        shifts.add((source.matrix, source.row_offset - dest.row_offset, source.col_offset - dest.col_offset))
    ranges.sort()
    bounds = [0, *(end for _, end in ranges)]
    follow_each_other = all(start == end for (start, _), end in zip(ranges, bounds, strict=False))
    if len(shifts) != 1 or not follow_each_other or bounds[-1] != computation.matrices[matrix].num_rows:
        return None
    source_matrix, row_shift, col_shift = shifts.pop()
    if source_matrix == matrix or 2 * _size(computation, matrix) < _size(computation, source_matrix):
        return None  # a small copy is cheaper than keeping a large original for longer
    return _Copies(matrix, source_matrix, row_shift, col_shift, tuple(numbers))


def _size(computation: NnetComputation, matrix: int) -> int:
    return computation.matrices[matrix].num_rows * computation.matrices[matrix].num_cols


def _originals_stay(analysis: Analysis, copies: _Copies) -> bool:
    """Whether every row of the original that is copied is written for the last time before it is copied."""
    computation = analysis.computation
    sources = np.array([c.source for n in copies.commands if isinstance(c := computation.commands[n], MatrixCopy)])
    variables = analysis.variables.of_submatrices(sources)
    copied_at = np.repeat(np.array(copies.commands), analysis.variables.counts(sources))
    if len(np.unique(variables)) != len(variables):
        return False
    written = analysis.event_kind != READ
    last_write = np.full(int(max(variables.max(), analysis.event_variable.max())) + 1, -1)
    np.maximum.at(last_write, analysis.event_variable[written], analysis.event_command[written])
    return bool((last_write[variables] < copied_at).all())


def _redirect(computation: NnetComputation, shared: dict[int, _Copies]) -> NnetComputation:
    """The computation without the shared matrices; what read them reads the originals."""
    result = computation.copy()
    removed = {number for copies in shared.values() for number in copies.commands}
    target = [_target(result, number, shared) for number in range(len(computation.submatrices))]
    kept = [
        substitute(command, target)
        for number, command in enumerate(computation.commands)
        if number not in removed and not _sizes_shared_matrix(computation, command, shared)
    ]
    result.commands = kept
    result.multi_tables = [substitute_in_table(table, np.array(target)) for table in computation.multi_tables]
    return result


def _target(result: NnetComputation, number: int, shared: dict[int, _Copies]) -> int:
    """The sub-matrix that takes the place of sub-matrix `number`: itself, or the same block of the original."""
    block = result.submatrices[number]
    if block.matrix not in shared:
        return number
    while block.matrix in shared:
        copies = shared[block.matrix]
        row, column = block.row_offset + copies.row_shift, block.col_offset + copies.col_shift
        block = SubMatrix(copies.source, row, block.num_rows, column, block.num_cols)
    return result.find_or_add(block)


def _sizes_shared_matrix(computation: NnetComputation, command: Command, shared: dict[int, _Copies]) -> bool:
    if not isinstance(command, AllocMatrix | DeallocMatrix):
        return False
    return computation.submatrices[command.matrix].matrix in shared
