"""Two components as one: the same result as one after the other, or None where they do not fit."""

from __future__ import annotations

import pytest
import torch

from nnet3 import components
from nnet3.components import Component
from nnet3.model.components import merging
from nnet3.model.components.batch_norm import BatchNormComponent

AFFINES = {
    "AffineComponent": "input-dim={} output-dim=5 bias-stddev=1 learning-rate=0.5",
    "NaturalGradientAffineComponent": "input-dim={} output-dim=5 bias-stddev=1",
    "LinearComponent": "input-dim={} output-dim=5 learning-rate=0.25",
}


def _batch_norm(dim: int) -> BatchNormComponent:
    component = components.create("BatchNormComponent", f"dim={dim} target-rms=0.5")
    assert isinstance(component, BatchNormComponent)
    x = torch.randn(50, dim) * 3 + 1
    y, memo = component.propagate(x)
    component.store_stats(x, y, memo)
    component.set_test_mode(True)
    return component


def _check(first: Component, second: Component, merged: Component | None, copies: int = 1) -> None:
    """The second reads `copies` outputs of the first side by side."""
    assert merged is not None
    x = torch.randn(7, copies, first.input_dim)
    between = first.propagate(x.flatten(0, 1))[0].view(7, -1)
    torch.testing.assert_close(merged.propagate(x.flatten(1))[0], second.propagate(between)[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("copies", [1, 3])
@pytest.mark.parametrize("name", AFFINES)
def test_batch_norm_goes_into_what_reads_it(name: str, copies: int) -> None:
    first, second = _batch_norm(4), components.create(name, AFFINES[name].format(4 * copies))
    before = second.copy()
    merged = merging.merge_batchnorm(first, second)
    _check(first, second, merged, copies)
    assert merged is not None
    assert merged.updatable is not None
    assert merged.updatable.learning_rate == second.updatable.learning_rate
    assert all(torch.equal(p, before.parameters()[key]) for key, p in second.parameters().items())


def test_batch_norm_that_is_training_is_left() -> None:
    first = _batch_norm(4)
    first.set_test_mode(False)
    assert merging.merge_batchnorm(first, components.create("AffineComponent", "input-dim=4 output-dim=2")) is None
    assert merging.merge_batchnorm(_batch_norm(4), components.create("TanhComponent", "dim=4")) is None


@pytest.mark.parametrize("name", AFFINES)
def test_dropout_in_test_mode_goes_into_what_reads_it(name: str) -> None:
    first = components.create("DropoutComponent", "dim=4 dropout-proportion=0.25 test-mode=true")
    second = components.create(name, AFFINES[name].format(4))
    merged = merging.merge_dropout(first, second)
    assert merged is not None
    weights = second.parameters()[second.parameter_names[0]]
    torch.testing.assert_close(merged.parameters()[merged.parameter_names[0]], 0.75 * weights)
    if name == "LinearComponent":
        _check(first, second, merged)


def test_dropout_of_nothing_leaves_the_second_itself() -> None:
    first = components.create("DropoutComponent", "dim=4 dropout-proportion=0 test-mode=true")
    second = components.create("AffineComponent", "input-dim=4 output-dim=2")
    assert merging.merge_dropout(first, second) is second
    assert merging.merge_dropout(components.create("TanhComponent", "dim=4"), second) is None


@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize("name", ["AffineComponent", "FixedAffineComponent"])
def test_affine_maps_are_multiplied(name: str, copies: int) -> None:
    first = components.create(name, "input-dim=3 output-dim=4")
    second = components.create("AffineComponent", f"input-dim={4 * copies} output-dim=2 bias-stddev=1")
    _check(first, second, merging.merge_affine(first, second), copies)


def test_two_affine_maps_through_a_bottleneck_stay_two() -> None:
    first = components.create("AffineComponent", "input-dim=5 output-dim=4")
    assert merging.merge_affine(first, components.create("AffineComponent", "input-dim=4 output-dim=9")) is None
    assert merging.merge_affine(first, components.create("TanhComponent", "dim=4")) is None


def test_a_scale_goes_into_the_map_before_it() -> None:
    first = components.create("AffineComponent", "input-dim=5 output-dim=4 bias-stddev=1")
    second = components.create("FixedScaleComponent", "dim=4")
    _check(first, second, merging.merge_scale(first, second))
    assert merging.merge_scale(first, components.create("FixedScaleComponent", "dim=8")) is None
    assert merging.merge_scale(second, second) is None
