"""Random numbers from PyTorch's own generator, so that `torch.manual_seed` says what dropout does."""

from __future__ import annotations

import torch
from torch import Tensor

from nnet3.components import RandomSource


class TorchRandomSource(RandomSource):
    """Draws everything from the default generator of the CPU."""

    def __init__(self) -> None:
        super().__init__(0)

    def uniform(self) -> float:
        return float(torch.rand(()))

    def integer(self, low: int, high: int) -> int:
        return int(torch.randint(low, high + 1, ()))

    def uniform_tensor(self, *shape: int, like: Tensor) -> Tensor:
        return torch.rand(*shape, dtype=torch.float32).to(like)

    def normal_tensor(self, *shape: int) -> Tensor:
        return torch.randn(*shape)

    def __deepcopy__(self, memo: dict[int, object]) -> TorchRandomSource:
        return self
