"""Large products by native code: the same numbers, and only where they are large."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import nnet3
from nnet3 import cn
from nnet3.base.native import operations, panels
from nnet3.base.native.fastest import Fastest
from nnet3.base.native.panels import product
from nnet3.model.components import large_products
from nnet3.model.components.large_products import add_product, product_and_squares
from tests.native.native_code import needs_native_code
from tests.seeds import RANDOM


def matrix(rows: int, columns: int) -> torch.Tensor:
    return torch.from_numpy(RANDOM.normal(size=(rows, columns)).astype(np.float32))


@pytest.fixture(params=["panels", "amx"])
def by_native_code(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    return multiplied_by(request.param, monkeypatch)


def multiplied_by(changing: str, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """Native code multiplies whatever the size and the processor; returns the shapes of the products."""
    shapes: list[tuple[int, ...]] = []

    def counted(y: torch.Tensor, *given: Any, **named: Any) -> None:
        shapes.append(tuple(y.shape))
        product(y, *given, **named)

    monkeypatch.setattr(large_products.panels, "product", counted)
    monkeypatch.setattr(large_products, "fastest", lambda: Fastest("panels", changing))
    for bound in ("_MANY_ROWS", "_LONG", "_LARGE"):
        monkeypatch.setattr(large_products, bound, 1)
    return shapes


@pytest.mark.parametrize("changing", ["", *(pytest.param(by, marks=needs_native_code) for by in ("panels", "amx"))])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_products_of_matrices(changing: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    made = multiplied_by(changing, monkeypatch) if changing else []
    left, right, bias = (matrix(*shape).to(dtype) for shape in ((9, 5), (5, 40), (1, 40)))
    exact = left.double() @ right.double()
    y = torch.full((9, 40), torch.nan, dtype=dtype)
    for one, other in ((left, right), (left.t().contiguous().t(), right.t().contiguous().t())):
        for addend in (None, bias, bias[0], matrix(9, 40).to(dtype)):
            add_product(y, one, other, addend)
            torch.testing.assert_close(y.double(), exact + (0 if addend is None else addend), rtol=1e-5, atol=1e-5)
            add_product(y, one, other, addend, -0.5)
            torch.testing.assert_close(y.double(), -exact / 2 + (0 if addend is None else addend), rtol=1e-5, atol=1e-5)
        before = y.double().clone()
        add_product(y, one, other, y, 2.0)
        torch.testing.assert_close(y.double(), before + 2 * exact, rtol=1e-5, atol=1e-5)
    assert made == (18 * [(9, 40)] if changing and dtype == torch.float32 else [])


@needs_native_code
@pytest.mark.usefixtures("by_native_code")
def test_results_that_lie_by_columns() -> None:
    y, left, right = torch.empty(40, 9).t(), matrix(9, 5), matrix(5, 40)
    add_product(y, left, right)
    torch.testing.assert_close(y, left @ right)


@pytest.mark.parametrize("changing", ["", *(pytest.param(by, marks=needs_native_code) for by in ("panels", "amx"))])
@pytest.mark.parametrize("columns", [20, 32, 33, 80, 600])
@pytest.mark.parametrize(("rows", "terms", "threads"), [(70, 900, 1), (700, 70, 1), (700, 70, 2), (40, 6200, 2)])
def test_squares_come_with_products(
    changing: str, columns: int, rows: int, terms: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one panel and of several, of long rows in parts, of columns that threads share."""
    made = multiplied_by(changing, monkeypatch) if changing else []
    monkeypatch.setattr(panels, "num_threads", lambda multiplications: threads)
    wide, right = matrix(rows, terms + 5), matrix(terms, columns)
    for left in (wide[:, 3:-2], wide[:, :terms].t().contiguous().t()):
        product, squares = product_and_squares(left, right)
        expected = torch.empty(rows, columns)
        add_product(expected, left, right)
        torch.testing.assert_close(product, expected, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(squares, left.double().square().sum(), rtol=1e-6, atol=0.0)
    assert made == (4 * [(rows, columns)] if changing else [])


@needs_native_code
def test_squares_belong_to_rows() -> None:
    left, right = matrix(100, 1000), matrix(1000, 40)
    for by_amx in (False, True):
        squares = torch.ones(100, dtype=torch.float64)
        product(torch.empty(100, 40), left, right, by_amx=by_amx, squares=squares)
        torch.testing.assert_close(squares, 1 + left.double().square().sum(1), rtol=1e-6, atol=0.0)
    with pytest.raises(ValueError, match="squares"):
        product(torch.empty(100, 40), left, right, squares=squares[:99])


@needs_native_code
def test_only_large_ones_and_only_where_native_code_is_faster(
    by_native_code: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for bound, number in (("_MANY_ROWS", 7), ("_LONG", 6), ("_LARGE", 8**3)):
        monkeypatch.setattr(large_products, bound, number)

    def multiply(rows: int, terms: int, columns: int) -> None:
        add_product(torch.empty(rows, columns), matrix(rows, terms), matrix(terms, columns))

    for sizes in ((8, 8, 8), (8, 8, 7), (6, 8, 16), (8, 5, 16)):
        multiply(*sizes)
    monkeypatch.setattr(large_products, "fastest", lambda: Fastest("panels", ""))
    multiply(8, 8, 8)
    assert by_native_code == [(8, 8)]


@needs_native_code
@pytest.mark.parametrize("optimize", [False, True])
def test_computational_networks_give_the_same_numbers(
    optimize: bool, by_native_code: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a bias, with a value that is added, subtracted, and to a gradient that others have given."""
    # operations of small matrices stay with PyTorch
    monkeypatch.setattr(operations, "_operation", lambda *given, **named: None)
    x = cn.input("x", 4)
    h = cn.tanh(cn.macros.affine(x, 5, name="a"))
    total = cn.tanh(h - cn.macros.affine(h, 5, name="b")) - cn.parameter("R", (5, 5)) @ h
    net = cn.Network(cn.squared_norm(total), optimize=optimize)
    batch = {"x": RANDOM.normal(size=(4, 6))}
    exact = net.copy().to(torch.float64)
    for name, gradient in exact.gradients(batch).items():
        np.testing.assert_allclose(net.gradients(batch)[name], gradient, rtol=1e-4, atol=1e-5)
    assert by_native_code, "nothing was multiplied by native code"


@needs_native_code
@pytest.mark.parametrize("kind", ["NaturalGradientAffineComponent", "LinearComponent", "TdnnComponent"])
def test_training_steps_give_the_same(kind: str, by_native_code: list[tuple[int, ...]]) -> None:
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

    def step(of: nnet3.Nnet) -> list[torch.Tensor]:
        trained = of.copy()
        computer = nnet3.NnetComputer(nnet3.compile(of, request), of, trained)
        output, derivative = computer.compute(given)["output"], computer.compute(deriv)["input"]
        return [output, derivative, *trained.components["c"].parameters().values()]

    found, expected = step(nnet), step(nnet.copy().to(torch.float64))
    assert {(20, 35), (35, 18 if kind == "TdnnComponent" else 6)} <= set(by_native_code)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-5, atol=1e-5)
