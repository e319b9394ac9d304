"""Affine components with packed weights: the same numbers, rows that do not mix, what they refuse."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch
from torch import Tensor

from nnet3 import components
from nnet3.base.index import NO_TIME
from nnet3.base.native import onednn
from nnet3.base.native.onednn import OneDnnWeights
from nnet3.base.native.panels import Panels
from nnet3.components import Component
from nnet3.errors import ComponentError
from nnet3.model.components import packed_affine
from tests.components.finite_differences import strided
from tests.components.index_harness import ROW_SETS, index_case, table
from tests.effort import at_night
from tests.native.native_code import needs_native_code

SIMPLE = [
    ("AffineComponent", "input-dim=7 output-dim=5"),
    ("NaturalGradientAffineComponent", "input-dim=40 output-dim=300"),
    ("LinearComponent", "input-dim=300 output-dim=17"),
    ("TdnnComponent", "input-dim=6 output-dim=4 time-offsets=0"),
]
ALL = table(range(-30, 60), ns=range(4), xs=range(-1, 2))


@pytest.fixture(
    autouse=True,
    params=[
        pytest.param((Panels, False), id="panels", marks=needs_native_code),
        pytest.param((Panels, True), id="amx", marks=needs_native_code),
        pytest.param(
            (OneDnnWeights, False),
            id="onednn",
            marks=pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this PyTorch has no oneDNN"),
        ),
    ],
)
def all_are_packed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_affine, "_FEWEST_WEIGHTS", 1)
    made, by_amx = request.param
    monkeypatch.setattr(packed_affine, "packed", made)
    monkeypatch.setattr(packed_affine.PackedAffineComponent, "by_amx", by_amx)


def pair(kind: str, config: str) -> tuple[Component, Component]:
    """Returns a component and the same one packed."""
    component = components.create(kind, config, seed=1)
    packed = component.in_low_precision(torch.float32)
    assert packed is not None
    return component, packed


def rows_of(num_rows: int, columns: int) -> Tensor:
    return torch.randn(num_rows, columns, generator=torch.Generator().manual_seed(num_rows))


@pytest.mark.parametrize(("kind", "config"), SIMPLE[:3])
def test_products_are_those_of_the_component_and_rows_do_not_mix(kind: str, config: str) -> None:
    component, packed = pair(kind, config)
    x = rows_of(60, component.input_dim)
    y = packed.propagate(strided(x))[0]
    torch.testing.assert_close(y, component.propagate(x)[0])
    for rows in (0, 1, 2, 7, 33):
        assert torch.equal(packed.propagate(x[:rows])[0], y[:rows])


@pytest.mark.parametrize("offsets", ["0", "-1,0", "-3,0,3", "2,-1,0"])
@pytest.mark.parametrize("at_once", [*at_night(1), 5, 512])
@pytest.mark.parametrize("rows", ROW_SETS.values(), ids=ROW_SETS)
def test_times_are_summed_on_all_kinds_of_rows(
    rows: np.ndarray, at_once: int, offsets: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onednn, "_ROWS_AT_ONCE", at_once)
    for dims in ("input-dim=3 output-dim=11", "input-dim=20 output-dim=70", "input-dim=9 output-dim=4 use-bias=false"):
        component, packed = pair("TdnnComponent", f"time-offsets={offsets} {dims}")
        case = index_case(component, rows, ALL)
        x = rows_of(len(case.inputs), component.input_dim)
        x[case.inputs[:, 1] == NO_TIME] = torch.nan
        exact, real = torch.empty(len(case.outputs), component.output_dim), case.outputs[:, 1] != NO_TIME
        component.forward(x, exact, case.plan)
        y = strided(torch.full_like(exact, torch.nan))
        packed.forward(strided(x), y, case.plan)
        assert y.isfinite().all(), "values of padding rows must be finite"
        torch.testing.assert_close(y[real], exact[real])


@pytest.mark.parametrize("twin_of", [Component.copy, copy.deepcopy, lambda c: pickle.loads(pickle.dumps(c))])
@pytest.mark.parametrize(("kind", "config"), SIMPLE[:2])
def test_copies_give_the_same(kind: str, config: str, twin_of) -> None:  # type: ignore[no-untyped-def]
    component, packed = pair(kind, config)
    x = rows_of(9, component.input_dim)
    expected = packed.propagate(x)[0]
    component.parameters()["linear_params"].zero_()
    assert torch.equal(packed.propagate(x)[0], expected)
    assert torch.equal(twin_of(packed).propagate(x)[0], expected)


def test_what_is_refused_says_what_to_take() -> None:
    _, packed = pair(*SIMPLE[0])
    x = rows_of(3, 7)
    y = packed.propagate(x)[0]
    message = "its weights are packed; take the network that was packed"
    with pytest.raises(ComponentError, match=f"has no derivatives: {message}"):
        packed.backprop(x, y, y)
    with pytest.raises(ComponentError, match=f"converted to float64: {message}"):
        packed.to(torch.float64)
    with pytest.raises(ComponentError, match="for the CPU alone"):
        packed.check_target(None, "cuda")
    with pytest.raises(ComponentError, match=message):
        packed.in_low_precision(torch.int8)
    assert packed.in_low_precision(torch.float32) is None
    assert packed.to(torch.float32, "cpu") is packed


def test_few_weights_and_other_numbers_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    component = components.create(*SIMPLE[0], seed=1)
    assert component.to(torch.float64).in_low_precision(torch.float32) is None
    monkeypatch.setattr(packed_affine, "_FEWEST_WEIGHTS", 36)
    assert component.to(torch.float32).in_low_precision(torch.float32) is None


def test_numbers_that_are_not_finite_stay_in_their_rows() -> None:
    component, packed = pair(*SIMPLE[0])
    x = rows_of(4, 7)
    x[2, 3] = np.inf
    np.testing.assert_allclose(packed.propagate(x)[0], component.propagate(x)[0], rtol=1e-5, atol=1e-5)
