"""The gradient check of Section 1.3: each element moved a little, (1.5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from nnet3.cn.network import Network
from nnet3.errors import check_kind


@dataclass(frozen=True)
class CheckedElement:
    """One element of a parameter: the gradient by Algorithm 1.4 and by differences."""

    parameter: str
    row: int
    col: int
    gradient: float
    estimate: float
    relative_error: float


class GradientCheck(list[CheckedElement]):
    """The worst element of each parameter, worst first; prints as a table."""

    def __str__(self) -> str:
        width = max([9, *(len(row.parameter) for row in self)])
        lines = [f"{'parameter':<{width}}  element      gradient       estimate       relative error"]
        for row in self:
            position = f"({row.row}, {row.col})"
            lines.append(
                f"{row.parameter:<{width}}  {position:<11}  {row.gradient:<13.6g}  {row.estimate:<13.6g}  "
                f"{row.relative_error:.2e}"
            )
        return "\n".join(lines)

    @property
    def worst(self) -> float:
        """The greatest relative error, 0 if nothing was checked."""
        return max([0.0, *(row.relative_error for row in self)])


def check_gradients(
    network: Network, batch: Mapping[str, Any], *, epsilon: float = 1e-4, max_elements: int = 100, seed: int = 0
) -> GradientCheck:
    """Compares gradients with (J(w + epsilon) - J(w - epsilon)) / (2 epsilon), on a float64 copy of the network.

    At most `max_elements` of each parameter are checked, chosen by `seed`. Prints a table with the worst element of
    each parameter, worst first, and returns the table. The relative error is |a - b| / max(|a|, |b|, scale), where
    scale is 1e-4 of the greatest gradient of the parameter, so that rounding in zeros does not count. Dropout keeps one
    mask.
    """
    check_kind(network, Network, "what is checked", "a network")
    double = network.copy().to(torch.float64)
    mask_seed = seed + 1

    def criterion_and_gradients() -> tuple[float, dict[str, Any]]:
        double.seed_random(mask_seed)
        return double.criterion_and_gradients(batch)

    def criterion() -> float:
        double.seed_random(mask_seed)
        return double.criterion(batch, training=True)

    _, gradients = criterion_and_gradients()
    random = np.random.default_rng(seed)
    rows = []
    for name, gradient in gradients.items():
        value = double.parameters()[name]
        positions = np.arange(value.size)
        if value.size > max_elements:
            positions = np.sort(random.choice(value.size, max_elements, replace=False))
        scale = max(1e-4 * float(np.abs(gradient).max()), 1e-12)
        found = []
        for position in positions.tolist():
            row, col = divmod(position, value.size // len(value))
            ends = []
            for step in (epsilon, -epsilon):
                moved = value.copy()
                moved.flat[position] += step
                double.set_parameters({name: moved})
                ends.append(criterion())
            estimate = (ends[0] - ends[1]) / (2 * epsilon)
            ours = float(gradient.flat[position])
            error = abs(ours - estimate) / max(abs(ours), abs(estimate), scale)
            found.append(CheckedElement(name, row, col, ours, estimate, error))
        double.set_parameters({name: value})
        rows.append(max(found, key=lambda element: element.relative_error))
    check = GradientCheck(sorted(rows, key=lambda element: -element.relative_error))
    print(check)
    return check
