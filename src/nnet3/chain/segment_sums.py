"""Weighted sums of rows of a matrix: the sparse products that a graph's transitions are made of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import embedding_bag


@dataclass(frozen=True, eq=False)
class SegmentSums:
    """Row i of the result is the sum of weights[k] * rows[taken[k]] over k in offsets[i] .. offsets[i + 1] - 1.

    `embedding_bag` does this without a copy of the rows that are taken; on a CPU it is two to three times as fast as
    the product with a sparse matrix, and over ten times as fast as `index_select` and `index_add`.
    """

    taken: Tensor  # (terms,) int64
    offsets: Tensor  # (rows + 1,) int64
    weights: Tensor | None = None  # (terms,)

    @classmethod
    def sorted_by(
        cls, row_of_term: np.ndarray, taken: np.ndarray, num_rows: int, weights: np.ndarray | None = None
    ) -> SegmentSums:
        """Term k adds weights[k] * rows[taken[k]] to row row_of_term[k] of the result."""
        order = np.argsort(row_of_term, kind="stable")
        offsets = np.concatenate([[0], np.cumsum(np.bincount(row_of_term, minlength=num_rows))])
        ordered = None if weights is None else torch.from_numpy(weights[order])
        return cls(torch.from_numpy(taken[order].astype(np.int64)), torch.from_numpy(offsets.astype(np.int64)), ordered)

    def to(self, device: torch.device, dtype: torch.dtype) -> SegmentSums:
        weights = None if self.weights is None else self.weights.to(device, dtype)
        return SegmentSums(self.taken.to(device), self.offsets.to(device), weights)

    def __call__(self, rows: Tensor) -> Tensor:
        """(any, columns) -> (rows, columns)."""
        return embedding_bag(
            self.taken, rows, self.offsets, mode="sum", per_sample_weights=self.weights, include_last_offset=True
        )
