"""DropoutComponent and DropoutMaskComponent."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch

from nnet3 import components
from nnet3.errors import ComponentError
from nnet3.model.components.dropout import DropoutComponent, DropoutMaskComponent
from tests.components.component_text import check_round_trip, from_text
from tests.components.contract import component_contract


def dropout(config: str) -> DropoutComponent:
    component = components.create("DropoutComponent", config)
    assert isinstance(component, DropoutComponent)
    return component


def in_mode(config: str, test_mode: bool) -> DropoutComponent:
    component = dropout(config)
    component.set_test_mode(test_mode)
    return component


def mask(config: str, rows: int, seed: int = 0) -> torch.Tensor:
    component = components.create("DropoutMaskComponent", config)
    component.seed_random(seed)
    y = torch.full((rows, component.output_dim), torch.nan)
    component.forward(torch.empty(0, component.input_dim), y)
    return y


def test_elements_are_zeroed_and_not_rescaled() -> None:
    x = torch.ones(200, 50)
    y, _ = dropout("dim=50 dropout-proportion=0.3").propagate(x)
    assert set(y.unique().tolist()) == {0, 1}
    assert 0.27 < 1 - float(y.mean()) < 0.33
    assert float(y.mean(1).std()) > 0


def test_whole_rows_are_zeroed() -> None:
    y, _ = dropout("dim=5 dropout-proportion=0.3 dropout-per-frame=true").propagate(torch.ones(2000, 5))
    assert torch.equal(y, y[:, :1].expand(2000, 5))
    assert 0.25 < 1 - float(y.mean()) < 0.35


def test_proportions_0_and_1_keep_all_and_nothing() -> None:
    x = torch.randn(10, 4)
    assert torch.equal(dropout("dim=4 dropout-proportion=0").propagate(x)[0], x)
    assert float(dropout("dim=4 dropout-proportion=1").propagate(x)[0].abs().sum()) == 0


def test_test_mode_scales() -> None:
    x = torch.randn(10, 4)
    component = dropout("dim=4 dropout-proportion=0.25 test-mode=true")
    y, _ = component.propagate(x)
    torch.testing.assert_close(y, 0.75 * x)
    component.set_test_mode(False)
    assert not torch.equal(component.propagate(x)[0], y)


def test_derivative_where_the_input_is_zero() -> None:
    component = dropout("dim=3 dropout-proportion=0.5")
    x, y = torch.tensor([[0.0, 2.0, 2.0]]), torch.tensor([[0.0, 0.0, 2.0]])
    assert component.backprop(x, y, torch.full((1, 3), 7.0)).tolist() == [[7, 0, 7]]


def test_draws_depend_on_the_seed_only() -> None:
    x = torch.ones(10, 10)
    component = dropout("dim=10 dropout-proportion=0.5")
    outputs = []
    for seed in (3, 3, 4):
        component.seed_random(seed)
        outputs.append(component.propagate(x)[0])
    assert torch.equal(outputs[0], outputs[1])
    assert not torch.equal(outputs[0], outputs[2])


def test_the_proportion_can_be_changed_but_not_beyond_bounds() -> None:
    component = dropout("dim=10 dropout-proportion=0.5")
    component.dropout_proportion = 0.125
    assert component.info() == "DropoutComponent, dim=10, dropout-proportion=0.125, dropout-per-frame=false"
    with pytest.raises(ComponentError, match=r"the dropout proportion must be in \[0, 1\], got 1.5"):
        component.dropout_proportion = 1.5
    assert component.dropout_proportion == 0.125


def test_half_precision_draws_keep_the_proportion() -> None:
    y, _ = dropout("dim=100 dropout-proportion=0.001").propagate(torch.ones(1000, 100, dtype=torch.bfloat16))
    assert 0.0005 < 1 - float(y.double().mean()) < 0.002


# ---- masks ----


def test_masks_need_no_input() -> None:
    component = DropoutMaskComponent(3)
    outputs = np.zeros((5, 3), dtype=np.int32)
    wanted = component.wanted_inputs(outputs)
    assert wanted.shape == (5, 0, 3)
    computable, used = component.computable(outputs, np.zeros((5, 0), dtype=bool))
    assert computable.all()
    assert used.shape == (5, 0)
    component.backward(None, None, torch.ones(5, 3), None, None, None)  # type: ignore[arg-type]


def test_mask_of_many_columns() -> None:
    y = mask("output-dim=5 dropout-proportion=0.3", 4000)
    assert set(y.unique().tolist()) == {0, 1}
    assert float((y.mean(0) - 0.7).abs().max()) < 0.04
    assert float((torch.corrcoef(y.t()) - torch.eye(5)).abs().max()) < 0.08


@pytest.mark.parametrize("columns", [2, 3])
def test_mask_for_two_gates_never_zeroes_both(columns: int) -> None:
    y = mask(f"output-dim={columns} dropout-proportion=0.5", 4000)
    assert float((y.mean(0) - 0.5).abs().max()) < 0.04
    assert float((y[:, 0] + y[:, 1]).min()) == 1
    if columns == 3:
        assert float(torch.corrcoef(y.t())[2, :2].abs().max()) < 0.08


def test_mask_for_two_gates_zeroes_both_if_it_must() -> None:
    y = mask("output-dim=2 dropout-proportion=0.9", 4000)
    assert float((y.mean(0) - 0.1).abs().max()) < 0.03
    assert float((y[:, 0] * y[:, 1]).sum()) == 0


def test_a_continuous_mask_is_uniform() -> None:
    y = mask("output-dim=2 dropout-proportion=0.25 continuous=true", 4000)
    assert 0.5 <= float(y.min()) < 0.51
    assert 1.49 < float(y.max()) <= 1.5
    assert abs(float(y.mean()) - 1) < 0.02


@pytest.mark.parametrize(
    ("config", "value"),
    [
        ("dropout-proportion=0", 1.0),
        ("dropout-proportion=0 test-mode=true", 1.0),
        ("dropout-proportion=0.25 test-mode=true", 0.75),
        ("dropout-proportion=0.25 test-mode=true continuous=true", 1.0),
        ("dropout-proportion=1", 0.0),
    ],
)
def test_masks_that_are_constant(config: str, value: float) -> None:
    assert torch.equal(mask(f"output-dim=4 {config}", 10), torch.full((10, 4), value))


def test_masks_are_rewritten_the_same() -> None:
    component = components.create("DropoutMaskComponent", "output-dim=3 continuous=true test-mode=true")
    check_round_trip(component)
    assert component.info() == "DropoutMaskComponent, output-dim=3, dropout-proportion=0.5, continuous=true"
    check_round_trip(DropoutMaskComponent(3))
    old = from_text("<DropoutMaskComponent> <OutputDim> 3 <DropoutProportion> 0.5 </DropoutMaskComponent> ")
    assert old.info() == "DropoutMaskComponent, output-dim=3, dropout-proportion=0.5"
    old = from_text("<DropoutComponent> <Dim> 3 <DropoutProportion> 0.5 </DropoutComponent> ")
    assert old.info() == "DropoutComponent, dim=3, dropout-proportion=0.5, dropout-per-frame=false"


TestDropout = component_contract(
    "DropoutComponent",
    good=[
        partial(in_mode, f"dim=5 dropout-proportion=0.4{per_frame}", test_mode)
        for per_frame in ("", " dropout-per-frame=true")
        for test_mode in (False, True)
    ],
    rows=6,
    bad_configs=[
        ("dim=4", "'dropout-proportion=' is missing", ""),
        ("dim=4 dropout-proportion=1.5", "must be within [0, 1], got 1.5", "1.5"),
        ("dim=4 dropout-proportion=-0.5", "must be within [0, 1]", "-0.5"),
    ],
    bad_files=[
        ("<DropoutComponent> <Dim> 3 <DropoutProportion> 2 </DropoutComponent> ", "must be within [0, 1], got 2"),
        ("<DropoutComponent> <Dim> 0 <DropoutProportion> 0 </DropoutComponent> ", "<Dim> must be >= 1, got 0"),
    ],
)
TestDropoutMask = component_contract(
    "DropoutMaskComponent",
    bad_configs=[
        ("dropout-proportion=0.5", "'output-dim=' is missing", ""),
        ("output-dim=0", "'output-dim' must be >= 1", "0"),
        ("output-dim=2 dropout-proportion=2", "must be within [0, 1], got 2", "2"),
    ],
    bad_files=[
        (
            "<DropoutMaskComponent> <OutputDim> 3 <DropoutProportion> nan </DropoutMaskComponent> ",
            "<DropoutProportion> must be within [0, 1], got nan",
        ),
    ],
)
