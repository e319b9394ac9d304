"""Affine components with products of int8 and bfloat16: their error, what they refuse, rows that do not mix."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from torch import Tensor

from nnet3 import components
from nnet3.base.index import NO_TIME
from nnet3.components import Component
from nnet3.errors import ComponentError
from nnet3.model.components import low_precision
from nnet3.model.components.low_precision import Int8AffineComponent
from tests.components.finite_differences import strided
from tests.components.index_harness import ROW_SETS, index_case, table

TYPES = {"int8": torch.int8, "bfloat16": torch.bfloat16}
KERNELS = (*TYPES, "fast bfloat16")
CONFIGS = [
    ("AffineComponent", "input-dim=7 output-dim=5"),
    ("NaturalGradientAffineComponent", "input-dim=40 output-dim=3"),
    ("LinearComponent", "input-dim=2 output-dim=9"),
    ("TdnnComponent", "input-dim=6 output-dim=4 time-offsets=0"),
]
ALL = table(range(-30, 60), ns=range(4), xs=range(-1, 2))
ROUNDING = 2.0**-8  # of bfloat16
SLACK = 1e-5  # of float32, in sums of a few dozen terms


def weights_of(component: Component) -> Tensor:
    parameters = component.parameters()
    return parameters.get("linear_params", parameters.get("params", torch.empty(0))).double()


@contextmanager
def kernel(name: str) -> Iterator[None]:
    """Lets the hardware have fast products of bfloat16, or not."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(low_precision, "_has_fast_bfloat16", lambda: name.startswith("fast"))
        yield


def quantized(component: Component, name: str = "int8") -> Component:
    result = component.in_low_precision(TYPES[name.removeprefix("fast ")])
    assert result is not None
    return result


def largest_error(x: Tensor, w: Tensor, name: str) -> Tensor:
    """The bound, (rows, outputs), on the error of x W^T from the rounding of both factors, and of the result.

    An integer is wrong by half a step at most, a bfloat16 number by ROUNDING of itself.
    """
    x, w = x.double().abs(), w.abs()
    if name != "int8":
        return x @ w.t() * ((1 + ROUNDING) ** 3 - 1)
    of_x, of_w = (matrix.amax(1, keepdim=True) / 127 / 2 * torch.ones_like(matrix) for matrix in (x, w))
    return x @ of_w.t() + of_x @ w.t() + of_x @ of_w.t()


