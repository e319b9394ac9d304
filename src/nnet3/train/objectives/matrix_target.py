"""Targets that are matrices, as objectives look at them."""

from __future__ import annotations

import torch
from torch import Tensor

from nnet3.errors import TrainingError
from nnet3.kaldi_io.sparse import SparseMatrix
from nnet3.train.minibatch import MatrixTarget, Target


def matrix_target(target: Target, output: Tensor) -> MatrixTarget:
    """The target, checked. Raises TrainingError if it is no matrix, or not of the size of the output."""
    if not isinstance(target, MatrixTarget):
        raise TrainingError(f"the objective of output '{target.name}' wants a matrix, got a {type(target).__name__}")
    if tuple(output.shape) != tuple(target.matrix.shape):
        sizes = f"{tuple(output.shape)}, its target {tuple(target.matrix.shape)}"
        raise TrainingError(f"output '{target.name}' is {sizes}")
    return target


def elements(matrix: SparseMatrix, like: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Rows, columns and values of the elements of a sparse matrix, each (elements,), for use with `like`."""
    rows = torch.from_numpy(matrix.row_of_element()).to(like.device)
    cols = torch.from_numpy(matrix.ids).to(like.device, torch.int64)
    return rows, cols, torch.from_numpy(matrix.values).to(like)
