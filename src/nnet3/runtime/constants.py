"""Constants: the tables of a plan, as tensors on a device."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from nnet3.runtime.kernels import Kernels
from nnet3.runtime.plan import Plan


@dataclass
class Constants:
    """The tables of a plan on a device, loaded when first needed; they outlive a change of memory.

    `version` changes when something is another object than before.
    """

    device: torch.device
    indexes: dict[int, Tensor] = field(default_factory=dict)
    of_kernels: dict[tuple[int, int], Any] = field(default_factory=dict)
    version: int = 0

    def index(self, plan: Plan, number: int) -> Tensor:
        """Returns a table of row numbers on the device."""
        if number not in self.indexes:
            # A copy: tables of a plan that was read from a file cannot be written to.
            self.indexes[number] = torch.tensor(plan.indexes[number], device=self.device)
        return self.indexes[number]

    def load(self, plan: Plan, kernels: Kernels, kernel: int, precomputed: int) -> Any:
        """Returns what a kernel has made of its precomputed arrays."""
        key = kernel, precomputed
        if key not in self.of_kernels:
            arrays = plan.precomputed[precomputed] or {}
            self.of_kernels[key] = kernels.find(plan.kernels[kernel]).load_indexes(arrays, self.device)
        return self.of_kernels[key]

    def move(self, plan: Plan, other: Plan, kernels: Kernels) -> None:
        """Hold the tables of the other plan, whose calls are those of this one.

        What is bound to them stays bound: they change in place, as views do, where that can be.
        """
        indexes, self.indexes = self.indexes, {}
        for number, table in indexes.items():
            if plan.indexes[number] is not other.indexes[number]:
                table.set_(self.index(other, number))  # type: ignore[call-overload]
            self.indexes[number] = table
        of_kernels, self.of_kernels = self.of_kernels, {}
        for key, loaded in of_kernels.items():
            if plan.precomputed[key[1]] is other.precomputed[key[1]] or _become(
                loaded, self.load(other, kernels, *key)
            ):
                self.of_kernels[key] = loaded
            else:
                self.version += 1


def _become(loaded: Any, other: Any) -> bool:
    """Give an object the contents of another one, if both are plain objects."""
    if type(loaded) is not type(other) or isinstance(loaded, tuple) or not hasattr(loaded, "__dict__"):
        return loaded is other
    object.__setattr__(loaded, "__dict__", vars(other))
    return True
