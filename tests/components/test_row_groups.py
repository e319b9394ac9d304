"""Sums over groups of rows against plain loops."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nnet3.model.components.index_arrays import load_fields
from nnet3.model.components.statistics import RowGroups, row_groups, transposed_groups

TABLES = {
    "one each": np.array([[2], [0], [1]]),
    "overlapping": np.array([[0, 1, -1], [1, 2, 3], [-1, -1, 1]]),
    "empty group": np.array([[0, 1], [-1, -1], [3, -1]]),
    "all empty": np.array([[-1], [-1]]),
}


@pytest.mark.parametrize("rows", TABLES.values(), ids=TABLES.keys())
@pytest.mark.parametrize("columns", [0, 3])
def test_sums_of_groups_are_those_of_a_loop(rows: np.ndarray, columns: int) -> None:
    matrix = torch.randn(4, columns + 1, dtype=torch.float64)[:, 1:]
    expected = torch.stack([sum((matrix[r] for r in group if r >= 0), torch.zeros(columns)) for group in rows.tolist()])
    torch.testing.assert_close(RowGroups(**load_fields(row_groups(rows), "cpu")).sum(matrix), expected.double())

    of_group = torch.randn(len(rows), columns, dtype=torch.float64)
    expected = torch.zeros(4, columns, dtype=torch.float64)
    for number, group in enumerate(rows.tolist()):
        for row in group:
            if row >= 0:
                expected[row] += of_group[number]
    groups = RowGroups(**load_fields(transposed_groups(rows, 4), "cpu"))
    torch.testing.assert_close(groups.sum(of_group), expected)
