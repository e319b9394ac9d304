"""Seeded random numbers for components: a run can be repeated exactly."""

from __future__ import annotations

import random
from copy import deepcopy
from typing import Any, Protocol

import torch
from torch import Tensor


class SharedNumbers(Protocol):
    """Gives single numbers to several components in turn."""

    def uniform(self) -> float:
        """Returns one number between 0 and 1."""

    def integer(self, low: int, high: int) -> int:
        """Returns an integer between two bounds, both included."""


class RandomSource:
    """SharedNumbers come from a Python generator, or from `scalars` if given; tensors from a CPU torch generator.

    So draws are equal on all devices.
    """

    def __init__(self, seed: int, scalars: SharedNumbers | None = None):
        self._seed, self._scalars = seed, scalars
        self._made: tuple[random.Random, torch.Generator] | None = None  # at the first draw: most components make none

    def _generators(self) -> tuple[random.Random, torch.Generator]:
        if self._made is None:
            self._made = random.Random(self._seed), torch.Generator().manual_seed(self._seed)
        return self._made

    def uniform(self) -> float:
        """Returns one number in [0, 1)."""
        return self._generators()[0].random() if self._scalars is None else self._scalars.uniform()

    def integer(self, low: int, high: int) -> int:
        """Returns an integer between two bounds, both included."""
        if self._scalars is not None:
            return self._scalars.integer(low, high)
        return self._generators()[0].randint(low, high)

    def uniform_tensor(self, *shape: int, like: Tensor) -> Tensor:
        """Draws uniform numbers in [0, 1) with the dtype and on the device of `like`."""
        return torch.rand(*shape, generator=self._generators()[1], dtype=torch.float32).to(like)

    def normal_tensor(self, *shape: int) -> Tensor:
        """Draws standard normal float32 numbers on the CPU."""
        return torch.randn(*shape, generator=self._generators()[1])

    def __deepcopy__(self, memo: dict[int, Any]) -> RandomSource:
        twin = RandomSource(self._seed, deepcopy(self._scalars, memo))
        if self._made is not None:
            scalars, tensors = twin._generators()
            scalars.setstate(self._made[0].getstate())  # numbers: nothing to copy deeply
            tensors.set_state(self._made[1].get_state())
        return twin
