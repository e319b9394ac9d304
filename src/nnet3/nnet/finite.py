"""NaNs and infinities among the numbers of a network: a model that has them was damaged in training."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from nnet3.components import Component


def num_not_finite(component: Component) -> int:
    """How many of a component's parameters, constants and statistics are NaN or infinite."""
    names = (*component.constant_names, *component.statistic_names)
    values = [*component.parameters().values(), *(getattr(component, name) for name in names)]
    return sum(_count(value) for value in values if isinstance(value, Tensor) and value.is_floating_point())


def _count(tensor: Tensor) -> int:
    """The sum is finite unless some element is not (or it overflows): most tensors are read only once."""
    if torch.isfinite(tensor.detach().sum(dtype=torch.float64)):
        return 0
    return int((~torch.isfinite(tensor)).sum())


def not_finite_warnings(components: Mapping[str, Component]) -> list[str]:
    """One warning for each component that has NaNs or infinities, with their number."""
    warnings = []
    for name, component in components.items():
        count = num_not_finite(component)
        if count:
            numbers = "1 number that is" if count == 1 else f"{count} numbers that are"
            warnings.append(f"component '{name}' has {numbers} NaN or infinite: its outputs cannot be trusted")
    return warnings
