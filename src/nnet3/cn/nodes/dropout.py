"""Dropout (1.86 to 1.88): some elements become zero in training."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from nnet3.cn.node import Node
from nnet3.cn.nodes.activations import Elementwise
from nnet3.cn.operation import Matrices, OperationState, put, put_product
from nnet3.engine.ir.kernel import Kernel
from nnet3.errors import NetworkError


@dataclass(frozen=True)
class Dropout(Elementwise):
    """`rate`: the chapter's lambda, the share of the elements that become zero."""

    type: ClassVar[str] = "dropout"
    uses_memo: ClassVar[bool] = True
    rate: float

    def check(self) -> None:
        if not 0 <= self.rate < 1:
            raise NetworkError(f"dropout: expected a rate of at least 0 and less than 1, got {self.rate!r}")

    @property
    def is_random(self) -> bool:
        return self.rate > 0

    def in_mode(self, training: bool) -> Dropout:
        return self if training or not self.is_random else replace(self, rate=0.0)

    def kernel(self, state: OperationState) -> Kernel:
        return DropoutKernel(self.rate, state)


class DropoutKernel(Dropout):
    """Dropout with random numbers; outside training the value is the operand itself."""

    def __init__(self, rate: float, state: OperationState):
        super().__init__(rate)
        object.__setattr__(self, "state", state)

    state: OperationState

    def replay_state(self) -> list[object] | None:
        return None if self.rate and self.state.training else []

    def evaluate(self, inputs: Matrices, output: Tensor) -> Tensor | None:
        # m_ij = 0 with probability lambda, else 1 / (1 - lambda) (1.86); V = M * Y (1.87)
        if self.rate == 0 or not self.state.training:
            output.copy_(inputs[0])
            return None
        generator = self.state.generator
        uniform = torch.rand(output.shape, generator=generator, device=generator.device, dtype=output.dtype)
        mask = (uniform > self.rate).to(output.device, output.dtype).mul_(1 / (1 - self.rate))
        torch.mul(inputs[0], mask, out=output)
        return mask

    def compute_partial_gradient(
        self, child: int, inputs: Matrices, output: Tensor, gradient: Tensor, memo: Any, dx: Tensor, accumulate: bool
    ) -> None:
        # dY += dV * M (1.88)
        if memo is None:
            put(dx, gradient, accumulate)
        else:
            put_product(dx, gradient, memo, accumulate)


def dropout(rate: float, y: Node, *, name: str = "") -> Node:
    """Y, of which in training a share `rate` becomes 0 and the rest is multiplied by 1 / (1 - rate)."""
    return Node(Dropout(rate), (y,), name)
