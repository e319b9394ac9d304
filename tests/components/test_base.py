"""What every component does when it is used alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nnet3 import components
from nnet3.errors import ComponentError
from nnet3.model.components.nonlinearity import TanhComponent


def test_matrices_of_any_kind() -> None:
    affine = components.create("AffineComponent", "input-dim=3 output-dim=2")
    x = torch.randn(4, 3)
    y, memo = affine.propagate(x)
    same = [x.double(), x.numpy(), x.double().numpy(), np.asfortranarray(x.numpy()), x.repeat_interleave(2, 0)[::2]]
    for matrix in same:
        torch.testing.assert_close(affine.propagate(matrix)[0], y)
        torch.testing.assert_close(affine.backprop(matrix, y, y.double(), memo), affine.backprop(x, y, y, memo))
    assert affine.propagate(x[:0])[0].shape == (0, 2)
    tanh = components.create("TanhComponent", "dim=3")
    assert tanh.propagate(x.double())[0].dtype == torch.float64  # it has no parameters


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (torch.zeros(2, 4), r"AffineComponent: input must be \(rows, 3\), got \(2, 4\)"),
        (torch.zeros(3), r"must be \(rows, 3\), got \(3,\)"),
        (torch.zeros(2, 3).bool(), "input: expected floats or integers, got torch.bool"),
        ([[1.0, 2.0, 3.0]], "AffineComponent: input: expected a tensor or an array, got list"),
    ],
)
def test_wrong_matrices_are_refused(matrix: torch.Tensor, message: str) -> None:
    with pytest.raises(ComponentError, match=message):
        components.create("AffineComponent", "input-dim=3 output-dim=2").propagate(matrix)


def test_operations_of_native_code_hold_for_the_forward_beside_them() -> None:
    class Doubled(TanhComponent):
        def forward(self, x: torch.Tensor, y: torch.Tensor, indexes: None = None) -> None:
            super().forward(x, y)
            y.mul_(2.0)

    class Named(TanhComponent):
        pass

    x, y = torch.randn(2, 3), torch.empty(2, 3)
    for kind, is_native in ((TanhComponent, True), (Named, True), (Doubled, False)):
        component = kind(3)
        assert component.native_forward([], y, None) is None
        assert (component.native_forward([x], y, None) is not None) is is_native


@pytest.mark.parametrize(
    ("type_name", "config"), [("TanhComponent", "dim=3"), ("AffineComponent", "input-dim=4 output-dim=2")]
)
def test_only_the_like_can_be_updated(type_name: str, config: str) -> None:
    affine = components.create("AffineComponent", "input-dim=3 output-dim=2")
    x = torch.randn(4, 3)
    y, memo = affine.propagate(x)
    other = components.create(type_name, config)
    with pytest.raises(ComponentError, match=f"cannot update <{type_name} .*, which is not of the same type and size"):
        affine.backprop(x, y, y, memo, to_update=other)
