"""Functions of one operand: elementwise (1.7 to 1.30), softmax of columns and its logarithm (1.31 to 1.37)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from nnet3.base.native import operations as native
from nnet3.base.native.operations import Operations
from nnet3.cn.node import Node
from nnet3.cn.operation import OWN_VALUE, Matrices, Operation, native_put, put, put_product, put_scaled
from nnet3.cn.shape import Shape

NativeFunctions = tuple[Callable[..., Operations | None], Callable[..., Operations | None]]
_sigmoid_backward = torch.ops.aten.sigmoid_backward  # (g, v): g v (1 - v)
_tanh_backward = torch.ops.aten.tanh_backward  # (g, v): g (1 - v^2)


class Elementwise(Operation):
    """Base: the value has the operand's shape, and may lie where the operand lies."""

    evaluates_in_place: ClassVar[bool] = True
    repeats_forward: ClassVar[bool] = True
    gradient_in_place: ClassVar[bool] = True

    def infer(self, operands: Sequence[Shape]) -> Shape:
        return operands[0]


class Multiple(Elementwise):
    """Base: the operand times a factor."""

    is_native: ClassVar[bool] = True

    def native_value(self, inputs: Matrices, output: Tensor) -> Operations | None:
        return native_put(output, inputs[0], False, self.linear_factors[0])

    def native_gradient(
        self, child: int, inputs: Matrices, output: Tensor, gradient: Tensor, dx: Tensor, accumulate: bool
    ) -> Operations | None:
        return native_put(dx, gradient, accumulate, self.linear_factors[0])


class Activation(Elementwise):
    """Base: a function whose gradient is made of its value. `native_functions`: native code for value and gradient."""

    is_native: ClassVar[bool] = True
    native_functions: ClassVar[NativeFunctions]

    def native_value(self, inputs: Matrices, output: Tensor) -> Operations | None:
        return self.native_functions[0](output, inputs[0])

    def native_gradient(
        self, child: int, inputs: Matrices, output: Tensor, gradient: Tensor, dx: Tensor, accumulate: bool
    ) -> Operations | None:
        return self.native_functions[1](dx, gradient, output, dx if accumulate else None)


@dataclass(frozen=True)
class Negate(Multiple):
    type: ClassVar[str] = "negate"
    linear_factors: ClassVar[tuple[float, ...]] = (-1.0,)

    def evaluate(self, inputs: Matrices, output: Tensor) -> None:
        # V = -X (1.7)
        torch.neg(inputs[0], out=output)

    def compute_partial_gradient(
        self, child: int, inputs: Matrices, output: Tensor, gradient: Tensor, memo: Any, dx: Tensor, accumulate: bool
    ) -> None:
        # dX += -dV (1.8)
        put_scaled(dx, gradient, -1.0, accumulate)


@dataclass(frozen=True)
class Sigmoid(Activation):
    type: ClassVar[str] = "sigmoid"
    native_functions: ClassVar[NativeFunctions] = native.sigmoid, native.sigmoid_backward
    gradient_needs: ClassVar[tuple[frozenset[int], ...]] = (frozenset({OWN_VALUE}),)

    def evaluate(self, inputs: Matrices, output: Tensor) -> None:
        # V = 1 / (1 + e^-X) (1.11)
        torch.sigmoid(inputs[0], out=output)

    def compute_partial_gradient(
        self, child: int, inputs: Matrices, output: Tensor, gradient: Tensor, memo: Any, dx: Tensor, accumulate: bool
    ) -> None:
        # dX += dV * V * (1 - V) (1.12)
        if accumulate:
            dx.add_(_sigmoid_backward.default(gradient, output))
        else:
            _sigmoid_backward.grad_input(gradient, output, grad_input=dx)


@dataclass(frozen=True)
class Tanh(Activation):
    type: ClassVar[str] = "tanh"
    native_functions: ClassVar[NativeFunctions] = native.tanh, native.tanh_backward
    gradient_needs: ClassVar[tuple[frozenset[int], ...]] = (frozenset({OWN_VALUE}),)

    def evaluate(self, inputs: Matrices, output: Tensor) -> None:
        # V = tanh(X) (1.15)
        torch.tanh(inputs[0], out=output)

    def compute_partial_gradient(
        self, child: int, inputs: Matrices, output: Tensor, gradient: Tensor, memo: Any, dx: Tensor, accumulate: bool
    ) -> None:
        # dX += dV * (1 - V * V) (1.16)
        if accumulate:
            dx.add_(_tanh_backward.default(gradient, output))
        else:
            _tanh_backward.grad_input(gradient, output, grad_input=dx)


