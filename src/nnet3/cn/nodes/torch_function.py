"""Any function of PyTorch as a node: its gradient is autograd's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from nnet3.cn.node import Node, as_node
from nnet3.cn.operation import Matrices, Operation, put
from nnet3.cn.place import users_place
from nnet3.cn.shape import Shape, as_shape
from nnet3.errors import ArgumentError, NetworkError, ShapeError

_MOST = 1000  # operands


@dataclass(frozen=True)
class TorchFunction(Operation):
    """V = f(X, Y, ...), of `rows` rows; `cols`: their columns if the value has no samples."""

    type: ClassVar[str] = "torch_function"
    num_operands: ClassVar[int] = -1
    function: Callable[..., Tensor]
    rows: int
    cols: int | None = None
    where: str = ""  # its name and the line that made it, for messages

    def infer(self, operands: Sequence[Shape]) -> Shape:
        if self.cols is not None:
            return Shape(self.rows, self.cols)
        axes = {operand.cols for operand in operands if operand.has_samples}
        if len(axes) != 1:
            raise ShapeError("torch_function needs operands with samples of one axis, or a shape of (rows, columns)")
        return Shape(self.rows, axes.pop())

    def needs_of_gradient(self, operand: int) -> frozenset[int]:
        return frozenset(range(_MOST))  # autograd tells nobody what it reads

    def options(self) -> dict[str, Any]:
        return {"rows": self.rows, "cols": self.cols}

    def replay_state(self) -> list[object] | None:
        return None  # the function may depend on anything

    def evaluate(self, inputs: Matrices, output: Tensor) -> None:
        with torch.no_grad():
            output.copy_(self._value(inputs, output).T)

    def compute_partial_gradient(
        self, child: int, inputs: Matrices, output: Tensor, gradient: Tensor, memo: Any, dx: Tensor, accumulate: bool
    ) -> None:
        # dX += what autograd finds for the sum of dV * f(X, Y, ...); f is computed again, for operands may have moved
        with torch.enable_grad():
            leaves = [matrix.detach().requires_grad_(number == child) for number, matrix in enumerate(inputs)]
            value, found = self._value(leaves, gradient), None
            if value.requires_grad:
                with self._named():
                    (found,) = torch.autograd.grad(value, [leaves[child]], gradient.T, allow_unused=True)
        put(dx, torch.zeros_like(dx) if found is None else found, accumulate)

    def _value(self, inputs: Matrices, like: Tensor) -> Tensor:
        with self._named():
            value = self.function(*(matrix.T for matrix in inputs))
        expected = (like.shape[1], like.shape[0])
        if not isinstance(value, Tensor) or tuple(value.shape) != expected or value.dtype != like.dtype:
            got = f"{tuple(value.shape)} of {value.dtype}" if isinstance(value, Tensor) else type(value).__name__
            raise ShapeError(
                f"torch_function: expected a tensor of shape {expected} of {like.dtype}, got {got}{self.where}"
            )
        return value

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Says of which node the function fails."""
        try:
            yield
        except Exception as error:
            raise NetworkError(f"torch_function: {type(error).__name__}: {error}{self.where}") from error


def torch_function(
    function: Callable[..., Tensor], *operands: Node, shape: int | tuple[int, int] | None = None, name: str = ""
) -> Node:
    """Returns a node that computes `function` of its operands: tensors of rows x columns become a tensor of `shape`.

    `shape`: a number of rows for a value with samples, or (rows, columns); by default the first operand's shape. In a
    value with samples, a column may depend only on its own column of operands with samples: inside a loop the
    function gets the columns of one frame. The function must return equal values each time: the gradient, computed by
    autograd, takes a second call.

    Networks with such a node cannot be saved: see `register`. If the function raises, the run raises NetworkError with
    the name of the node.
    """
    if not callable(function):
        raise ArgumentError(f"what computes a node must be a function of tensors, got {function!r}")
    nodes = [as_node(operand, "torch_function") for operand in operands]
    if not 1 <= len(nodes) <= _MOST:
        raise NetworkError(f"torch_function needs an operand at least, and at most {_MOST}")
    given = nodes[0].shape if shape is None else as_shape(shape, "torch_function")
    where = f"\n  '{name or getattr(function, '__name__', 'function')}': {users_place()}"
    return Node(TorchFunction(function, given.rows, given.num_cols, where), nodes, name)
