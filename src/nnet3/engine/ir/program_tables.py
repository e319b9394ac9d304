"""ProgramTables: what the commands of a program name by number: matrices, sub-matrices, side tables, kernels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from itertools import starmap
from typing import Any, NamedTuple

import numpy as np

from nnet3.engine.ir.kernel import KernelInfo


class Matrix(NamedTuple):
    """The size of a matrix, whose dtype is that of the run. Number 0 of a computation is the empty one."""

    num_rows: int
    num_cols: int


class SubMatrix(NamedTuple):
    """A block of a matrix: rows [row_offset, row_offset + num_rows), columns likewise.

    In iteration i of a Repeat it lies i * row_step rows further down.
    """

    matrix: int
    row_offset: int
    num_rows: int
    col_offset: int
    num_cols: int
    row_step: int = 0

    def at_iteration(self, iteration: int) -> SubMatrix:
        """Returns the block in one iteration of a Repeat."""
        return self._replace(row_offset=self.row_offset + iteration * self.row_step, row_step=0)


@dataclass(frozen=True)
class MatrixInfo:
    """The node of a matrix's values or derivatives, and the index of each row."""

    node: str
    is_deriv: bool
    indexes: np.ndarray | None  # (rows, 3) int32: n, t, x; None if the rows are no samples


class OutsideMatrix(NamedTuple):
    """A matrix in memory that the user binds by name: never allocated, and defined from the beginning."""

    name: str
    submatrix: int
    writable: bool


@dataclass(frozen=True)
class IoInfo:
    """The sub-matrices of the value and the derivative of a named input or output; deriv 0 is none."""

    name: str
    value: int
    deriv: int


class KernelRows(NamedTuple):
    """The rows behind a kernel's precomputed arrays at a node: indexes (rows, 3) of its input and output.

    `go_on`: precomputed arrays of more rows go on as the rows do.
    """

    node: str
    runs_backward: bool
    inputs: np.ndarray
    outputs: np.ndarray
    go_on: bool = False


