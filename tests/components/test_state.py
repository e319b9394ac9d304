"""Scaling, adding, copying and converting components, whatever they mean."""

from __future__ import annotations

import pytest
import torch

from nnet3 import components
from nnet3.components import Component

WITH_STATISTICS = {
    "TanhComponent": "dim=3",
    "BatchNormComponent": "dim=3",
    "ClipGradientComponent": "dim=3",
    "GruNonlinearityComponent": "cell-dim=3",
}


def _used(type_name: str, dtype: torch.dtype = torch.float32) -> Component:
    """A component that has stored statistics of a minibatch, forward and backward."""
    component = components.create(type_name, WITH_STATISTICS[type_name], seed=1).to(dtype)
    component.seed_random(1)
    x = 1000 * torch.randn(8, component.input_dim, dtype=dtype)
    y, memo = component.propagate(x)
    component.store_stats(x, y, memo)
    component.backprop(x, y, torch.randn_like(y), memo, to_update=component)
    return component


def _statistics(component: Component) -> dict[str, torch.Tensor]:
    values = {name: torch.as_tensor(getattr(component, name)) for name in component.statistic_names}
    return {name: value.clone() for name, value in values.items()}


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize("type_name", WITH_STATISTICS)
def test_statistics_keep_their_precision(type_name: str, dtype: torch.dtype) -> None:
    component = _used(type_name)
    before = _statistics(component)
    tensors = {name: getattr(component, name) for name in component.statistic_names}
    assert any(isinstance(tensor, torch.Tensor) and tensor.dtype == torch.float64 for tensor in tensors.values())
    component.to(dtype)
    assert all(tensor.dtype == dtype for tensor in component.parameters().values())
    for name, value in _statistics(component).items():
        assert value.dtype == before[name].dtype
        assert torch.equal(value, before[name])
        assert getattr(component, name) is tensors[name] or not isinstance(tensors[name], torch.Tensor)


@pytest.mark.parametrize("type_name", WITH_STATISTICS)
def test_scaling_and_adding_are_linear(type_name: str) -> None:
    one, other = _used(type_name, torch.float64), _used(type_name, torch.float64)
    sums = one.copy()
    sums.scale_(0.5)
    sums.add_(-3.0, other)
    mine, theirs = ({**_statistics(c), **c.parameters()} for c in (one, other))
    for name, value in {**_statistics(sums), **sums.parameters()}.items():
        expected = mine[name] if name in one.counter_names else 0.5 * mine[name] - 3.0 * theirs[name]
        torch.testing.assert_close(value, expected)
    scaled = one.copy()
    scaled.scale_stats_(2.0)
    for name, value in scaled.parameters().items():
        assert torch.equal(value, one.parameters()[name])
    for name, value in _statistics(scaled).items():
        torch.testing.assert_close(value, (1.0 if name in one.counter_names else 2.0) * mine[name])
    scaled.zero_stats()
    assert not any(value.any() for value in _statistics(scaled).values())


def test_zero_times_nan_is_zero() -> None:
    component = _used("GruNonlinearityComponent")
    component.parameters()["w_h"].fill_(float("nan"))
    component.value_sum.fill_(float("inf"))
    component.scale_(0.0)
    assert not component.parameters()["w_h"].any()
    assert not component.value_sum.any()
