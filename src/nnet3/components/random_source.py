"""Seeded random numbers for components: a run can be repeated exactly."""

from __future__ import annotations

import random

import torch
from torch import Tensor


class RandomSource:
    """Scalars come from a Python generator, tensors from a CPU torch one, so that every device sees the same draws."""

    def __init__(self, seed: int):
        self._scalars = random.Random(seed)
        self._tensors = torch.Generator().manual_seed(seed)

    def uniform(self) -> float:
        """One number in [0, 1)."""
        return self._scalars.random()

    def integer(self, low: int, high: int) -> int:
        """One integer, both ends included."""
        return self._scalars.randint(low, high)

    def uniform_tensor(self, *shape: int, like: Tensor) -> Tensor:
        """Uniform numbers in [0, 1) with the dtype and on the device of `like`."""
        return torch.rand(*shape, generator=self._tensors, dtype=torch.float32).to(like)

    def normal_tensor(self, *shape: int) -> Tensor:
        """Standard normal float32 numbers on the CPU."""
        return torch.randn(*shape, generator=self._tensors)

    def __deepcopy__(self, memo: dict[int, object]) -> RandomSource:
        twin = RandomSource(0)
        twin._scalars.setstate(self._scalars.getstate())  # numbers: nothing to copy deeply
        twin._tensors.set_state(self._tensors.get_state())
        return twin
