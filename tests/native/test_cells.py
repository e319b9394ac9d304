"""Cells by native code against the components in float64, which PyTorch computes; what native code does not take."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from hypothesis import given, strategies as st
from torch import Tensor

from nnet3.base.native import cells
from nnet3.model.components.gru_nonlinearity import OutputGruNonlinearityComponent
from nnet3.model.components.identity import BackpropTruncationComponent, BackpropTruncationIndexes
from nnet3.model.components.lstm_nonlinearity import LstmNonlinearityComponent
from tests.native.native_code import matrix, needs_native_code

pytestmark = needs_native_code

SIZES = st.integers(0, 70), st.integers(1, 140), st.integers(0, 10**6)  # rows, columns, a seed


def close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)


def lstms(dim: int, repair: float, *, use_dropout: bool) -> Iterator[LstmNonlinearityComponent]:
    """Yields a component for float32, the same for float64, and a gradient of each; half of the values are repaired."""
    config = torch.tensor([0.05, 0.05, 0.2, 0.05, 0.2, *[repair] * 5])
    own = LstmNonlinearityComponent(torch.randn(3, dim), config, use_dropout)
    own.deriv_sum += 10 * (torch.rand(5, dim) > 0.5)
    own.count = 20.0
    exact = own.copy()
    exact.to(dtype=torch.float64)
    return iter((own, exact, own.gradient_copy(), exact.gradient_copy()))


@given(*SIZES, st.booleans(), st.sampled_from([0.0, 0.3]))
def test_lstm_in_both_directions(rows: int, dim: int, seed: int, use_dropout: bool, repair: float) -> None:
    torch.manual_seed(seed)
    own, exact, gradient, exact_gradient = lstms(dim, repair, use_dropout=use_dropout)
    x, y_deriv, y = matrix(rows, own.input_dim), matrix(rows, 2 * dim), matrix(rows, 2 * dim)
    assert cells.lstm(y, x, own.params, use_dropout)
    expected, _ = exact.propagate(x.double())
    close(y, expected)
    deriv, expected_deriv = matrix(rows, own.input_dim), torch.empty(rows, own.input_dim, dtype=torch.float64)
    own.backward(x, y, y_deriv, None, None, deriv)
    exact.backward(x.double(), expected, y_deriv.double(), None, None, expected_deriv)
    close(deriv, expected_deriv)
    own.backward(x, y, y_deriv, None, gradient, None)
    exact.backward(x.double(), expected, y_deriv.double(), None, exact_gradient, None)
    for name in ("params", "value_sum", "deriv_sum", "self_repair_total"):
        torch.testing.assert_close(
            getattr(gradient, name).double(), getattr(exact_gradient, name).double(), rtol=1e-4, atol=1e-4
        )
    assert gradient.count == exact_gradient.count


@given(*SIZES)
def test_output_gru_in_both_directions(rows: int, dim: int, seed: int) -> None:
    torch.manual_seed(seed)
    own = OutputGruNonlinearityComponent(torch.randn(dim))
    exact = own.copy()
    exact.to(dtype=torch.float64)
    x, y_deriv, y, deriv = matrix(rows, 3 * dim), matrix(rows, 2 * dim), matrix(rows, 2 * dim), matrix(rows, 3 * dim)
    x[:, :dim].sigmoid_()
    assert cells.output_gru(y, x, own.w_h)
    expected, _ = exact.propagate(x.double())
    close(y, expected)
    assert cells.output_gru_backward(x, y[:, :dim], y_deriv, deriv, own.w_h)
    expected_deriv = torch.empty(rows, 3 * dim, dtype=torch.float64)
    exact.backward(x.double(), expected, y_deriv.double(), None, None, expected_deriv)
    close(deriv, expected_deriv)


@given(*SIZES)
def test_truncation(rows: int, dim: int, seed: int) -> None:
    torch.manual_seed(seed)
    root = dim**0.5
    own = BackpropTruncationComponent(dim, 0.9, clipping_threshold=0.9 * root, zeroing_threshold=1.1 * root)
    gradient, exact_gradient = own.copy(), own.copy()
    exact = own.copy()
    exact.to(dtype=torch.float64)
    factors, is_boundary = 0.5 + torch.rand(rows, 1), torch.rand(rows, 1) > 0.5
    y_deriv, deriv = matrix(rows, dim), matrix(rows, dim)
    y_deriv.mul_(factors)
    indexes = BackpropTruncationIndexes(is_boundary, int(is_boundary.sum()))
    expected = torch.empty(rows, dim, dtype=torch.float64)
    exact.backward(expected, expected, y_deriv.double(), None, exact_gradient, expected, indexes)
    assert cells.truncate(deriv, y_deriv, 0.9, 0.9 * root, 1.1 * root, is_boundary) == (
        exact_gradient.num_clipped,
        exact_gradient.num_zeroed,
    )
    close(deriv, expected)
    own.backward(y_deriv, y_deriv, y_deriv, None, gradient, y_deriv, indexes)  # in place
    assert torch.equal(y_deriv, deriv)
    assert gradient.num_clipped == exact_gradient.num_clipped
    assert gradient.num_zeroed == exact_gradient.num_zeroed


@pytest.mark.parametrize("change", [Tensor.double, lambda matrix: matrix.T.contiguous().T])
def test_other_matrices_are_left_alone(change: object) -> None:
    assert callable(change)
    x, y = change(torch.randn(4, 20)), torch.zeros(4, 8)
    assert not cells.lstm(y, x, torch.randn(3, 4), False)
    assert not cells.lstm_backward(torch.randn(4, 20), y, x, torch.randn(3, 4), False, None, None)
    assert not cells.output_gru(y, change(torch.randn(4, 12)), torch.randn(4))
    assert not cells.output_gru_backward(change(torch.randn(4, 12)), y, y, torch.randn(4, 12), torch.randn(4))
    assert cells.truncate(torch.zeros(4, 20), x, 1.0, 1.0, 1.0, torch.ones(4, 1, dtype=torch.bool)) is None
    assert not y.any()


def test_many_threads_of_pytorch_compute_large_matrices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    for rows, is_native in ((3, True), (10_000, False)):
        assert cells.output_gru(torch.empty(rows, 20), torch.rand(rows, 30), torch.rand(10)) == is_native
