"""Matrices as files hold them: full, sparse or compressed, and what can be done with any of these."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from nnet3.errors import ArgumentError
from nnet3.kaldi_io.compressed import CompressedMatrix, compress
from nnet3.kaldi_io.sparse import SparseMatrix

GeneralMatrix: TypeAlias = "np.ndarray | SparseMatrix | CompressedMatrix"


def dense(matrix: GeneralMatrix) -> np.ndarray:
    """The matrix as (rows, columns) float32; a full one is not copied."""
    if isinstance(matrix, SparseMatrix):
        return matrix.dense()
    return matrix.decode() if isinstance(matrix, CompressedMatrix) else matrix


def compressed(matrix: GeneralMatrix) -> GeneralMatrix:
    """A full matrix with rows compressed by the automatic method; sparse and compressed ones as they are."""
    is_full = not isinstance(matrix, (SparseMatrix, CompressedMatrix))
    return compress(matrix) if is_full and len(matrix) else matrix  # type: ignore[arg-type]


def append_rows(matrices: Sequence[GeneralMatrix]) -> np.ndarray | SparseMatrix:
    """The rows of all, which have equally many columns, in order: sparse if all are sparse, else full."""
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
