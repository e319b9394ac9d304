"""PnormComponent, SumBlockComponent and ElementwiseProductComponent."""

from __future__ import annotations

import torch

from nnet3 import components
from tests.components.contract import component_contract


def test_reductions_compute_their_formulas() -> None:
    x = torch.tensor([[3.0, 4.0, 5.0, 12.0]])
    expected = {
        "PnormComponent": [[5.0, 13.0]],  # neighbours belong together
        "SumBlockComponent": [[8.0, 16.0]],  # blocks lie one behind the other
        "ElementwiseProductComponent": [[15.0, 48.0]],
    }
    for type_name, values in expected.items():
        y, _ = components.create(type_name, "input-dim=4 output-dim=2").propagate(x)
        assert y.tolist() == values


def test_pnorm_of_zeros_has_derivative_zero() -> None:
    component = components.create("PnormComponent", "input-dim=4 output-dim=2")
    x = torch.tensor([[0.0, 0.0, 3.0, 4.0]])
    y, _ = component.propagate(x)
    x_deriv = component.backprop(x, y, torch.ones(1, 2))
    torch.testing.assert_close(x_deriv, torch.tensor([[0, 0, 0.6, 0.8]]))


def test_product_derivative_where_factors_are_zero() -> None:
    component = components.create("ElementwiseProductComponent", "input-dim=3 output-dim=1")
    x = torch.tensor([[0.0, 2.0, 3.0], [0.0, 0.0, 3.0]])
    x_deriv = component.backprop(x, torch.zeros(2, 1), torch.ones(2, 1))
    assert x_deriv.tolist() == [[6, 0, 0], [0, 0, 0]]


TestPnorm = component_contract(
    "PnormComponent",
    good=["input-dim=12 output-dim=4", "input-dim=3 output-dim=3"],
    rows=5,
    bad_configs=[
        ("input-dim=4", "'output-dim=' is missing", ""),
        ("input-dim=0 output-dim=2", "'input-dim' must be >= 1", "0"),
        ("input-dim=5 output-dim=2", "'output-dim' must divide input-dim=5, got 2", "2"),
    ],
    bad_files=[
        ("<InputDim> 5 <OutputDim> 2", "<OutputDim> must divide input-dim=5, got 2"),
        ("<InputDim> 4 <OutputDim> 0", "<OutputDim> must be >= 1, got 0"),
    ],
)
TestSumBlock = component_contract(
    "SumBlockComponent",
    good=["input-dim=12 output-dim=4", "input-dim=6 output-dim=6 scale=-0.5"],
    rows=5,
    bad_configs=[
        ("input-dim=5 output-dim=2", "must divide input-dim=5, got 2", "2"),
        ("input-dim=4 output-dim=2 scale=x", "'scale' must be a number", "x"),
    ],
    bad_files=[
        ("<InputDim> 4 <OutputDim> 2", "expected <Scale>, got '</SumBlockComponent>'"),
    ],
)
TestElementwiseProduct = component_contract(
    "ElementwiseProductComponent",
    good=["input-dim=8 output-dim=4", "input-dim=12 output-dim=4", "input-dim=5 output-dim=1"],
    rows=5,
    bad_configs=[
        ("input-dim=4 output-dim=4", "'output-dim' must be at most half of input-dim=4", "4"),
    ],
    bad_files=[
        ("<InputDim> 4 <OutputDim> 4", "<OutputDim> must be at most half of input-dim=4"),
    ],
)
