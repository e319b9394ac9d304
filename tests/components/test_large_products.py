"""Large products by oneDNN: the same numbers, and only where they are large."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nnet3 import cn
from nnet3.components import large_products
from nnet3.components.large_products import is_by_onednn, is_tall, product_by_onednn, tall_product
from tests.seeds import RANDOM

needs_onednn = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this PyTorch has no oneDNN")


def matrix(rows: int, columns: int) -> torch.Tensor:
    return torch.from_numpy(RANDOM.normal(size=(rows, columns)).astype(np.float32))


@needs_onednn
@pytest.mark.parametrize("rows", [1, 7])
def test_products_of_matrices_however_they_lie(rows: int) -> None:
    left, right, bias = matrix(rows, 5), matrix(5, 6), matrix(1, 6)[0]
    wide = matrix(rows, 9)
    wide[:, 2:7] = left
    for one, other in ((left, right), (wide[:, 2:7], right.T.contiguous().T)):
        torch.testing.assert_close(product_by_onednn(one, other), left @ right)
        torch.testing.assert_close(product_by_onednn(one, other, bias), left @ right + bias)


def test_small_ones_and_other_types_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_products, "onednn_is_faster", lambda: True)
    assert is_by_onednn(matrix(256, 512), matrix(512, 256))
    assert not is_by_onednn(matrix(256, 512), matrix(512, 255))
    assert not is_by_onednn(matrix(256, 512).double(), matrix(512, 256).double())
    monkeypatch.setattr(large_products, "onednn_is_faster", lambda: False)
    assert not is_by_onednn(matrix(256, 512), matrix(512, 256))


@pytest.fixture
def _all_by_onednn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_products, "onednn_is_faster", lambda: True)
    monkeypatch.setattr(large_products, "_LARGE", 1)


def test_products_of_few_columns() -> None:
    left, right = matrix(2048, 80).double(), matrix(2048, 10).double()
    assert is_tall(left, right)
    torch.testing.assert_close(tall_product(left, right), left.T @ right)
    assert not is_tall(left[:, 1:], right)  # it has more columns
    assert not is_tall(left[:400], right[:400])  # it is small


@pytest.mark.parametrize("optimize", [False, True])
def test_gradients_of_few_rows(optimize: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a sum with a bias, and of two products of the same matrix, whose gradients are added."""
    x, W = cn.input("x", 9), cn.parameter("W", (1, 9))
    total = cn.tanh(W @ x + cn.parameter("b", (1, 1))) - W @ cn.tanh(x)
    net = cn.Network(cn.squared_norm(total), optimize=optimize, dtype=torch.float64)
    batch = {"x": RANDOM.normal(size=(9, 6))}
    expected = net.gradients(batch)["W"]
    made: list[torch.Tensor] = []
    monkeypatch.setattr(large_products, "_TALL", 1)
    monkeypatch.setattr(torch, "mm", lambda *given, mm=torch.mm, **out: made.append(mm(*given, **out)) or made[-1])
    np.testing.assert_allclose(net.gradients(batch)["W"], expected, rtol=1e-12)
    assert sum(product.shape == (1, 9) for product in made) == 2  # (9, 1) otherwise


@needs_onednn
@pytest.mark.usefixtures("_all_by_onednn")
@pytest.mark.parametrize("optimize", [False, True])
def test_networks_give_the_same_numbers(optimize: bool) -> None:
    """With a bias, with a value that is added, subtracted, and to a gradient that others have given."""
    x = cn.input("x", 4)
    h = cn.tanh(cn.macros.affine(x, 5, name="a"))
    total = cn.tanh(h - cn.macros.affine(h, 5, name="b")) - cn.parameter("R", (5, 5)) @ h
    net = cn.Network(cn.squared_norm(total), optimize=optimize)
    batch = {"x": RANDOM.normal(size=(4, 6))}
    exact = net.copy().to(torch.float64)
    for name, gradient in exact.gradients(batch).items():
        np.testing.assert_allclose(net.gradients(batch)[name], gradient, rtol=1e-4, atol=1e-5)
