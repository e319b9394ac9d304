"""Two modules that should do the same."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


def gradients(module: nn.Module, x: Tensor, **arguments: Any) -> dict[str, Tensor]:
    """Output, derivative of the input and gradients of a sum of squares, by name."""
    module.zero_grad()
    x = x.clone().requires_grad_()
    torch.manual_seed(0)
    output = module(x, **arguments)
    output.square().sum().backward()
    assert x.grad is not None
    named = {name: p.grad for name, p in module.named_parameters() if p.grad is not None}
    return {"output": output.detach(), "x": x.grad, **named}


def assert_alike(found: dict[str, Tensor], expected: dict[str, Tensor], tolerance: float = 1e-5) -> None:
    """The same for all names that both have."""
    for name in found.keys() & expected.keys():
        torch.testing.assert_close(found[name], expected[name], atol=tolerance, rtol=10 * tolerance)
