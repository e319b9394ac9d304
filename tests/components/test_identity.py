"""NoOpComponent."""

from __future__ import annotations

import pytest
import torch

from nnet3 import components
from tests.components.component_text import check_round_trip, from_text
from tests.components.contract import component_contract
from tests.components.finite_differences import check_in_place


def test_backprop_scale_is_of_derivatives_alone() -> None:
    component = components.create("NoOpComponent", "dim=4 backprop-scale=-0.5")
    x, y_deriv = torch.randn(3, 4), torch.randn(3, 4)
    y, _ = component.propagate(x)
    assert torch.equal(y, x)
    torch.testing.assert_close(component.backprop(x, y, y_deriv), -0.5 * y_deriv)
    check_in_place(component, 3)
    check_round_trip(component)
    assert component.info() == "NoOpComponent, dim=4, backprop-scale=-0.5"


@pytest.mark.parametrize(
    "middle",
    ["", "<OderivRms> [ 1 ]\n<OderivCount> 2 ", "<NumDimsSelfRepaired> 0 <NumDimsProcessed> 0 "],
)
def test_old_files_are_read(middle: str) -> None:
    text = f"<NoOpComponent> <Dim> 2 <ValueAvg> [ ]\n<DerivAvg> [ ]\n<Count> 0 {middle}</NoOpComponent> "
    assert from_text(text).info() == "NoOpComponent, dim=2"


TestNoOp = component_contract(
    "NoOpComponent",
    good=["dim=4"],
    rows=3,
    bad_configs=[("dim=x", "'dim' must be an integer, got 'x'", "x")],
    bad_files=[
        ("<Dim> 0 <BackpropScale> 1", "<Dim> must be >= 1, got 0"),
        ("<Dim> 2 <Scale> 1", "expected </NoOpComponent>, got '<Scale>'"),
    ],
)
