"""MaxpoolingComponent against a slow and obvious one."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from torch import Tensor

from nnet3 import components
from nnet3.model.components.max_pooling import MaxpoolingComponent
from tests.components.component_text import check_config_error, check_file_error, check_round_trip, to_text
from tests.components.finite_differences import check_derivatives


def create(dims: tuple[int, ...], sizes: tuple[int, ...], steps: tuple[int, ...]) -> MaxpoolingComponent:
    values = {"input-{}-dim": dims, "pool-{}-size": sizes, "pool-{}-step": steps}
    config = " ".join(f"{key.format('xyz'[i])}={value[i]}" for key, value in values.items() for i in range(3))
    component = components.create("MaxpoolingComponent", config)
    assert isinstance(component, MaxpoolingComponent)
    return component


CASES = [
    ((5, 6, 5), (3, 2, 5), (2, 1, 2)),  # overlapping, each axis otherwise
    ((4, 4, 4), (2, 2, 2), (2, 2, 2)),  # side by side
    ((7, 1, 3), (7, 1, 1), (7, 1, 1)),
    ((6, 5, 1), (4, 3, 1), (1, 2, 1)),
    ((8, 3, 3), (5, 3, 2), (3, 1, 1)),  # the last part of a box is shorter than the step
]


def slow_boxes(component: MaxpoolingComponent) -> list[list[int]]:
    """The columns of each box."""
    ranges = zip(component.num_pools, component.sizes, component.steps, strict=True)
    axes = [[range(pool * step, pool * step + size) for pool in range(count)] for count, size, step in ranges]
    _, y_dim, z_dim = component.input_dims
    return [[x * y_dim * z_dim + y * z_dim + z for x, y, z in product(*box)] for box in product(*axes)]


def slow_backward(component: MaxpoolingComponent, x: Tensor, y: Tensor, y_deriv: Tensor) -> Tensor:
    x_deriv = torch.zeros_like(x)
    for pool, columns in enumerate(slow_boxes(component)):
        largest, deriv = y[:, pool : pool + 1], y_deriv[:, pool : pool + 1]
        x_deriv[:, columns] += torch.where(x[:, columns] == largest, deriv, 0.0)
    return x_deriv


@pytest.mark.parametrize("shape", CASES)
def test_against_the_definition(shape: tuple[tuple[int, ...], ...]) -> None:
    component = create(*shape)
    x = torch.randint(0, 4, (6, component.input_dim)).float()  # with many ties
    y, _ = component.propagate(x)
    assert torch.equal(y, torch.stack([x[:, columns].amax(1) for columns in slow_boxes(component)], 1))
    y_deriv = torch.randn(6, component.output_dim)
    torch.testing.assert_close(component.backprop(x, y, y_deriv), slow_backward(component, x, y, y_deriv))


@pytest.mark.parametrize("shape", CASES)
def test_derivatives_are_those_of_finite_differences(shape: tuple[tuple[int, ...], ...]) -> None:
    check_derivatives(create(*shape), 3)
    check_round_trip(create(*shape))


def test_the_text_form_has_all_sizes() -> None:
    assert to_text(create((4, 3, 2), (2, 1, 2), (1, 1, 2))) == (
        "<MaxpoolingComponent> <InputXDim> 4 <InputYDim> 3 <InputZDim> 2 <PoolXSize> 2 <PoolYSize> 1 <PoolZSize> 2 "
        "<PoolXStep> 1 <PoolYStep> 1 <PoolZStep> 2 </MaxpoolingComponent> "
    )


def test_there_is_a_least_output() -> None:
    component = create((1, 1, 2), (1, 1, 2), (1, 1, 1))
    y, _ = component.propagate(torch.full((1, 2), -torch.inf))
    assert y.tolist() == [[pytest.approx(-1e20)]]


GOOD = {"x": (4, 2, 1), "y": (3, 3, 3), "z": (6, 2, 2)}  # dim, size, step


@pytest.mark.parametrize(
    ("axis", "values", "config_message", "file_message"),
    [
        ("x", (0, 2, 1), "'input-x-dim' must be >= 1, got 0", "<InputXDim> must be >= 1, got 0"),
        ("y", (3, 4, 3), "'pool-y-size' must be <= input-y-dim=3, got 4", "<PoolYSize> must be <="),
        ("z", (6, 2, 3), "'pool-z-step' must be <= pool-z-size=2, got 3", "<PoolZStep> must be <="),
        ("x", (5, 2, 2), "'pool-x-step' must divide input-x-dim - pool-x-size = 3, got 2", "<PoolXStep> must divide"),
        ("x", (2**31 - 1, 1, 1), "'input-z-dim' times the other", "<InputZDim> times the other input dimensions"),
    ],
)
def test_impossible_sizes_are_refused_in_configs_and_files(
    axis: str, values: tuple[int, ...], config_message: str, file_message: str
) -> None:
    axes = {**GOOD, axis: values}
    keys = ("input-{}-dim", "pool-{}-size", "pool-{}-step")
    config = {key.format(a): axes[a][i] for i, key in enumerate(keys) for a in axes}
    check_config_error("MaxpoolingComponent", " ".join(f"{k}={v}" for k, v in config.items()), config_message)
    fields = " ".join(f"<{key.title().replace('-', '')}> {value}" for key, value in config.items())
    check_file_error(f"<MaxpoolingComponent> {fields} </MaxpoolingComponent> ", file_message)
