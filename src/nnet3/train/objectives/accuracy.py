"""How often the largest output is where the target has its largest value."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from nnet3.kaldi_io.sparse import SparseMatrix
from nnet3.train.minibatch import Target
from nnet3.train.objectives.matrix_target import matrix_target


def count_correct(target: Target, output: Tensor) -> Tensor:
    """(2, columns), float64: weight of the rows that are right, and of all rows, by the column that would be right.

    A row weighs the sum of its target, 0: it does not count. Right is a row whose largest output stands in the column
    of the largest value of the target (the first such column in both). `target` must be a matrix.
    """
    matrix = matrix_target(target, output).matrix
    weight, best = _of_sparse_rows(matrix) if isinstance(matrix, SparseMatrix) else (matrix.sum(1), matrix.argmax(1))
    weight, best = weight.double().to(output.device), best.to(output.device)
    right = (output.argmax(1) == best) & (weight != 0)
    counts = torch.zeros(2, output.shape[1], dtype=torch.float64, device=output.device)
    return counts.index_add_(1, best, torch.stack([weight.masked_fill(~right, 0.0), weight])).cpu()


def _of_sparse_rows(matrix: SparseMatrix) -> tuple[Tensor, Tensor]:
    """Sum (rows,) and column of the largest element (rows,)."""
    if len(matrix.values) == 0 or matrix.values.min() <= 0:  # a zero that is not stored may be the largest
        dense = torch.from_numpy(matrix.dense())
        return dense.sum(1), dense.argmax(1)
    row = matrix.row_of_element()
    order = np.lexsort((matrix.ids, -matrix.values, row))
    first = np.flatnonzero(np.diff(row[order], prepend=-1))
    best = np.zeros(matrix.rows, np.int64)
    best[row[order][first]] = matrix.ids[order][first]
    weight = np.bincount(row, weights=matrix.values, minlength=matrix.rows)
    return torch.from_numpy(weight), torch.from_numpy(best)
