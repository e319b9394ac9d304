"""Products with weights in panels: any shapes, strides and threads, against products of float64."""

from __future__ import annotations

import threading

import pytest
import torch
from torch import Tensor

from nnet3.native import panels as room
from nnet3.native.panels import Panels
from tests.components.finite_differences import strided
from tests.native.native_code import needs_native_code

pytestmark = needs_native_code

SHAPES = [(1, 1), (1, 40), (31, 7), (32, 5), (33, 64), (100, 3), (160, 200)]  # columns, inner


def numbers(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def exact(x: Tensor, weights: Tensor, addend: Tensor) -> Tensor:
    return (addend.double() + x.double() @ weights.double().T).float()


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize(("columns", "inner"), SHAPES)
def test_products_are_those_of_matrices(
    columns: int, inner: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "_FEWEST_FOR_THREADS", 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    weights, bias = numbers(columns, inner), numbers(columns)
    packed = Panels(weights)
    assert torch.equal(packed.to_dense(), weights)
    x = numbers(200, inner)
    of_all = torch.empty(200, columns)
    packed.multiply(x, of_all, bias)
    torch.testing.assert_close(of_all, exact(x, weights, bias), rtol=1e-5, atol=1e-4)
    for rows in (0, 1, 2, 5, 6, 11, 12, 13, 24, 25, 37, 75, 200):
        y = strided(torch.full((rows, columns), torch.nan))
        packed.multiply(strided(x[:rows]), y, bias)
        assert torch.equal(y, of_all[:rows]), "a row must not depend on the others"
        before = y.clone()
        packed.multiply(x[:rows], y, y)
        torch.testing.assert_close(y, exact(x[:rows], weights, before), rtol=1e-5, atol=1e-4)


def test_what_is_beside_the_result_stays() -> None:
    around = torch.full((20, 70), 3.0)
    Panels(numbers(33, 9)).multiply(numbers(18, 9), around[1:19, 10:43], numbers(33))
    assert (around[[0, 19]] == 3.0).all()
    assert (around[:, :10] == 3.0).all()
    assert (around[:, 43:] == 3.0).all()
    assert (around[1:19, 10:43] != 3.0).all()


def test_rows_and_columns_of_x_however_they_lie() -> None:
    weights, bias = numbers(40, 6), numbers(40)
    packed, y = Panels(weights.T.contiguous().T), torch.empty(5, 40)
    for x in (numbers(15, 6)[::3], numbers(6, 5).T, numbers(1, 6).expand(5, 6)):
        packed.multiply(x, y, bias)
        torch.testing.assert_close(y, exact(x, weights, bias))


def test_numbers_that_are_not_finite_stay_in_their_rows() -> None:
    x = numbers(30, 8)
    x[3, 2], x[7, 5], x[20, 0] = torch.nan, torch.inf, -torch.inf
    y = torch.empty(30, 50)
    Panels(numbers(50, 8)).multiply(x, y, torch.zeros(50))
    assert y[3].isnan().all()
    assert y[[7, 20]].isinf().all()
    assert y[[row for row in range(30) if row not in (3, 7, 20)]].isfinite().all()


def test_threads_of_the_caller_share_panels() -> None:
    packed, x, bias = Panels(numbers(700, 300)), numbers(64, 300), numbers(700)
    results = [torch.empty(64, 700) for _ in range(4)]
    callers = [threading.Thread(target=packed.multiply, args=(x, y, bias)) for y in results]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert all(torch.equal(y, results[0]) for y in results)
    torch.testing.assert_close(results[0], exact(x, packed.to_dense(), bias), rtol=1e-5, atol=1e-4)


def test_other_shapes_are_refused() -> None:
    packed, y, bias = Panels(numbers(4, 3)), torch.empty(2, 4), torch.zeros(4)
    for x, result, addend in (
        (numbers(2, 4), y, bias),
        (numbers(3, 3), y, bias),
        (numbers(2, 3), torch.empty(2, 5), bias),
        (numbers(2, 3), y, torch.zeros(3)),
        (numbers(2, 3), torch.empty(4, 2).T, bias),
    ):
        with pytest.raises(ValueError, match=r"panels of 4 x 3|side by side"):
            packed.multiply(x, result, addend)


def test_without_native_code_there_are_no_panels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "library", lambda: None)
    with pytest.raises(RuntimeError, match="no native code"):
        Panels(numbers(2, 2))
