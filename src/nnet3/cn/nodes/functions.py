"""More functions element by element, of one operand and of two, from one table: value, slope, needs of the slope.

A comparison is 1 where true and 0 elsewhere; the slope is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, make_dataclass
from typing import Any, ClassVar, TypeAlias

import torch
from torch import Tensor

from nnet3.cn.node import Node, as_node
from nnet3.cn.nodes.activations import Elementwise
from nnet3.cn.nodes.sums import Expanding, apply, fold
from nnet3.cn.operation import OWN_VALUE, Matrices, Operation, equal_shapes, put, put_product
from nnet3.cn.shape import Shape
from nnet3.errors import NetworkError

Slope: TypeAlias = Callable[[Tensor, Tensor], Tensor]


class FunctionOfOne(Elementwise):
    """Base: `value` of operation and X; `slope` of operation, X and V, the needed ones named in `gradient_needs`."""

    evaluates_in_place: ClassVar[bool] = False
    onnx: ClassVar[str]
    value: ClassVar[Callable[[Any, Tensor], Tensor]]
    slope: ClassVar[Callable[[Any, Tensor, Tensor], Tensor]]

    def evaluate(self, inputs: Matrices, output: Tensor) -> None:
        # v_ij = f(x_ij)
        output.copy_(type(self).value(self, inputs[0]))

    def compute_partial_gradient(
        self, child: int, inputs: Matrices, output: Tensor, gradient: Tensor, memo: Any, dx: Tensor, accumulate: bool
    ) -> None:
        # dX += dV * f'(X)
        put_product(dx, gradient, type(self).slope(self, inputs[0], output), accumulate)


class FunctionOfTwo(Expanding):
    """Base: `value` of X and Y, and `slopes` with respect to X and Y, None for a slope of 0."""

    evaluates_in_place: ClassVar[bool] = False
    onnx: ClassVar[str]
    value: ClassVar[Slope]
    slopes: ClassVar[tuple[Slope, Slope] | None]

    def evaluate(self, inputs: Matrices, output: Tensor) -> None:
        # v_ij = f(x_ij, y_ij), the operands repeated as `plus` does
        apply(_to(type(self).value), inputs, output)

    def compute_partial_gradient(
        self, child: int, inputs: Matrices, output: Tensor, gradient: Tensor, memo: Any, dx: Tensor, accumulate: bool
    ) -> None:
        # dX += dV * df/dX (X, Y), summed over where X was repeated
        slopes = type(self).slopes
        if slopes is None:
            put(dx, torch.zeros_like(dx), accumulate)
            return
        slope = torch.empty_like(gradient)
        apply(_to(slopes[child]), inputs, slope)
        put(dx, fold(slope.mul_(gradient), dx), accumulate)


def _to(function: Slope) -> Callable[..., Tensor]:
    return lambda x, y, out: out.copy_(function(x, y))


def _of_one(
    type: str, onnx: str, value: Any, slope: Any, needs: int, *options: tuple[str, str], **more: Any
) -> type[Operation]:
    namespace = {
        **{"__module__": __name__, "__doc__": f"The function {type}.", "type": type, "onnx": onnx},
        **{"value": staticmethod(value), "slope": staticmethod(slope), "gradient_needs": (frozenset({needs}),), **more},
    }
    return make_dataclass(type.title(), options, bases=(FunctionOfOne,), namespace=namespace, frozen=True)


def _of_two(type: str, onnx: str, value: Slope, slopes: tuple[Slope, Slope] | None = None) -> type[Operation]:
    needs = frozenset() if slopes is None else frozenset({0, 1})
    name = "".join(word.title() for word in type.split("_"))
    namespace = {
        **{"__module__": __name__, "__doc__": f"The function {type} of two operands.", "type": type, "onnx": onnx},
        **{"value": staticmethod(value), "slopes": slopes, "gradient_needs": (needs, needs)},
    }
    return make_dataclass(name, [], bases=(FunctionOfTwo,), namespace=namespace, frozen=True)


def _check_clip(operation: Any) -> None:
    if operation.low > operation.high:
        raise NetworkError(f"clip: expected low <= high, got {operation.low} and {operation.high}")


_ONE = (
    _of_one("abs", "Abs", lambda o, x: x.abs(), lambda o, x, v: x.sign(), 0),
    _of_one("sqrt", "Sqrt", lambda o, x: x.sqrt(), lambda o, x, v: 0.5 / v, OWN_VALUE),
    _of_one(
        "power", "Pow", lambda o, x: x**o.exponent,
        lambda o, x, v: o.exponent * x ** (o.exponent - 1) if o.exponent else torch.zeros_like(x), 0,
        ("exponent", "float"),
    ),
    _of_one(
        "clip", "Clip", lambda o, x: x.clamp(o.low, o.high), lambda o, x, v: ((x >= o.low) & (x <= o.high)).to(x.dtype),
        0, ("low", "float"), ("high", "float"), check=_check_clip,
    ),
)  # fmt: skip
_TWO = (
    _of_two("divide", "Div", torch.div, (lambda x, y: 1 / y.expand_as(x + y), lambda x, y: -x / (y * y))),
    _of_two("minimum", "Min", torch.minimum, (lambda x, y: (x <= y) + 0.0, lambda x, y: (x > y) + 0.0)),
    _of_two("maximum", "Max", torch.maximum, (lambda x, y: (x >= y) + 0.0, lambda x, y: (x < y) + 0.0)),
    _of_two("less", "Less", torch.lt),
    _of_two("less_equal", "LessOrEqual", torch.le),
    _of_two("greater", "Greater", torch.gt),
    _of_two("greater_equal", "GreaterOrEqual", torch.ge),
    _of_two("equal", "Equal", torch.eq),
)
FUNCTIONS: dict[str, type[Operation]] = {made.type: made for made in (*_ONE, *_TWO)}
COMPARISONS = tuple(made.type for made in _TWO if made.slopes is None)  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Where(Operation):
    """V = X where C is not 0, and Y elsewhere; X and Y have the shape of C or are numbers. C gets no gradient."""

    type: ClassVar[str] = "where"
    num_operands: ClassVar[int] = 3
    gradient_needs: ClassVar[tuple[frozenset[int], ...]] = (frozenset(), frozenset({0}), frozenset({0}))

    def infer(self, operands: Sequence[Shape]) -> Shape:
        condition, *values = operands
        for value in values:
            if not value.is_scalar:
                equal_shapes(self.type, condition, value)
        return condition

    def evaluate(self, inputs: Matrices, output: Tensor) -> None:
        output.copy_(torch.where(inputs[0] != 0, inputs[1], inputs[2]))

    def compute_partial_gradient(
        self, child: int, inputs: Matrices, output: Tensor, gradient: Tensor, memo: Any, dx: Tensor, accumulate: bool
    ) -> None:
        # dX += dV where C is not 0, dY += dV elsewhere
        if child == 0:
            put(dx, torch.zeros_like(dx), accumulate)
            return
        put(dx, torch.where((inputs[0] != 0) == (child == 1), gradient, 0.0).sum_to_size(dx.shape), accumulate)


def _made(type: str, *operands: Any, name: str = "", **options: Any) -> Node:
    return Node(FUNCTIONS[type](**options), [as_node(operand, type) for operand in operands], name)


def abs(x: Node, *, name: str = "") -> Node:
    """|X|, element by element; the gradient at 0 is 0."""
    return _made("abs", x, name=name)


def sqrt(x: Node, *, name: str = "") -> Node:
    """Returns the square root, element by element."""
    return _made("sqrt", x, name=name)


def power(x: Node, exponent: float, *, name: str = "") -> Node:
    """X to the power of a number, element by element. `x**2` is the same."""
    return _made("power", x, name=name, exponent=exponent)


def clip(x: Node, low: float, high: float, *, name: str = "") -> Node:
    """X, but at least `low` and at most `high`; what is cut has no gradient."""
    return _made("clip", x, name=name, low=low, high=high)


def divide(x: Node, y: Node, *, name: str = "") -> Node:
    """X / Y element by element, expanded as `plus` does. `x / y` is the same."""
    return _made("divide", x, y, name=name)


def minimum(x: Node, y: Node, *, name: str = "") -> Node:
    """Returns the smaller of two elements, expanded as `plus` does; where they are equal, X has the gradient."""
    return _made("minimum", x, y, name=name)


def maximum(x: Node, y: Node, *, name: str = "") -> Node:
    """Returns the greater of two elements, expanded as `plus` does; where they are equal, X has the gradient."""
    return _made("maximum", x, y, name=name)


def less(x: Node, y: Node, *, name: str = "") -> Node:
    """1 where X < Y, else 0, expanded as `plus` does. `x < y` is the same; so are `<=`, `>` and `>=`."""
    return _made("less", x, y, name=name)


def less_equal(x: Node, y: Node, *, name: str = "") -> Node:
    """1 where X <= Y, else 0."""
    return _made("less_equal", x, y, name=name)


def greater(x: Node, y: Node, *, name: str = "") -> Node:
    """1 where X > Y, else 0."""
    return _made("greater", x, y, name=name)


def greater_equal(x: Node, y: Node, *, name: str = "") -> Node:
    """1 where X >= Y, else 0."""
    return _made("greater_equal", x, y, name=name)


def equal(x: Node, y: Node, *, name: str = "") -> Node:
    """1 where X and Y are equal, else 0. (`==` tells whether two nodes are one.)"""
    return _made("equal", x, y, name=name)


def where(condition: Node, x: Node, y: Node, *, name: str = "") -> Node:
    """X where the condition is not 0, else Y, element by element; all of one shape, but X and Y may be numbers."""
    return Node(Where(), (condition, x, y), name)
