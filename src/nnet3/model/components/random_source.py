"""Seeded random numbers for components: a run can be repeated exactly."""

from __future__ import annotations

import random

import torch
from torch import Tensor


class RandomSource:
    """Scalars come from a Python generator, tensors from a CPU torch generator: draws are equal on all devices."""

    def __init__(self, seed: int):
        self._seed = seed
        self._made: tuple[random.Random, torch.Generator] | None = None  # at the first draw: most components make none

    def _generators(self) -> tuple[random.Random, torch.Generator]:
        if self._made is None:
            self._made = random.Random(self._seed), torch.Generator().manual_seed(self._seed)
        return self._made

    def uniform(self) -> float:
        """One number in [0, 1)."""
        return self._generators()[0].random()

    def integer(self, low: int, high: int) -> int:
        """An integer between two bounds, both included."""
        return self._generators()[0].randint(low, high)

    def uniform_tensor(self, *shape: int, like: Tensor) -> Tensor:
        """Uniform numbers in [0, 1) with the dtype and on the device of `like`."""
        return torch.rand(*shape, generator=self._generators()[1], dtype=torch.float32).to(like)

    def normal_tensor(self, *shape: int) -> Tensor:
        """Standard normal float32 numbers on the CPU."""
        return torch.randn(*shape, generator=self._generators()[1])

    def __deepcopy__(self, memo: dict[int, object]) -> RandomSource:
        twin = RandomSource(self._seed)
        if self._made is not None:
            scalars, tensors = twin._generators()
            scalars.setstate(self._made[0].getstate())  # numbers: nothing to copy deeply
            tensors.set_state(self._made[1].get_state())
        return twin
