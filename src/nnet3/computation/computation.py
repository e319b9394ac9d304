"""NnetComputation: matrices, sub-matrices, side tables and a list of commands."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from nnet3.computation.kernel import KernelInfo
from nnet3.computation.printer import print_computation, summary

if TYPE_CHECKING:
    from nnet3.computation.commands import Command


@dataclass(frozen=True)
class Matrix:
    """The size of a matrix; number 0 of a computation is the empty one."""

    num_rows: int
    num_cols: int


@dataclass(frozen=True)
class SubMatrix:
    """A block of a matrix: rows [row_offset, row_offset + num_rows), columns likewise."""

    matrix: int
    row_offset: int
    num_rows: int
    col_offset: int
    num_cols: int


@dataclass(frozen=True)
class MatrixInfo:
    """What a matrix stands for: a node's value or derivative, and the index of each of its rows."""

    node: str
    is_deriv: bool
    indexes: np.ndarray  # (rows, 3) int32: n, t, x


@dataclass(frozen=True)
class IoInfo:
    """Where the value and the derivative of a named input or output live (sub-matrices; deriv 0: none)."""

    name: str
    value: int
    deriv: int


@dataclass(repr=False)
class NnetComputation:
    """A program of matrix commands. It knows no front-end: kernels are named, rows are numbers.

    Side tables, to which commands refer by position:
    `index_tables`: row numbers (rows,), -1 for none; `multi_tables`: (rows, 2) pairs of sub-matrix and row in
    it, (-1, -1) for none; `range_tables`: (rows, 2) pairs [first, end) of rows; `precomputed`: what kernels
    asked to know of their rows (entry 0 is None).
    """

    matrices: list[Matrix] = field(default_factory=lambda: [Matrix(0, 0)])
    submatrices: list[SubMatrix] = field(default_factory=lambda: [SubMatrix(0, 0, 0, 0, 0)])
    matrix_info: dict[int, MatrixInfo] = field(default_factory=dict)
    index_tables: list[np.ndarray] = field(default_factory=list)
    multi_tables: list[np.ndarray] = field(default_factory=list)
    range_tables: list[np.ndarray] = field(default_factory=list)
    precomputed: list[dict[str, np.ndarray] | None] = field(default_factory=lambda: [None])
    kernels: list[KernelInfo] = field(default_factory=list)
    inputs: list[IoInfo] = field(default_factory=list)
    outputs: list[IoInfo] = field(default_factory=list)
    commands: list[Command] = field(default_factory=list)
    num_memos: int = 0
    need_model_derivative: bool = False

    def __str__(self) -> str:
        return print_computation(self)

    def __repr__(self) -> str:
        return f"<NnetComputation: {summary(self).removeprefix('# ')}>"

    def copy(self) -> NnetComputation:
        """A copy whose lists may be changed; the (immutable) entries are shared."""
        lists: dict[str, Any] = {name: list(value) for name, value in vars(self).items() if isinstance(value, list)}
        return replace(self, matrix_info=dict(self.matrix_info), **lists)

    def new_matrix(self, num_rows: int, num_cols: int, info: MatrixInfo | None = None) -> int:
        """Declare a matrix; returns the sub-matrix that is all of it."""
        self.matrices.append(Matrix(num_rows, num_cols))
        matrix = len(self.matrices) - 1
        if info is not None:
            self.matrix_info[matrix] = info
        self.submatrices.append(SubMatrix(matrix, 0, num_rows, 0, num_cols))
        return len(self.submatrices) - 1

    def new_submatrix(
        self,
        base: int,
        row_offset: int = 0,
        num_rows: int | None = None,
        col_offset: int = 0,
        num_cols: int | None = None,
    ) -> int:
        """A block of sub-matrix `base`; an equal one declared before is found again."""
        whole = self.submatrices[base]
        rows = whole.num_rows - row_offset if num_rows is None else num_rows
        cols = whole.num_cols - col_offset if num_cols is None else num_cols
        assert 0 <= row_offset <= whole.num_rows - rows, "row range outside the sub-matrix"
        assert 0 <= col_offset <= whole.num_cols - cols, "column range outside the sub-matrix"
        return self.find_or_add(
            SubMatrix(whole.matrix, whole.row_offset + row_offset, rows, whole.col_offset + col_offset, cols)
        )

    def find_or_add(self, block: SubMatrix) -> int:
        """The number of this sub-matrix, which is declared unless it is known."""
        known = self._known_submatrices()
        if block not in known:
            self.submatrices.append(block)
            known[block] = len(self.submatrices) - 1
        return known[block]

    def _known_submatrices(self) -> dict[SubMatrix, int]:
        """Position by sub-matrix, kept up to date lazily."""
        cache = self.__dict__.setdefault("_submatrix_cache", {})
        start = self.__dict__.get("_submatrix_cached", 0)
        for number in range(start, len(self.submatrices)):
            cache.setdefault(self.submatrices[number], number)
        self.__dict__["_submatrix_cached"] = len(self.submatrices)
        return cache

    def is_whole_matrix(self, submatrix: int) -> bool:
        block = self.submatrices[submatrix]
        matrix = self.matrices[block.matrix]
        return (block.num_rows, block.num_cols) == (matrix.num_rows, matrix.num_cols)
