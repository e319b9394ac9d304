"""Objectives of one output, evaluated."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from nnet3.base.kaldi_io.sparse import SparseMatrix
from nnet3.components import RandomSource
from nnet3.training.train.minibatch import MatrixTarget, grid
from nnet3.training.train.objectives import LinearObjective, Objective, ObjectiveStats, QuadraticObjective

KINDS: dict[str, Objective] = {"linear": LinearObjective(), "quadratic": QuadraticObjective()}


def target(matrix: Tensor | SparseMatrix) -> MatrixTarget:
    return MatrixTarget("output", grid(matrix.shape[0], [0]), matrix)


def evaluate(
    kind: str | Objective, output: Tensor, matrix: Tensor | SparseMatrix, *, with_derivs: bool = True
) -> tuple[ObjectiveStats, Tensor]:
    objective = KINDS[kind] if isinstance(kind, str) else kind
    (result,) = objective.evaluate(target(matrix), [output], rng=RandomSource(0), with_derivs=with_derivs)
    assert result.name == "output"
    assert (result.deriv is not None) == with_derivs
    return result.stats, torch.empty(0) if result.deriv is None else result.deriv


def sparse(rows: list[list[float]]) -> SparseMatrix:
    """The elements that are not 0 of these rows."""
    dense = np.array(rows, np.float32)
    height, width = dense.shape
    counts = (dense != 0).sum(1)
    row, ids = np.nonzero(dense)
    return SparseMatrix(height, width, np.concatenate([[0], np.cumsum(counts)]), ids.astype(np.int32), dense[row, ids])
