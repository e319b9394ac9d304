"""Sums over groups of rows that may overlap, as they occur in statistics over time."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import embedding_bag


@dataclass(frozen=True)
class RowGroups:
    """Group g holds rows `rows[starts[g] : starts[g] + sizes[g]]` of another matrix."""

    rows: Tensor  # (members,) int64
    starts: Tensor  # (groups,)
    sizes: Tensor  # (groups,)
    one_each: bool  # whether each group has one row

    def to(self, device: torch.device | str) -> RowGroups:
        return replace(self, rows=self.rows.to(device), starts=self.starts.to(device), sizes=self.sizes.to(device))

    def sum(self, matrix: Tensor) -> Tensor:
        """The sum of each group's rows, (groups, columns); zero for an empty group."""
        if self.one_each:
            return matrix.index_select(0, self.rows)
        if matrix.numel() == 0:
            return matrix.new_zeros(len(self.starts), matrix.shape[1])
        return embedding_bag(self.rows, matrix.contiguous(), self.starts, mode="sum")


def row_groups(rows: np.ndarray) -> RowGroups:
    """The groups of a table (groups, slots) of row numbers, in which -1 stands for nothing."""
    is_member = rows >= 0
    return _groups(rows[is_member], is_member.sum(axis=1))


def transposed_groups(rows: np.ndarray, num_rows: int) -> RowGroups:
    """For each of `num_rows` rows, the groups of such a table that it is in."""
    group, slot = np.nonzero(rows >= 0)
    member = rows[group, slot]
    return _groups(group[np.argsort(member, kind="stable")], np.bincount(member, minlength=num_rows))


def _groups(rows: np.ndarray, sizes: np.ndarray) -> RowGroups:
    starts = torch.from_numpy(np.cumsum(sizes) - sizes)
    return RowGroups(torch.from_numpy(rows), starts, torch.from_numpy(sizes), bool((sizes == 1).all()))
