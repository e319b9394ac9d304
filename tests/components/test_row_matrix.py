"""A spliced matrix that does not exist against the one that does."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nnet3 import components
from nnet3.model.components import large_products
from nnet3.model.components.row_matrix import RowMatrix, SplicedMatrix
from tests.components.index_harness import index_case, table


@pytest.mark.parametrize(
    "outputs", [table(range(6), ns=range(3)), table([0, 1, 3, 4], ns=range(2)), table(range(0, 9, 3))]
)
def test_spliced_matrix_multiplies_like_its_dense_form(outputs: np.ndarray) -> None:
    component = components.create("TdnnComponent", "time-offsets=2,-1,0 input-dim=4 output-dim=3")
    case = index_case(component, outputs, table(range(-5, 20), ns=range(3)))
    x = torch.randn(case.rows[0], 4, dtype=torch.float64)
    spliced = SplicedMatrix(case.plan.input_without_padding(x), case.plan, 3, case.rows[1])
    dense = RowMatrix(spliced.dense())
    assert spliced.shape == dense.shape == (case.rows[1], 12)
    w, a = torch.randn(12, 5, dtype=torch.float64), torch.randn(5, case.rows[1], dtype=torch.float64)
    torch.testing.assert_close(spliced.times(w), dense.times(w))
    torch.testing.assert_close(spliced.transposed_times(a.t()), dense.transposed_times(a.t()))
    torch.testing.assert_close(spliced.sum_of_squares(), dense.sum_of_squares())
    targets = torch.zeros(2, 5, 12, dtype=torch.float64)
    spliced.add_product(targets[0], a.t(), 0.5)
    dense.add_product(targets[1], a.t(), 0.5)
    torch.testing.assert_close(targets[0], targets[1])


@pytest.mark.parametrize("rows", [0, 1, 7, 9])
def test_products_of_some_rows_at_a_time(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_products, "_ELEMENTS_AT_ONCE", 10)
    x, w = torch.randn(rows, 4, dtype=torch.float64), torch.randn(4, 3, dtype=torch.float64)
    product, squares = RowMatrix(x).times(w)
    torch.testing.assert_close(product, x @ w)
    torch.testing.assert_close(squares, x.square().sum())
