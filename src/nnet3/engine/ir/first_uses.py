"""The first uses of rows in programs with loops, whose sub-matrices move on: is anything read before it is written?

No iteration is written out as commands: the rows of each access in all iterations are an array, and of each row only
the first read and the first write count."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nnet3.base.index import concatenate_ranges, distinct
from nnet3.engine.ir.analysis import WRITE, Analysis
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.repeats import Positions, rows_in_iterations

_NEVER = np.iinfo(np.int64).max


class Undefined(NamedTuple):
    """An access reading rows of a matrix before the first write, in one iteration of a loop."""

    command: int
    iteration: int
    matrix: int


def moving_matrices(computation: NnetComputation) -> set[int]:
    """Returns the matrices with sub-matrices that move on from iteration to iteration."""
    return {computation.submatrices[number].matrix for number in computation.moving_submatrices()}


def first_undefined(analysis: Analysis, matrix: int, positions: Positions) -> Undefined | None:
    """Returns the first read of a matrix that finds an unwritten element; None without any.

    The matrix is undefined when it begins.
    """
    computation, table = analysis.computation, analysis.table
    own = np.flatnonzero(analysis.matrix_of_access == matrix)
    cuts = distinct(table[analysis.accesses.submatrix[own], 3:].ravel())
    num_rows = computation.matrices[matrix].num_rows
    first_read, first_write = (np.full((num_rows, len(cuts) - 1), _NEVER) for _ in range(2))
    for access in own.tolist():
        command, submatrix = int(analysis.accesses.command[access]), int(analysis.accesses.submatrix[access])
        iterations = int(positions.iterations[command])
        blocks = rows_in_iterations(computation, submatrix, iterations)
        rows = concatenate_ranges(blocks[:, 0], blocks[:, 1])
        when = np.repeat(positions.first[command] + positions.length[command] * np.arange(iterations), blocks[:, 1])
        earliest = np.full(num_rows, _NEVER)
        earliest[rows[::-1]] = when[::-1]  # the last number that is put into a row is that of its first iteration
        columns = slice(*np.searchsorted(cuts, table[submatrix, 3:]).tolist())
        uses = first_write if analysis.accesses.mode[access] == WRITE else first_read
        np.minimum(uses[:, columns], earliest[:, np.newaxis], out=uses[:, columns])
    is_early = (first_read <= first_write) & (first_read < _NEVER)
    if not is_early.any():
        return None
    command, iteration = positions.command_at(int(first_read[is_early].min()))
    return Undefined(command, iteration, matrix)
