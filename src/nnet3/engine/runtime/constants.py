"""Constants: the tables of a plan, as tensors on a device."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from nnet3.engine.runtime.kernels import Kernels
from nnet3.engine.runtime.plan import Plan


@dataclass
class Constants:
    """The tables of a plan on a device, loaded when first needed; they outlive a change of memory."""

    device: torch.device
    indexes: dict[int, Tensor] = field(default_factory=dict)
    of_kernels: dict[tuple[int, int], Any] = field(default_factory=dict)

    def index(self, plan: Plan, number: int) -> Tensor:
        """Returns a table of row numbers on the device."""
        if number not in self.indexes:
            # A copy: tables of a plan that was read from a file cannot be written to.
            self.indexes[number] = torch.tensor(plan.indexes[number], device=self.device)
        return self.indexes[number]

    def load(self, plan: Plan, kernels: Kernels, kernel: int, precomputed: int) -> Any:
        """Returns the kernel's own representation of its precomputed arrays."""
        key = kernel, precomputed
        if key not in self.of_kernels:
            arrays = plan.precomputed[precomputed] or {}
            self.of_kernels[key] = kernels.find(plan.kernels[kernel]).load_indexes(arrays, self.device)
        return self.of_kernels[key]
