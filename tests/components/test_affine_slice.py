"""The product of some columns is that of the component with zeros in the others."""

from __future__ import annotations

import pytest
import torch

from nnet3.base.native.fastest import Fastest
from nnet3.components import COMPONENT_TYPES
from nnet3.model.components import fixed
from tests.seeds import RANDOM


@pytest.mark.parametrize("name", ["AffineComponent", "NaturalGradientAffineComponent", "LinearComponent"])
def test_slices_add_up(name: str) -> None:
    weights = torch.from_numpy(RANDOM.normal(size=(4, 7)))
    bias = [] if name == "LinearComponent" else [torch.from_numpy(RANDOM.normal(size=4))]
    component = COMPONENT_TYPES[name](weights, *bias)
    x = torch.from_numpy(RANDOM.normal(size=(5, 7)))
    whole, y = torch.empty(5, 4, dtype=torch.float64), torch.empty(5, 4, dtype=torch.float64)
    component.forward(x, whole)
    component.slice(2, 7, adds=False, goes_backward=False).run_forward([x[:, 2:]], y, None)
    component.slice(0, 2, adds=True, goes_backward=False).run_forward([x[:, :2], y], y, None)  # in place
    torch.testing.assert_close(y, whole)


@pytest.mark.parametrize("name", ["AffineComponent", "LinearComponent", "FixedAffineComponent"])
def test_the_derivative_of_a_slice_is_that_of_its_columns(name: str) -> None:
    bias = [] if name == "LinearComponent" else [torch.randn(4)]
    component = COMPONENT_TYPES[name](torch.randn(4, 7), *bias)
    x, y_deriv, nothing = torch.randn(5, 7), torch.randn(5, 4), torch.empty(0, 0)
    whole, some = torch.empty(5, 7), torch.zeros(5, 9)
    component.backward(x, nothing, y_deriv, None, None, whole)
    columns, derivs = component.slice(2, 6, adds=False, goes_backward=False), [some[:, 1:5]]
    columns.run_backward([nothing], nothing, y_deriv, None, None, derivs, [False], None)
    torch.testing.assert_close(some[:, 1:5], whole[:, 2:6])
    assert not some[:, [0, 5, 6, 7, 8]].any()


def test_a_slice_sees_changes_of_the_parameters() -> None:
    component = COMPONENT_TYPES["LinearComponent"](torch.ones(1, 3))
    columns, y = component.slice(1, 3, adds=False, goes_backward=False), torch.empty(1, 1)
    component.params = 2 * torch.ones(1, 3)
    columns.run_forward([torch.ones(1, 2)], y, None)
    assert y.item() == 4.0
    assert columns.parameters().keys() == {"linear_params"}


@pytest.mark.parametrize("packed_by", ["panels", ""])
@pytest.mark.parametrize("outputs", [4, 64])
def test_a_slice_without_inputs_gives_the_weights_that_it_takes(
    packed_by: str, outputs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fixed, "fastest", lambda: Fastest(packed_by, changing=""))
    component = COMPONENT_TYPES["AffineComponent"](torch.randn(outputs, 7), torch.randn(outputs))
    columns, x, y = component.slice(2, 7, adds=True, goes_backward=False), torch.randn(3, 5), torch.randn(3, outputs)
    packed, other = torch.empty(5, outputs), torch.empty(3, outputs)
    columns.run_forward([], packed, None)
    columns.run_forward([x, y], other, None)
    columns.run_forward([x, y, packed], y, None)
    torch.testing.assert_close(y, other)
