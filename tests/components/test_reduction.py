"""PnormComponent, SumBlockComponent and ElementwiseProductComponent."""

from __future__ import annotations

import pytest
import torch

from nnet3 import components
from tests.components.component_text import check_config_error, check_file_error, check_round_trip
from tests.components.finite_differences import check_derivatives

CASES = [
    ("PnormComponent", "input-dim=12 output-dim=4"),
    ("PnormComponent", "input-dim=3 output-dim=3"),
    ("SumBlockComponent", "input-dim=12 output-dim=4"),
    ("SumBlockComponent", "input-dim=6 output-dim=6 scale=-0.5"),
    ("ElementwiseProductComponent", "input-dim=8 output-dim=4"),
    ("ElementwiseProductComponent", "input-dim=12 output-dim=4"),
    ("ElementwiseProductComponent", "input-dim=5 output-dim=1"),
]


@pytest.mark.parametrize(("type_name", "config"), CASES)
def test_derivatives(type_name: str, config: str) -> None:
    component = components.create(type_name, config)
    check_derivatives(component, 5)
    check_round_trip(component)


def test_values() -> None:
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


@pytest.mark.parametrize(
    ("type_name", "config", "message", "caret"),
    [
        ("PnormComponent", "input-dim=4", "'output-dim=' is missing", ""),
        ("PnormComponent", "input-dim=0 output-dim=2", "'input-dim' must be >= 1", "0"),
        ("PnormComponent", "input-dim=5 output-dim=2", "'output-dim' must divide input-dim=5, got 2", "2"),
        ("SumBlockComponent", "input-dim=5 output-dim=2", "must divide input-dim=5, got 2", "2"),
        ("SumBlockComponent", "input-dim=4 output-dim=2 scale=x", "'scale' must be a number", "x"),
        (
            "ElementwiseProductComponent",
            "input-dim=4 output-dim=4",
            "'output-dim' must be at most half of input-dim=4",
            "4",
        ),
    ],
)
def test_bad_configs(type_name: str, config: str, message: str, caret: str) -> None:
    check_config_error(type_name, config, message, caret)


@pytest.mark.parametrize(
    ("type_name", "fields", "message"),
    [
        ("PnormComponent", "<InputDim> 5 <OutputDim> 2", "<OutputDim> must divide input-dim=5, got 2"),
        ("PnormComponent", "<InputDim> 4 <OutputDim> 0", "<OutputDim> must be >= 1, got 0"),
        ("SumBlockComponent", "<InputDim> 4 <OutputDim> 2", "expected <Scale>, got '</SumBlockComponent>'"),
        (
            "ElementwiseProductComponent",
            "<InputDim> 4 <OutputDim> 4",
            "<OutputDim> must be at most half of input-dim=4",
        ),
    ],
)
def test_bad_files(type_name: str, fields: str, message: str) -> None:
    check_file_error(f"<{type_name}> {fields} </{type_name}> ", message)
