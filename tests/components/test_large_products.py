"""Large products by oneDNN: the same numbers, and only where they are large."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import nnet3
from nnet3 import cn
from nnet3.components import large_products
from nnet3.components.large_products import add_product, is_by_onednn, is_tall, product_by_onednn, tall_product
from nnet3.native.panels import Panels
from tests.native.native_code import needs_native_code
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


@pytest.fixture
def rows_by_panels(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Multiplies by panels whatever the size and the processor; returns how many rows each product had."""
    rows: list[int] = []

    class Counted(Panels):
        def multiply(self, x: torch.Tensor, y: torch.Tensor, addend: torch.Tensor) -> None:
            rows.append(len(x))
            super().multiply(x, y, addend)

    monkeypatch.setattr(large_products, "Panels", Counted)
    monkeypatch.setattr(large_products, "is_amd", lambda: True)
    monkeypatch.setattr(large_products, "_MANY_ROWS", 1)
    monkeypatch.setattr(large_products, "_LARGE_FOR_PANELS", 1)
    return rows


@needs_native_code
def test_products_by_panels_are_those_of_matrices(rows_by_panels: list[int]) -> None:
    x, weights, bias = matrix(9, 5), matrix(40, 5), matrix(1, 40)[0]
    for given in (weights, weights.t().contiguous().t()):
        y = torch.empty(9, 40)
        add_product(y, x, given)
        torch.testing.assert_close(y, x @ weights.t())
        add_product(y, x, given, bias)
        torch.testing.assert_close(y, x @ weights.t() + bias)
        before = y.clone()
        add_product(y, x, given, y)
        torch.testing.assert_close(y, before + x @ weights.t())
    assert rows_by_panels == 6 * [9]


@needs_native_code
@pytest.mark.parametrize("kind", ["NaturalGradientAffineComponent", "LinearComponent", "TdnnComponent"])
def test_training_steps_by_panels_give_the_same(kind: str, rows_by_panels: list[int]) -> None:
    config = f"component name=c type={kind} input-dim=6 output-dim=35"
    config += " time-offsets=-1,0,2" if kind == "TdnnComponent" else ""
    nnet = nnet3.Nnet.from_config(
        f"input-node name=input dim=6\n{config}\n"
        "component-node name=c component=c input=input\noutput-node name=output input=c",
        seed=2,
    )
    request = nnet3.ComputationRequest(
        [nnet3.IoSpecification("input", [(n, t) for n in range(2) for t in range(-1, 12)], has_deriv=True)],
        [nnet3.IoSpecification("output", [(n, t) for n in range(2) for t in range(0, 10)], has_deriv=True)],
        need_model_derivative=True,
    )
    given = {"input": matrix(26, 6)}
    deriv = {"output": matrix(20, 35)}

    def step(of: nnet3.Nnet) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
        computer = nnet3.NnetComputer(nnet3.compile(of, request), of, of.copy())
        return computer.compute(given), computer.compute(deriv)["input"]

    exact = nnet.copy().to(torch.float64)
    outputs, derivative = step(nnet)
    assert rows_by_panels, "nothing was multiplied by panels"
    exact_outputs, exact_derivative = step(exact)
    torch.testing.assert_close(outputs["output"].double(), exact_outputs["output"], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(derivative.double(), exact_derivative, rtol=1e-5, atol=1e-5)
