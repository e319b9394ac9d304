"""The base of components that draw random numbers: test mode and dropout proportion."""

from __future__ import annotations

import torch
from torch import Tensor

from nnet3.components.base import Component
from nnet3.errors import ComponentError


class RandomComponent(Component):
    """Draws random numbers unless `test_mode` is set."""

    def __init__(self, test_mode: bool = False) -> None:
        super().__init__()
        self.test_mode = test_mode

    def set_test_mode(self, test_mode: bool) -> None:
        """Do without random numbers (True), as for anything but training, or with them (False)."""
        self.test_mode = test_mode

    def replay_state(self) -> list[object] | None:
        return super().replay_state() if self.test_mode else None


class DropoutBase(RandomComponent):
    """Zeroes a proportion of something; the proportion may be changed at any time."""

    def __init__(self, dropout_proportion: float, test_mode: bool = False):
        super().__init__(test_mode)
        self.dropout_proportion = dropout_proportion

    @property
    def dropout_proportion(self) -> float:
        return self._dropout_proportion

    @dropout_proportion.setter
    def dropout_proportion(self, value: float) -> None:
        if not 0.0 <= value <= 1.0:
            raise ComponentError(f"{self.type_name}: the dropout proportion must be in [0, 1], got {value:g}")
        self._dropout_proportion = value

    def set_dropout_proportion(self, proportion: float) -> None:
        self.dropout_proportion = proportion

    def kept(self, *shape: int, like: Tensor) -> Tensor:
        """A mask: 1 with probability 1 - dropout_proportion, else 0."""
        return self.uniform(*shape, like=like).lt_(1.0 - self.dropout_proportion).to(like.dtype)

    def continuous_mask(self, *shape: int, like: Tensor) -> Tensor:
        """Numbers spread evenly around 1, from 1 - 2 p to 1 + 2 p for dropout proportion p."""
        p = self.dropout_proportion
        return self.uniform(*shape, like=like).mul_(4.0 * p).add_(1.0 - 2.0 * p).to(like.dtype)

    def uniform(self, *shape: int, like: Tensor) -> Tensor:
        """Uniform float32 numbers on the device of `like`: fewer bits would make the proportion inexact."""
        return self.rng.uniform_tensor(*shape, like=like.new_empty(0, dtype=torch.float32))
