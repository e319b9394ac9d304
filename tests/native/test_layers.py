"""Elements of layers by native code against components in float64, by PyTorch; what native code does not take."""

from __future__ import annotations

import pytest
import torch
from hypothesis import example, given, strategies as st
from torch import Tensor

from nnet3.base.native import layers
from nnet3.base.native.codes import Code
from nnet3.model.components.batch_norm import BatchNormComponent, BatchNormMemo, NormalizeComponent
from nnet3.model.components.dropout import DropoutComponent
from nnet3.model.components.nonlinearity import (
    Nonlinearity,
    RectifiedLinearComponent,
    SigmoidComponent,
    TanhComponent,
)
from tests.native.native_code import matrix, needs_native_code

pytestmark = needs_native_code

SIZES = st.integers(1, 70), st.integers(1, 140), st.integers(0, 10**6)  # rows, columns, a seed


def close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found.double(), expected.double(), rtol=1e-4, atol=1e-4)


@example(3, 5000, 0, 2, False, 0.0)  # more columns than are summed at once
@given(*SIZES, st.integers(1, 3), st.booleans(), st.sampled_from([0.0, 30.0]))
def test_batch_norm_in_both_directions(
    rows: int, dim: int, seed: int, blocks: int, keeps_output: bool, offset: float
) -> None:
    torch.manual_seed(seed)
    own, exact = (BatchNormComponent(blocks * dim, dim, target_rms=0.7) for _ in range(2))
    x, y, y_deriv = (matrix(rows, blocks * dim) for _ in range(3))
    x += offset
    memo, expected = own.forward(x, y), torch.empty(rows, blocks * dim, dtype=torch.float64)
    exact_memo = exact.forward(x.double(), expected)
    assert isinstance(memo, BatchNormMemo)
    assert isinstance(exact_memo, BatchNormMemo)
    for found, wanted in zip(memo, exact_memo, strict=True):
        close(torch.as_tensor(found), torch.as_tensor(wanted))
    close(y, expected)
    derivs = matrix(rows, blocks * dim), torch.empty_like(expected)
    own.fill_deriv(x, y if keeps_output else y[:0], y_deriv, memo, derivs[0], None)
    exact.fill_deriv(x.double(), expected, y_deriv.double(), exact_memo, derivs[1], None)
    close(*derivs)
    own.fill_deriv(x, y[:0], y_deriv, memo, y_deriv, None)  # in place
    close(y_deriv, derivs[1])
    own.forward(x, x)
    close(x, expected)


@given(*SIZES, st.sampled_from([0.0, 1e-12, 1.0, 1e6]))
def test_rows_of_one_norm_in_both_directions(rows: int, dim: int, seed: int, scale: float) -> None:
    torch.manual_seed(seed)
    own = NormalizeComponent(dim, target_rms=0.7)
    x, y, y_deriv, deriv = matrix(rows, dim, scale), matrix(rows, dim), matrix(rows, dim, scale), matrix(rows, dim)
    expected, expected_deriv = (torch.empty(rows, dim, dtype=torch.float64) for _ in range(2))
    own.forward(x.double(), expected)
    own.fill_deriv(x.double(), expected, y_deriv.double(), None, expected_deriv, None)
    assert layers.normalize_rows(y, x, 0.7)
    close(y, expected)
    own.fill_deriv(x, y, y_deriv, None, deriv, None)
    close(deriv, expected_deriv)
    own.fill_deriv(x, y, y_deriv, None, y_deriv, None)  # in place
    assert torch.equal(y_deriv, deriv)


@given(*SIZES)
def test_derivative_of_dropout(rows: int, dim: int, seed: int) -> None:
    torch.manual_seed(seed)
    own, x, y_deriv, deriv = DropoutComponent(dim, 0.5), matrix(rows, dim), matrix(rows, dim), matrix(rows, dim)
    x.mul_(torch.rand(rows, dim) > 0.2)
    y = x * (torch.rand(rows, dim) > 0.5)
    own.fill_deriv(x, y, y_deriv, None, deriv, None)
    assert torch.equal(deriv, torch.where((x != 0) & (y == 0), 0.0, y_deriv))


