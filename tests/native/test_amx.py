"""Products by AMX: as near to exact ones as products of float32, with all bits of numbers and no others."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from nnet3.base.native.panels import Panels, PanelsOfOffsets, has_amx, product

pytestmark = pytest.mark.skipif(not has_amx(), reason="there is no AMX")


def multiplied(left: Tensor, right: Tensor) -> Tensor:
    y = torch.full((len(left), right.shape[1]), torch.nan)
    product(y, left, right, by_amx=True)
    return y


def by_panels(left: Tensor, right: Tensor) -> Tensor:
    """The same, of weights in panels."""
    y, one = torch.full((len(left), right.shape[1]), torch.nan), np.array([(0, 0, 0, 0, 0, 1)], np.int64)
    PanelsOfOffsets([Panels(right.t())]).multiply(left.contiguous(), y, torch.zeros(y.shape[1]), one, by_amx=True)
    return y


def numbers(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


@pytest.mark.parametrize("inner", [64, 700, 3000])
def test_errors_are_no_larger_than_those_of_pytorch(inner: int) -> None:
    left, right = numbers(200, inner), numbers(inner, 300)
    exact = left.double() @ right.double()
    error, of_pytorch = ((found.double() - exact).norm() for found in (multiplied(left, right), left @ right))
    assert error < 1.1 * of_pytorch


@pytest.mark.parametrize("rows", [1, 20, 200, 300])
def test_products_of_panels_are_those_of_matrices(rows: int) -> None:
    """To the last bit, so that all that is said here of one is true of the other."""
    left, right = numbers(rows, 1000), numbers(1000, 90)
    left[0, 3], right[30, 40] = torch.inf, torch.nan
    found = by_panels(left, right)
    assert torch.equal(found.nan_to_num(7.0), multiplied(left, right).nan_to_num(7.0))
    assert found[0].isnan().all()
    assert found[:, 40].isnan().all()
    assert found[1:, 41:].isfinite().all()


@pytest.mark.parametrize("exponent", [-60, 0, 60])
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("transposed", [False, True])
def test_all_bits_of_numbers_count(exponent: int, side: str, transposed: bool) -> None:
    """Times one, each number comes back: also numbers of very different size beside each other."""
    given = torch.randint(2**23, 2**24, (96, 96), generator=torch.Generator().manual_seed(1)).float()
    given *= torch.randint(0, 2, given.shape).float() * 2 - 1
    given = torch.ldexp(given, torch.randint(-40, 40, given.shape) + exponent)
    matrix = given.t().contiguous().t() if transposed else given
    one = torch.eye(96)
    assert torch.equal(multiplied(matrix, one) if side == "left" else multiplied(one, matrix), given)


def test_products_of_numbers_are_those_of_float32() -> None:
    """Sums of one product, whose error is that of a rounding, or two."""
    diagonal, right = numbers(96), numbers(96, 80)
    exact = diagonal.double()[:, None] * right.double()
    torch.testing.assert_close(multiplied(torch.diag(diagonal), right).double(), exact, rtol=2**-22, atol=0.0)


def test_the_smallest_numbers_change_no_others() -> None:
    left, right = numbers(40, 64), numbers(64, 40)
    left[:, 16:32] = torch.ldexp(left[:, 16:32], torch.tensor(-130))
    right[48:] = torch.ldexp(right[48:], torch.tensor(-140))
    torch.testing.assert_close(multiplied(left, right), left @ right, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("value", [torch.nan, -torch.nan, torch.inf, -torch.inf, 3.4e38])
def test_numbers_that_are_not_finite_stay_in_their_rows_and_columns(value: float, transposed: bool) -> None:
    left, right = torch.rand(70, 100) + 1, torch.rand(100, 50) + 1
    left[3, 2], right[77, 7] = value, value
    if transposed:
        left, right = left.t().contiguous().t(), right.t().contiguous().t()
    y = multiplied(left, right)
    rows, columns = torch.arange(70) == 3, torch.arange(50) == 7
    assert not y[rows].isfinite().any()
    assert not y[:, columns].isfinite().any()
    assert y[~rows][:, ~columns].isfinite().all()
