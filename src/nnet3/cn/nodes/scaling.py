"""Scale by a number (1.50 to 1.56) and by a diagonal matrix (1.79 to 1.85)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from nnet3.cn.node import Node
from nnet3.cn.nodes.leaves import constant
from nnet3.cn.operation import Matrices, Operation, put, put_product
from nnet3.cn.shape import Shape
from nnet3.errors import ShapeError


class Scaling(Operation):
    """Base: the second operand, each row times a number, or all times one."""

    num_operands: ClassVar[int] = 2
    repeats_forward: ClassVar[bool] = True
    gradient_needs: ClassVar[tuple[frozenset[int], ...]] = (frozenset({1}), frozenset({0}))

    def evaluate(self, inputs: Matrices, output: Tensor) -> None:
        # V = lambda Y (1.50), v_ij = d_i y_ij (1.79)
        torch.mul(inputs[1], inputs[0], out=output)

    def compute_partial_gradient(
        self, child: int, inputs: Matrices, output: Tensor, gradient: Tensor, memo: Any, dx: Tensor, accumulate: bool
    ) -> None:
        # dlambda += vec(dV) . vec(Y) (1.51), dY += lambda dV (1.52)
        # dd_i += sum_j dv_ij y_ij (1.80), dY += diag(d) dV (1.81)
        if child == 0:
            put(dx, (gradient * inputs[1]).sum_to_size(dx.shape), accumulate)
        else:
            put_product(dx, gradient, inputs[0], accumulate)


@dataclass(frozen=True)
class Scale(Scaling):
    type: ClassVar[str] = "scale"
    is_bilinear: ClassVar[bool] = True

    def infer(self, operands: Sequence[Shape]) -> Shape:
        if not operands[0].is_scalar:
            raise ShapeError("scale needs a number (1 x 1) as its first operand")
        return operands[1]


@dataclass(frozen=True)
class DiagTimes(Scaling):
    type: ClassVar[str] = "diag_times"

    def infer(self, operands: Sequence[Shape]) -> Shape:
        d, y = operands
        if d.cols != 1 or d.rows != y.rows:
            raise ShapeError("diag_times needs one column, with as many rows as the second operand")
        return y


def scale(factor: Node | float, y: Node, *, name: str = "") -> Node:
    """lambda Y; `factor` is a number or a 1 x 1 node (which may be learnt)."""
    return Node(Scale(), (factor if isinstance(factor, Node) else constant(factor), y), name)


def diag_times(d: Node, y: Node, *, name: str = "") -> Node:
    """The product of the diagonal matrix of the column d (no samples) and Y."""
    return Node(DiagTimes(), (d, y), name)