@given(*SIZES, st.sampled_from([SigmoidComponent, TanhComponent]))
def test_repair(rows: int, dim: int, seed: int, kind: type[SigmoidComponent] | type[TanhComponent]) -> None:
    torch.manual_seed(seed)
    own, x, y, deriv = kind(dim), matrix(rows, dim), matrix(rows, dim), matrix(rows, dim)
    own.deriv_sum, own.count, own.self_repair_scale = 5.0 * torch.rand(dim, dtype=torch.float64), 20.0, 0.05
    own.forward(x, y)
    updated, exact_updated, exact = own.copy(), own.copy(), deriv.double()
    own.self_repair(y, deriv, updated)
    own.self_repair(y.double(), exact, exact_updated)
    close(deriv, exact)
    assert updated.num_dims_self_repaired == exact_updated.num_dims_self_repaired


@given(*SIZES, st.sampled_from([SigmoidComponent, TanhComponent, RectifiedLinearComponent]), st.booleans())
def test_nonlinearities_in_both_directions(
    rows: int, dim: int, seed: int, kind: type[Nonlinearity], stores: bool
) -> None:
    torch.manual_seed(seed)
    own, x, y, y_deriv, deriv = kind(dim), matrix(rows, dim), matrix(rows, dim), matrix(rows, dim), matrix(rows, dim)
    own.forward(x, y)
    exact, exact_deriv, squares = own.copy(), y_deriv.double(), torch.ones(dim, dtype=torch.float64)
    own.store_stats(x, y, None)
    exact.store_stats(x.double(), y.double(), None)
    close(own.value_sum, exact.value_sum)
    close(own.deriv_sum, exact.deriv_sum)
    exact.differentiate(y.double(), y_deriv.double(), exact_deriv)
    assert own.output_code is not None
    assert layers.output_backward(own.output_code, deriv, y, y_deriv, squares if stores else None)
    close(deriv, exact_deriv)
    close(squares, 1.0 + (y_deriv.double().square().sum(0) if stores else 0.0) * torch.ones(dim))
    assert layers.output_backward(own.output_code, y_deriv, y, y_deriv, None)  # in place
    assert torch.equal(y_deriv, deriv)


@pytest.mark.parametrize("kind", [SigmoidComponent, TanhComponent, RectifiedLinearComponent])
def test_derivatives_of_what_is_not_finite_are_those_of_pytorch(kind: type[Nonlinearity]) -> None:
    own, numbers = kind(49), torch.tensor([0.0, -0.0, 1.0, -1.0, torch.inf, -torch.inf, torch.nan])
    y, y_deriv = (each.reshape(1, -1) for each in torch.meshgrid(numbers, numbers, indexing="ij"))
    found, expected = torch.empty(1, 49), torch.empty(1, 49)
    assert own.output_code is not None
    assert layers.output_backward(own.output_code, found, y, y_deriv, None)
    own.differentiate(y, y_deriv, expected)
    torch.testing.assert_close(found, expected, equal_nan=True)


@given(*SIZES)
def test_sums_have_the_digits_of_float64(rows: int, columns: int, seed: int) -> None:
    torch.manual_seed(seed)
    x = matrix(rows, columns) + 1000.0
    sums = layers.moments(x)
    assert sums is not None
    mean = sums[0] / rows
    close(mean, x.double().mean(0))
    close(sums[1] / rows - mean.square(), x.double().var(0, unbiased=False))


@pytest.mark.parametrize("change", [Tensor.double, lambda matrix: matrix.T.contiguous().T])
def test_other_matrices_are_left_alone(change: object) -> None:
    assert callable(change)
    x, y, vector = change(torch.randn(4, 8)), torch.zeros(4, 8), torch.ones(8)
    assert layers.moments(x) is None
    assert layers.batch_norm_sums(x, y, None, vector) is None
    assert not layers.normalize_columns(y, x, vector, vector)
    assert not layers.batch_norm_backward(y, x, y, None, vector, vector, vector)
    assert layers.batch_norm(y, x, 8, 1e-3, 1.0) is None
    assert not layers.batch_norm_deriv(y, x, y, None, vector, 1.0)
    assert not layers.normalize_rows(y, x, 1.0)
    assert not layers.normalize_rows_backward(y, x, y, 1.0, 1.0)
    assert not layers.dropout_backward(y, x, y, y)
    assert layers.output_sums(Code.TANH, x) is None
    assert not layers.output_backward(Code.TANH, y, x, y, None)
    assert layers.repair(y, x, torch.zeros(8, dtype=torch.float64), 1.0, 1.0, 1.0) is None
    assert not y.any()
