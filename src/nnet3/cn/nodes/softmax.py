"""Softmax of each column and its logarithm (1.31 to 1.37)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from nnet3.cn.node import Node
from nnet3.cn.nodes.activations import Elementwise
from nnet3.cn.operation import OWN_VALUE, Matrices, put


@dataclass(frozen=True)
class Softmax(Elementwise):
    type: ClassVar[str] = "softmax"
    gradient_needs: ClassVar[tuple[frozenset[int], ...]] = (frozenset({OWN_VALUE}),)

    def evaluate(self, inputs: Matrices, output: Tensor) -> None:
        # v_ij = e^(x_ij - max_i x_ij) / sum_i e^(x_ij - max_i x_ij) (1.31 to 1.34)
        torch.softmax(inputs[0], 1, out=output)

    def compute_partial_gradient(
        self, child: int, inputs: Matrices, output: Tensor, gradient: Tensor, memo: Any, dx: Tensor, accumulate: bool
    ) -> None:
        # dX += (dV - sum_i dV * V) * V (1.35)
        product = gradient * output
        product.addcmul_(product.sum(1, keepdim=True), output, value=-1)
        put(dx, product, accumulate)


@dataclass(frozen=True)
class LogSoftmax(Elementwise):
    type: ClassVar[str] = "log_softmax"
    gradient_needs: ClassVar[tuple[frozenset[int], ...]] = (frozenset({OWN_VALUE}),)

    def evaluate(self, inputs: Matrices, output: Tensor) -> None:
        # v_ij = x_ij - log sum_i e^x_ij
        torch.log_softmax(inputs[0], 1, out=output)

    def compute_partial_gradient(
        self, child: int, inputs: Matrices, output: Tensor, gradient: Tensor, memo: Any, dx: Tensor, accumulate: bool
    ) -> None:
        # dv_mj / dx_ij = delta(m = i) - e^v_ij, so dX += dV - e^V * sum_i dV
        put(dx, gradient - output.exp() * gradient.sum(1, keepdim=True), accumulate)


def softmax(x: Node, *, name: str = "") -> Node:
    """Softmax of each column: positive, with sum 1."""
    return Node(Softmax(), (x,), name)


def log_softmax(x: Node, *, name: str = "") -> Node:
    """Logarithm of the softmax of each column."""
    return Node(LogSoftmax(), (x,), name)
