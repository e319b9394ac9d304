"""Variables: the coarsest blocks of a matrix such that all sub-matrices in use are unions of blocks.

A matrix with rows 0:3 and 2:9 used apart has three variables, rows 0:1, 2:3 and 4:9. Two accesses can
conflict exactly if they have a variable in common.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from nnet3.base.index import concatenate_ranges, distinct

if TYPE_CHECKING:
    from nnet3.engine.ir.computation import NnetComputation

Integers = npt.NDArray[np.int64]

_KEY = 1 << 32  # above every row and column number


def submatrix_table(computation: NnetComputation) -> Integers:
    """Returns (sub-matrices, 5): matrix, first row, end row, first column, end column, in iteration 0."""
    table = block_table(computation)[:, :5]
    table[:, 2] += table[:, 1]
    table[:, 4] += table[:, 3]
    return table


def block_table(computation: NnetComputation) -> Integers:
    """Returns the sub-matrices as they are declared, (sub-matrices, 6)."""
    blocks = computation.submatrices
    return np.fromiter(chain.from_iterable(blocks), np.int64, 6 * len(blocks)).reshape(-1, 6)


def matrix_sizes(computation: NnetComputation) -> Integers:
    """Returns the rows and columns of all matrices, (matrices, 2)."""
    return np.array(computation.matrices, dtype=np.int64)


class Variables:
    """The numbered variables of all matrices: variables of a matrix follow each other, row block by row block.

    `table` holds the sub-matrices (see `submatrix_table`), `sizes` the rows and columns of matrices, (matrices, 2), and
    `used` the numbers of the sub-matrices that make cuts. Matrix m has the variables of_matrix[m] to
    of_matrix[m + 1] - 1.
    """

    def __init__(self, table: Integers, sizes: Integers, used: Integers) -> None:
        row_cuts = _Cuts(table[used][:, [0, 1, 2]], sizes[:, 0])
        column_cuts = _Cuts(table[used][:, [0, 3, 4]], sizes[:, 1])
        num_row_blocks, self._num_column_blocks = row_cuts.num_blocks, column_cuts.num_blocks
        self.of_matrix = np.concatenate([[0], np.cumsum(num_row_blocks * self._num_column_blocks)])
        self._matrix = table[:, 0]
        self._rows = row_cuts.blocks(table[:, [0, 1, 2]])  # (sub-matrices, 2): first row block, end
        self._columns = column_cuts.blocks(table[:, [0, 3, 4]])

    def __len__(self) -> int:
        return int(self.of_matrix[-1])

    def matrix_of(self, variables: Integers) -> Integers:
        """Returns the matrix of each variable."""
        return np.searchsorted(self.of_matrix, variables, side="right") - 1

    def counts(self, submatrices: Integers) -> Integers:
        """Returns the numbers of variables of the given sub-matrices."""
        rows, columns = self._rows[submatrices], self._columns[submatrices]
        return (rows[:, 1] - rows[:, 0]) * (columns[:, 1] - columns[:, 0])

    def of_submatrices(self, submatrices: Integers) -> Integers:
        """Returns the variables of the sub-matrices, concatenated; `counts` gives the numbers of variables.

        A sub-matrix without cuts of its own is covered by its variables but need not be their union.
        """
        counts = self.counts(submatrices)
        matrix, first_row, first_column = (
            np.repeat(part[submatrices], counts) for part in (self._matrix, self._rows[:, 0], self._columns[:, 0])
        )
        width = np.repeat(self._columns[submatrices, 1] - self._columns[submatrices, 0], counts)
        position = concatenate_ranges(np.zeros_like(counts), counts)
        row, column = first_row + position // width, first_column + position % width
        return self.of_matrix[matrix] + row * self._num_column_blocks[matrix] + column


class _Cuts:
    """The cuts of each matrix between rows, or between columns."""

    def __init__(self, ranges: Integers, sizes: Integers) -> None:
        """`ranges`: (uses, 3) of matrix, first, end; `sizes`: (matrices,)."""
        matrices = np.arange(len(sizes))
        starts = np.concatenate([ranges[:, 0] * _KEY + ranges[:, 1], matrices * _KEY])
        ends = np.concatenate([ranges[:, 0] * _KEY + ranges[:, 2], matrices * _KEY + sizes])
        self._keys = distinct(np.concatenate([starts, ends]))
        self._first_of_matrix = np.searchsorted(self._keys, np.arange(len(sizes) + 1) * _KEY)
        self.num_blocks = np.diff(self._first_of_matrix) - 1

    def blocks(self, ranges: Integers) -> Integers:
        """Returns the first and end block, (ranges, 2), covering every range (matrix, first, end)."""
        origin = self._first_of_matrix[ranges[:, 0]]
        first = np.searchsorted(self._keys, ranges[:, 0] * _KEY + ranges[:, 1], side="right") - 1
        end = np.searchsorted(self._keys, ranges[:, 0] * _KEY + ranges[:, 2], side="left")
        return np.stack([first - origin, end - origin], axis=1)