class _Known:
    """The numbers of the entries of a list that grows at its end, by their keys."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}
        self._seen = 0

    def find_or_add(self, entries: list[Any], wanted: Any, key: Callable[[Any], Hashable] | None = None) -> int:
        """Returns the number of the first entry with the key of the wanted one, which is appended if there is none."""
        own = key(wanted) if key else wanted
        found = self._numbers.get(own)
        if found is None:
            count = len(entries)
            for number in range(self._seen, count):
                self._numbers.setdefault(key(entries[number]) if key else entries[number], number)
            found = self._numbers.setdefault(own, count)
            if found == count:
                entries.append(wanted)
            self._seen = len(entries)
        return found


@dataclass
class ProgramTables:
    """All of a program but its commands. Entries are appended and never changed in place.

    Commands refer to side tables by position:

    * `index_tables`: row numbers (rows,), -1 for none;
    * `multi_tables`: pairs of a sub-matrix and a row in it (rows, 2), (-1, -1) for none;
    * `range_tables`: ranges [first, end) of rows, (rows, 2);
    * `precomputed`: named arrays that kernels have computed from the indexes of their rows (entry 0 is None).
    """

    matrices: list[Matrix] = field(default_factory=lambda: [Matrix(0, 0)])
    submatrices: list[SubMatrix] = field(default_factory=lambda: [SubMatrix(0, 0, 0, 0, 0)])
    matrix_info: dict[int, MatrixInfo] = field(default_factory=dict)
    outside: list[OutsideMatrix] = field(default_factory=list)
    index_tables: list[np.ndarray] = field(default_factory=list)
    multi_tables: list[np.ndarray] = field(default_factory=list)
    range_tables: list[np.ndarray] = field(default_factory=list)
    precomputed: list[Mapping[str, np.ndarray] | None] = field(default_factory=lambda: [None])
    #: The rows of each entry of `precomputed` but the first.
    precomputed_rows: list[KernelRows] = field(default_factory=list, compare=False)
    kernels: list[KernelInfo] = field(default_factory=list)
    inputs: list[IoInfo] = field(default_factory=list)
    outputs: list[IoInfo] = field(default_factory=list)
    #: The first row and the number of rows, (iterations, 2), of sub-matrices that move on unevenly from iteration to
    #: iteration.
    iterations: dict[int, np.ndarray] = field(default_factory=dict, compare=False)
    need_model_derivative: bool = False
    #: By the name of the list.
    _known: dict[str, _Known] = field(
        default_factory=lambda: defaultdict(_Known), init=False, repr=False, compare=False
    )

    # ---- declaring ----

    def new_matrix(self, num_rows: int, num_cols: int, info: MatrixInfo | None = None) -> int:
        """Declare a matrix; returns the sub-matrix that is the whole matrix."""
        self.matrices.append(Matrix(num_rows, num_cols))
        matrix = len(self.matrices) - 1
        if info is not None:
            self.matrix_info[matrix] = info
        self.submatrices.append(SubMatrix(matrix, 0, num_rows, 0, num_cols))
        return len(self.submatrices) - 1

    def new_outside(
        self, name: str, num_rows: int, num_cols: int, writable: bool, info: MatrixInfo | None = None
    ) -> int:
        """Declare a matrix in memory bound under `name`; returns the sub-matrix that is the whole matrix."""
        submatrix = self.new_matrix(num_rows, num_cols, info)
        self.outside.append(OutsideMatrix(name, submatrix, writable))
        return submatrix

    def new_submatrix(
        self,
        base: int,
        row_offset: int = 0,
        num_rows: int | None = None,
        col_offset: int = 0,
        num_cols: int | None = None,
    ) -> int:
        """Returns the number of a block of sub-matrix `base`, declared first if it is unknown."""
        matrix, first_row, all_rows, first_col, all_cols, _ = self.submatrices[base]
        rows = all_rows - row_offset if num_rows is None else num_rows
        cols = all_cols - col_offset if num_cols is None else num_cols
        assert 0 <= row_offset <= all_rows - rows, "row range outside the sub-matrix"
        assert 0 <= col_offset <= all_cols - cols, "column range outside the sub-matrix"
        return self.find_or_add(SubMatrix(matrix, first_row + row_offset, rows, first_col + col_offset, cols))

    def find_or_add(self, block: SubMatrix) -> int:
        """Returns the number of a sub-matrix, declared first if it is unknown."""
        return self._known["submatrices"].find_or_add(self.submatrices, block)

    def whole_matrix(self, matrix: int) -> int:
        """Returns the sub-matrix that is all of a matrix, declared first if it is unknown."""
        return self.find_or_add(SubMatrix(matrix, 0, self.matrices[matrix].num_rows, 0, self.matrices[matrix].num_cols))

    def add_submatrices(self, blocks: np.ndarray) -> int:
        """Declares sub-matrices, given as rows (blocks, 5 or 6) of SubMatrix's fields; returns the number of the first.

        Numbers are consecutive. Equal blocks get a number each; `find_or_add` finds the first.
        """
        first = len(self.submatrices)
        self.submatrices.extend(starmap(SubMatrix, blocks.tolist()))
        return first

    def find_or_add_kernel(self, info: KernelInfo) -> int:
        """Returns the number of a kernel."""
        return self._known["kernels"].find_or_add(self.kernels, info)

    def new_index_table(self, rows: np.ndarray) -> int:
        """Returns the number of a list of row numbers, -1 for none; an unknown list is appended."""
        return self._table("index_tables", rows)

    def new_multi_table(self, pairs: np.ndarray) -> int:
        """Returns the number of (rows, 2) pairs of sub-matrix and row in it, (-1, -1) for none."""
        return self._table("multi_tables", pairs)

    def new_range_table(self, ranges: np.ndarray) -> int:
        """Returns the number of (rows, 2) pairs [first, end) of rows."""
        return self._table("range_tables", ranges)

    def _table(self, kind: str, values: np.ndarray) -> int:
        """Returns the number of a table; an unknown table is appended. Iterations of a recurrence share tables."""
        return self._known[kind].find_or_add(getattr(self, kind), values.astype(np.int32), np.ndarray.tobytes)

    # ---- asking ----

    def block_at(self, submatrix: int, iteration: int) -> SubMatrix:
        """Returns the block of a sub-matrix in an iteration of its Repeat."""
        block, iterations = self.submatrices[submatrix], self.iterations.get(submatrix)
        if iterations is None:
            return block.at_iteration(iteration)
        row_offset, num_rows = iterations[iteration].tolist()
        return block._replace(row_offset=row_offset, num_rows=num_rows)

    def is_whole_matrix(self, submatrix: int) -> bool:
        block = self.submatrices[submatrix]
        matrix = self.matrices[block.matrix]
        return (block.num_rows, block.num_cols) == (matrix.num_rows, matrix.num_cols)

    def exchanged_matrices(self) -> set[int]:
        """Returns the matrices of the inputs, the outputs, and their derivatives."""
        numbers = [number for io in (*self.inputs, *self.outputs) for number in (io.value, io.deriv) if number]
        return {self.submatrices[number].matrix for number in numbers}

    def moving_submatrices(self) -> set[int]:
        """Returns the sub-matrices that lie elsewhere in another iteration of a Repeat."""
        return {number for number, block in enumerate(self.submatrices) if block.row_step} | {*self.iterations}

    def outside_by_matrix(self) -> dict[int, OutsideMatrix]:
        """Returns the outside matrices by the number of their matrix."""
        return {self.submatrices[bound.submatrix].matrix: bound for bound in self.outside}

    def has_samples(self, matrix: int) -> bool:
        """Returns true if the rows of a matrix are samples: without information, if the matrix does not lie outside."""
        info = self.matrix_info.get(matrix)
        if info is not None:
            return info.indexes is not None
        return all(self.submatrices[bound.submatrix].matrix != matrix for bound in self.outside)