@pytest.mark.parametrize("name", KERNELS)
@given(st.integers(0, 40), st.integers(2, 50), st.integers(1, 20), st.sampled_from([1e-20, 1e-3, 1.0, 1e6]), st.data())
def test_products_err_by_no_more_than_the_rounding_of_their_factors(
    name: str, rows: int, columns: int, outputs: int, scale: float, data: st.DataObject
) -> None:
    component = components.create("AffineComponent", f"input-dim={columns} output-dim={outputs}", seed=rows)
    of_row = 10 ** torch.randn(rows, 1) * torch.tensor(data.draw(st.sampled_from([0.0, 1.0])))
    x = torch.randn(rows, columns) * of_row * scale
    x[: rows // 4, data.draw(st.integers(0, columns - 1))] *= 1000
    bias = component.parameters()["bias_params"].double()
    exact = x.double() @ weights_of(component).t()
    with kernel(name):
        y, _ = quantized(component, name).propagate(x)
    bound = largest_error(x, weights_of(component), name) + SLACK * (exact.abs() + bias.abs()) + 1e-30
    assert ((y.double() - bias - exact).abs() <= bound).all()


@given(st.integers(1, 30), st.integers(2, 40), st.integers(1, 9))
def test_integers_and_scales_are_those_of_the_formula(rows: int, columns: int, outputs: int) -> None:
    component = components.create("LinearComponent", f"input-dim={columns} output-dim={outputs}", seed=columns)
    w, x = weights_of(component).numpy(), torch.randn(rows, columns)
    steps, scales = (np.abs(matrix).max(1, keepdims=True) / 127 for matrix in (x.double().numpy(), w))
    result = quantized(component)
    assert isinstance(result, Int8AffineComponent)
    near_half = np.abs(np.abs(w / scales) % 1 - 0.5) < 1e-4  # may be rounded either way
    assert (near_half | (result.weights.numpy() == np.rint(w / scales))).all()
    integers = np.rint(x.double().numpy() / steps)
    expected = (integers @ result.weights.double().numpy().T) * steps * scales.T
    at_most = steps * scales.T * 127 * (np.abs(np.abs(x.numpy() / steps) % 1 - 0.5) < 1e-4).sum(1, keepdims=True)
    y, _ = result.propagate(x)
    assert (np.abs(y.numpy() - expected) <= at_most + SLACK * np.abs(expected).max()).all()


@pytest.mark.parametrize("at_once", [1, 64, 2**18])
@pytest.mark.parametrize("offsets", ["0", "-1,0", "-3,0,3", "2,-1,0"])
@pytest.mark.parametrize("rows", ROW_SETS.values(), ids=ROW_SETS)
def test_times_are_summed_on_all_kinds_of_rows(
    rows: np.ndarray, offsets: str, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(low_precision, "_ELEMENTS_AT_ONCE", at_once)
    for dims in ("input-dim=3 output-dim=11", "input-dim=9 output-dim=4 use-bias=false"):
        component = components.create("TdnnComponent", f"time-offsets={offsets} {dims}", seed=1)
        case = index_case(component, rows, ALL)
        x = torch.randn(len(case.inputs), component.input_dim)
        x[case.inputs[:, 1] == NO_TIME] = torch.nan
        exact, real = torch.empty(len(case.outputs), component.output_dim), case.outputs[:, 1] != NO_TIME
        component.forward(x, exact, case.plan)
        largest = x.nan_to_num().abs().amax() * weights_of(component).abs().amax()
        for name in KERNELS:
            worst, y = 1 / 127 if name == "int8" else 3 * ROUNDING, strided(torch.full_like(exact, torch.nan))
            with kernel(name):
                quantized(component, name).forward(strided(x), y, case.plan)
            assert y.isfinite().all(), "values of padding rows must be finite"
            bound = 1.02 * worst * largest * weights_of(component).shape[1] + SLACK
            assert ((y - exact)[real].abs() <= bound).all()


@given(st.integers(1, 60), st.integers(2, 33), st.sampled_from([1, 50, 2**18]), st.data())
def test_a_row_does_not_depend_on_others_beside_it(rows: int, columns: int, at_once: int, data: st.DataObject) -> None:
    component = quantized(components.create("AffineComponent", f"input-dim={columns} output-dim=8"))
    x = torch.randn(rows, columns)
    whole, _ = component.propagate(x)
    cut = data.draw(st.integers(0, rows))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(low_precision, "_ELEMENTS_AT_ONCE", at_once)
        parts = [component.propagate(part)[0] for part in (x[:cut], x[cut:])]
    assert torch.equal(torch.cat(parts), whole)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("name", KERNELS)
def test_what_is_not_finite_stays_in_its_row(name: str, bad: float) -> None:
    component = quantized(components.create("AffineComponent", "input-dim=5 output-dim=3"), name)
    x = torch.randn(4, 5)
    x[3] = 0.0
    with kernel(name):
        expected, _ = component.propagate(x)
        assert torch.equal(expected[3], component.bias_params)  # type: ignore[attr-defined]
        x[1, 2] = bad
        y, _ = component.propagate(x)
    assert torch.equal(y[[0, 2, 3]], expected[[0, 2, 3]])
    assert not y[1].isfinite().any()


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize(("type_name", "config"), CONFIGS)
def test_it_has_the_sizes_of_the_original_and_nothing_to_train(type_name: str, config: str, name: str) -> None:
    original = components.create(type_name, config)
    component = quantized(original, name)
    dims = original.input_dim, original.output_dim
    assert component.info().endswith(f"Component, input-dim={dims[0]}, output-dim={dims[1]}")
    assert (component.input_dim, component.output_dim) == dims
    assert component.parameters() == {}
    assert component.updatable is None
    assert component.needs_indexes == original.needs_indexes
    assert component.gradient_copy().info() == component.info()


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize(
    "twin_of", [Component.copy, copy.deepcopy, lambda component: pickle.loads(pickle.dumps(component))]
)
def test_copies_compute_the_same(twin_of, name: str) -> None:  # type: ignore[no-untyped-def]
    component = quantized(components.create("LinearComponent", "input-dim=5 output-dim=3"), name)
    x = torch.randn(4, 5)
    y, _ = component.propagate(x)
    twin = twin_of(component)
    component.weights.zero_()  # type: ignore[attr-defined]
    assert torch.equal(twin.propagate(x)[0], y)
    assert twin.to(dtype=torch.float32, device="cpu") is twin
    assert torch.equal(twin.propagate(x)[0], y)


@pytest.mark.parametrize("name", TYPES)
def test_what_it_cannot_do_is_refused(name: str, tmp_path: Path) -> None:
    component = quantized(components.create("AffineComponent", "input-dim=5 output-dim=3"), name)
    x, y = torch.randn(4, 5), torch.randn(4, 3)
    advice = f"its products are in {name}; take the network that was quantized"
    with pytest.raises(ComponentError, match=f"has no derivatives: {advice}"):
        component.backprop(x, y, y)
    with pytest.raises(ComponentError, match=f"cannot be written, as Kaldi's files have no such weights: {advice}"):
        component.write(str(tmp_path / "file"))
    assert not list(tmp_path.iterdir())
    for dtype in (torch.float64, torch.bfloat16):
        with pytest.raises(ComponentError, match=f"cannot be converted to {str(dtype)[6:]}: {advice}"):
            component.to(dtype=dtype)
    with pytest.raises(ComponentError, match=f"quantized already: {advice}"):
        component.in_low_precision(torch.int8)
    if name == "int8":
        with pytest.raises(ComponentError, match="on the CPU alone, not on 'cuda': use bfloat16 there"):
            component.to(device="cuda")
        with pytest.raises(ComponentError, match="on the CPU alone, not on 'meta': use bfloat16 there"):
            low_precision.low_precision(torch.int8, torch.empty(3, 5, device="meta"))


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -1e300])
@pytest.mark.parametrize(("key", "what"), [("linear_params", "weights"), ("bias_params", "biases")])
def test_weights_that_are_not_finite_are_refused(key: str, what: str, bad: float) -> None:
    component = components.create("AffineComponent", "input-dim=5 output-dim=3").to(torch.float64)
    component.parameters()[key].view(-1)[2] = bad
    with pytest.raises(ComponentError, match=f"it has {what} that are not finite numbers"):
        component.in_low_precision(torch.int8)


def test_one_column_and_other_types_stay_as_they_are() -> None:
    for config in ("input-dim=1 output-dim=3", "input-dim=1 output-dim=3 time-offsets=-1,0"):
        kind = "TdnnComponent" if "time" in config else "AffineComponent"
        assert components.create(kind, config).in_low_precision(torch.int8) is None
    assert components.create("FixedAffineComponent", "input-dim=4 output-dim=4").in_low_precision(torch.int8) is None
    assert components.create("TanhComponent", "dim=4").in_low_precision(torch.bfloat16) is None


def test_weights_of_zeros_give_the_bias() -> None:
    component = components.create("AffineComponent", "input-dim=5 output-dim=3")
    component.parameters()["linear_params"].zero_()
    y, _ = quantized(component).propagate(torch.randn(4, 5))
    assert torch.equal(y, component.parameters()["bias_params"].expand(4, 3))


def test_memory_of_an_inference_mode_is_used_outside_of_it() -> None:
    low_precision._SCRATCH = low_precision._Scratch()
    component = quantized(components.create("AffineComponent", "input-dim=5 output-dim=3"))
    x = torch.randn(4, 5)
    with torch.inference_mode():
        y, _ = component.propagate(x)
    assert torch.equal(component.propagate(x)[0], y)