@dataclass(frozen=True)
class Relu(Activation):
    type: ClassVar[str] = "relu"
    native_functions: ClassVar[NativeFunctions] = native.relu, native.relu_backward
    gradient_needs_sign_only: ClassVar[bool] = True
    gradient_needs: ClassVar[tuple[frozenset[int], ...]] = (frozenset({OWN_VALUE}),)

    def evaluate(self, inputs: Matrices, output: Tensor) -> None:
        # V = max(0, X) (1.19)
        torch.clamp(inputs[0], min=0, out=output)

    def compute_partial_gradient(
        self, child: int, inputs: Matrices, output: Tensor, gradient: Tensor, memo: Any, dx: Tensor, accumulate: bool
    ) -> None:
        # dX += dV * delta(X > 0), and X > 0 exactly where V > 0 (1.20)
        put_product(dx, gradient, (output > 0).to(gradient.dtype), accumulate)


@dataclass(frozen=True)
class Log(Elementwise):
    type: ClassVar[str] = "log"
    gradient_needs: ClassVar[tuple[frozenset[int], ...]] = (frozenset({0}),)
    evaluates_in_place: ClassVar[bool] = False  # the gradient needs the operand

    def evaluate(self, inputs: Matrices, output: Tensor) -> None:
        # V = log(X) (1.23)
        torch.log(inputs[0], out=output)

    def compute_partial_gradient(
        self, child: int, inputs: Matrices, output: Tensor, gradient: Tensor, memo: Any, dx: Tensor, accumulate: bool
    ) -> None:
        # dX += dV / X (1.24)
        if accumulate:
            dx.addcdiv_(gradient, inputs[0])
        else:
            torch.div(gradient, inputs[0], out=dx)


@dataclass(frozen=True)
class Exp(Elementwise):
    type: ClassVar[str] = "exp"
    gradient_needs: ClassVar[tuple[frozenset[int], ...]] = (frozenset({OWN_VALUE}),)

    def evaluate(self, inputs: Matrices, output: Tensor) -> None:
        # V = e^X (1.27)
        torch.exp(inputs[0], out=output)

    def compute_partial_gradient(
        self, child: int, inputs: Matrices, output: Tensor, gradient: Tensor, memo: Any, dx: Tensor, accumulate: bool
    ) -> None:
        # dX += dV * V (1.28)
        put_product(dx, gradient, output, accumulate)


@dataclass(frozen=True)
class Copy(Multiple):
    """The operand itself: where a name is wanted for it, or rows of it elsewhere."""

    type: ClassVar[str] = "copy"
    linear_factors: ClassVar[tuple[float, ...]] = (1.0,)

    def evaluate(self, inputs: Matrices, output: Tensor) -> None:
        output.copy_(inputs[0])

    def compute_partial_gradient(
        self, child: int, inputs: Matrices, output: Tensor, gradient: Tensor, memo: Any, dx: Tensor, accumulate: bool
    ) -> None:
        put(dx, gradient, accumulate)


def negate(x: Node, *, name: str = "") -> Node:
    """-X."""
    return Node(Negate(), (x,), name)


def sigmoid(x: Node, *, name: str = "") -> Node:
    """1 / (1 + e^-X), element by element."""
    return Node(Sigmoid(), (x,), name)


def tanh(x: Node, *, name: str = "") -> Node:
    """Hyperbolic tangent, element by element."""
    return Node(Tanh(), (x,), name)


def relu(x: Node, *, name: str = "") -> Node:
    """max(0, X), element by element; the gradient at 0 is 0."""
    return Node(Relu(), (x,), name)


def log(x: Node, *, name: str = "") -> Node:
    """Natural logarithm, element by element."""
    return Node(Log(), (x,), name)


def exp(x: Node, *, name: str = "") -> Node:
    """e^X, element by element."""
    return Node(Exp(), (x,), name)


def copy(x: Node, *, name: str = "") -> Node:
    """Returns the operand itself, under a name of its own."""
    return Node(Copy(), (x,), name)


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
