"""What types of components declare to proofs, against numbers in float64. Types that look at indexes are not here."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from nnet3 import components
from nnet3.components import Component, Properties
from nnet3.model.components.kernel_info import kernel_info
from tools.component_samples import SAMPLES

_ROWS = 6
SIMPLE = sorted(
    name for name, config in SAMPLES.items() if Properties.SIMPLE & components.create(name, config).properties
)

NOT_DECLARED = {"ConstantFunctionComponent", "DropoutComponent"}  # linear, but of nothing, and in test mode only
SELF_REPAIRING = {"GruNonlinearityComponent", "LstmNonlinearityComponent"}  # at these numbers


def sample(name: str, *, test_mode: bool = False) -> Component:
    made = components.create(name, SAMPLES[name], seed=1).to(dtype=torch.float64)
    if made.has_running_statistics:
        made.store_stats(x := numbers(20, made.input_dim, 9), *_forward(made, x))
    made.set_test_mode(test_mode)
    return made


def _forward(component: Component, x: Tensor) -> tuple[Tensor, Any]:
    return component.propagate(x)


def numbers(rows: int, dim: int, seed: int) -> Tensor:
    return torch.randn(rows, dim, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) + 0.1


def value(component: Component, x: Tensor) -> Tensor:
    component.seed_random(3)
    return component.propagate(x)[0]


def derivative(component: Component, x: Tensor, dy: Tensor, *, learning: bool = False) -> Tensor:
    component.seed_random(3)
    y, memo = component.propagate(x)
    component.seed_random(4)
    return component.backprop(x, y, dy, memo, component.gradient_copy() if learning else None)


def changed_rows(one: Tensor, other: Tensor) -> list[int]:
    return torch.nonzero((one - other).abs().amax(1) > 1e-12).flatten().tolist()


@pytest.mark.parametrize("test_mode", [False, True])
@pytest.mark.parametrize("name", SIMPLE)
def test_linear_types_are_affine_and_no_others_are(name: str, test_mode: bool) -> None:
    component = sample(name, test_mode=test_mode)
    info = kernel_info("k", component, 1)
    one, other = (numbers(_ROWS, component.input_dim, seed) for seed in (1, 2))
    mixed = value(component, 0.3 * one - 1.7 * other)
    zero = value(component, torch.zeros_like(one))
    expected = 0.3 * value(component, one) - 1.7 * value(component, other) + 2.4 * zero
    if info.inputs[0].is_linear:
        assert info.rows_apart
        torch.testing.assert_close(mixed, expected)
    elif name not in NOT_DECLARED:
        assert (mixed - expected).abs().max() > 1e-3, "it is affine: declare is_linear"


@pytest.mark.parametrize("test_mode", [False, True])
@pytest.mark.parametrize("name", SIMPLE)
def test_rows_depend_on_their_own_row_alone_if_it_is_declared(name: str, test_mode: bool) -> None:
    component = sample(name, test_mode=test_mode)
    info = kernel_info("k", component, 1)
    x, dy = numbers(_ROWS, component.input_dim, 1), numbers(_ROWS, component.output_dim, 2)
    other, other_dy = x.clone(), dy.clone()
    other[2] = numbers(1, component.input_dim, 5)
    other_dy[2] = numbers(1, component.output_dim, 6)
    forward = changed_rows(value(component, x), value(component, other))
    backward = changed_rows(derivative(component, x, dy), derivative(component, other, other_dy))
    if info.rows_apart:
        assert set(forward) <= {2}
    else:
        assert forward == list(range(_ROWS))
    if info.backprop_rows_apart:
        assert set(backward) <= {2}


@pytest.mark.parametrize("learning", [False, True])
@pytest.mark.parametrize("name", SIMPLE)
def test_derivatives_are_linear_if_it_is_declared(name: str, learning: bool) -> None:
    component = sample(name)
    x = numbers(_ROWS, component.input_dim, 1)
    one, other = (numbers(_ROWS, component.output_dim, seed) for seed in (2, 3))
    mixed = derivative(component, x, 30.0 * one - 17.0 * other, learning=learning)
    expected = 30.0 * derivative(component, x, one, learning=learning)
    expected -= 17.0 * derivative(component, x, other, learning=learning)
    if kernel_info("k", component, 1).backprop_is_linear:
        torch.testing.assert_close(mixed, expected)
        assert not derivative(component, x, torch.zeros_like(one), learning=learning).any()
    elif (name in SELF_REPAIRING and learning) or name == "ClipGradientComponent":
        assert (mixed - expected).abs().max() > 1e-8


@pytest.mark.parametrize("name", SIMPLE)
def test_a_backward_pass_changes_something_only_if_the_kernel_learns(name: str) -> None:
    component = sample(name)
    info = kernel_info("k", component, 1)
    x, dy = numbers(_ROWS, component.input_dim, 1), numbers(_ROWS, component.output_dim, 2)
    y, memo = component.propagate(x)
    updated = component.gradient_copy()
    before = updated.info(), *(tensor.clone() for tensor in updated.parameters().values())
    component.backprop(x, y, dy, memo, updated)
    after = updated.info(), *updated.parameters().values()
    is_changed = any(
        not torch.equal(a, b) if isinstance(a, Tensor) else a != b for a, b in zip(before, after, strict=True)
    )
    assert info.learns or not is_changed
    counted = [getattr(leaf, key) for _, leaf in updated.leaves() for key in leaf.statistic_names]
    is_counted = any(bool(torch.as_tensor(sums).any()) for sums in counted)  # they were zero
    assert info.counts_backward or not (info.updatable and is_counted)


@pytest.mark.parametrize("name", SIMPLE)
def test_random_types_give_other_numbers_each_time_and_no_others_do(name: str) -> None:
    component = sample(name)
    x = numbers(50, component.input_dim, 1)
    differs = not torch.equal(component.propagate(x)[0], component.propagate(x)[0])
    assert differs == kernel_info("k", component, 1).is_random
