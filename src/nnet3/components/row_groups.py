"""Sums over groups of rows that may overlap, as they occur in statistics over time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor
from torch.nn.functional import embedding_bag

from nnet3.components.base import IndexArrays


@dataclass(frozen=True)
class RowGroups:
    """Group g holds rows `rows[starts[g] : starts[g] + sizes[g]]` of another matrix."""

    rows: Tensor  # (members,) int64
    starts: Tensor  # (groups,)
    sizes: Tensor  # (groups,)
    one_each: bool  # whether each group has one row

    def sum(self, matrix: Tensor) -> Tensor:
        """The sum of each group's rows, (groups, columns); zero for an empty group."""
        if self.one_each:
            return matrix.index_select(0, self.rows)
        if matrix.numel() == 0:
            return matrix.new_zeros(len(self.starts), matrix.shape[1])
        return embedding_bag(self.rows, matrix.contiguous(), self.starts, mode="sum")


def row_groups(rows: np.ndarray) -> IndexArrays:
    """The fields of RowGroups for the groups of a table (groups, slots) of row numbers; -1 stands for nothing."""
    is_member = rows >= 0
    return _groups(rows[is_member], is_member.sum(axis=1))


def transposed_groups(rows: np.ndarray, num_rows: int) -> IndexArrays:
    """The fields of RowGroups for: for each of `num_rows` rows, the groups of such a table that it is in."""
    place = np.flatnonzero(rows >= 0)
    member = rows.reshape(-1)[place]
    group = place // rows.shape[1]
    return _groups(group[_stable_order(member, num_rows)], np.bincount(member, minlength=num_rows))


def _stable_order(numbers: np.ndarray, limit: int) -> np.ndarray:
    """The order that sorts numbers in [0, limit), equal ones in their order."""
    return np.argsort(numbers.astype(np.uint16) if limit <= 2**16 else numbers, kind="stable")  # 16 bits: radix sort


def _groups(rows: np.ndarray, sizes: np.ndarray) -> IndexArrays:
    return {"rows": rows, "starts": np.cumsum(sizes) - sizes, "sizes": sizes, "one_each": np.array((sizes == 1).all())}
