"""Matrices in the forms of files: full, sparse or compressed, and operations on any of these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from nnet3.base.kaldi_io.compressed import CompressedMatrix, CompressionMethod, compress
from nnet3.base.kaldi_io.sparse import SparseMatrix
from nnet3.errors import ArgumentError

GeneralMatrix: TypeAlias = "np.ndarray | SparseMatrix | CompressedMatrix"
_FEWEST_WITH_QUANTILES = 8  # rows: the quantiles of fewer say too little


def dense(matrix: GeneralMatrix) -> np.ndarray:
    """Returns the matrix as (rows, columns) float32; a full one is not copied."""
    if isinstance(matrix, SparseMatrix):
        return matrix.dense()
    return matrix.decode() if isinstance(matrix, CompressedMatrix) else matrix


def sparse_of(matrix: GeneralMatrix) -> SparseMatrix:
    """Returns the elements of a matrix of any form that are not zero."""
    if isinstance(matrix, SparseMatrix):
        return matrix
    full = matrix if isinstance(matrix, np.ndarray) else matrix.decode()
    row, column = np.nonzero(full)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(full)))])
    return SparseMatrix(len(full), full.shape[1], indptr, column.astype(np.int32), full[row, column])


def compressed(matrix: GeneralMatrix) -> GeneralMatrix:
    """Returns a full matrix with rows compressed by the automatic method; sparse and compressed matrices unchanged."""
    is_full = not isinstance(matrix, (SparseMatrix, CompressedMatrix))
    return compress(matrix) if is_full and len(matrix) else matrix  # type: ignore[arg-type]


def append_rows(matrices: Sequence[GeneralMatrix]) -> np.ndarray | SparseMatrix:
    """Returns the rows of all, which have equally many columns, in order: sparse if all are sparse, else full."""
    columns = {matrix.shape[1] for matrix in matrices if matrix.shape[0]}
    if len(columns) > 1:
        raise ArgumentError(f"matrices of {' and '.join(map(str, sorted(columns)))} columns cannot be one")
    sparse = [matrix for matrix in matrices if isinstance(matrix, SparseMatrix)]
    if len(sparse) == len(matrices) > 0:
        return _append_sparse(sparse, columns.pop() if columns else 0)
    full = [dense(matrix) for matrix in matrices if matrix.shape[0]]
    return np.concatenate(full) if full else np.zeros((0, 0), np.float32)


def _append_sparse(matrices: Sequence[SparseMatrix], columns: int) -> SparseMatrix:
    counts = np.concatenate([np.diff(matrix.indptr) for matrix in matrices])
    return SparseMatrix(
        len(counts),
        columns,
        np.concatenate([[0], np.cumsum(counts)]),
        np.concatenate([matrix.ids for matrix in matrices]),
        np.concatenate([matrix.values for matrix in matrices]),
    )


def take_rows(matrix: GeneralMatrix, rows: np.ndarray) -> GeneralMatrix:
    """Returns the rows with the given numbers, (n,). Compressed matrices keep their codes, if compression pays."""
    if isinstance(matrix, SparseMatrix):
        return _take_sparse_rows(matrix, rows)
    if not isinstance(matrix, CompressedMatrix):
        return matrix[rows]
    taken = replace(matrix, codes=matrix.codes[rows])
    if matrix.quantiles is None or len(rows) >= _FEWEST_WITH_QUANTILES or len(rows) == 0:
        return taken
    return compress(taken.decode(), CompressionMethod.TWO_BYTE_AUTO)


def rows_with_padding(matrix: GeneralMatrix, first: int, count: int) -> GeneralMatrix:
    """Rows first .. first + count - 1; before the first row and behind the last these two are repeated."""
    if matrix.shape[0] == 0:
        raise ArgumentError("a matrix without rows has none to repeat")
    return take_rows(matrix, np.clip(np.arange(first, first + count), 0, matrix.shape[0] - 1))


def scaled(matrix: GeneralMatrix, factor: float) -> GeneralMatrix:
    """Returns the matrix times a number, of the same kind; the codes of a compressed matrix stay."""
    single = np.float32(factor)
    if isinstance(matrix, SparseMatrix):
        return replace(matrix, values=matrix.values * single)
    if isinstance(matrix, CompressedMatrix):
        return replace(
            matrix, min_value=float(matrix.min_value * single), range=float(np.float32(matrix.range) * single)
        )
    return matrix * single if single else np.zeros_like(matrix)  # no -0, as BLAS has it


def _take_sparse_rows(matrix: SparseMatrix, rows: np.ndarray) -> SparseMatrix:
    counts = np.diff(matrix.indptr)[rows]
    indptr = np.concatenate([[0], np.cumsum(counts)])
    elements = np.arange(indptr[-1]) + np.repeat(matrix.indptr[rows] - indptr[:-1], counts)
    return SparseMatrix(len(rows), matrix.cols, indptr, matrix.ids[elements], matrix.values[elements])
