"""Python's operators and slices of nodes; a number stands for a constant (or, in a product, for a scale)."""

from __future__ import annotations

import math
import numbers
from typing import Any

from nnet3.cn.node import OPERATORS, Node, as_node
from nnet3.cn.nodes.activations import exp, negate
from nnet3.cn.nodes.columns import row_slice, row_step, transpose
from nnet3.cn.nodes.functions import abs, divide, greater, greater_equal, less, less_equal, power
from nnet3.cn.nodes.leaves import constant
from nnet3.cn.nodes.products import scale, times
from nnet3.cn.nodes.sums import element_times, minus, plus
from nnet3.errors import NetworkError, ShapeError


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _product(left: Any, right: Any) -> Node:
    if _is_number(left):
        return scale(left, right)
    if _is_number(right):
        return scale(right, left)
    return element_times(as_node(left), as_node(right))


def _power(x: Any, exponent: Any) -> Node:
    if _is_number(exponent):
        return power(x, exponent)
    if _is_number(x) and x > 0:
        return exp(math.log(x) * exponent)
    raise NetworkError(
        f"expected a node to the power of a number, or a number above 0 to that of a node, got {x!r} and {exponent!r}"
    )


def _rows(x: Node, rows: Any) -> Node:
    """Rows of X, as Python slices lists: x[3], x[2:5], x[::-1]."""
    if isinstance(rows, numbers.Integral) and not isinstance(rows, bool):
        if not -x.shape.rows <= int(rows) < x.shape.rows:
            raise ShapeError(f"there is no row {rows} of '{x.formula}', which is {x.shape}")
        return row_slice(x, int(rows) % x.shape.rows, 1)
    if not isinstance(rows, slice):
        raise NetworkError(f"expected the number of a row or a slice of rows, got {rows!r}")
    chosen = range(x.shape.rows)[rows]
    if not chosen:
        raise ShapeError(f"there are no rows {rows} of '{x.formula}', which is {x.shape}")
    return (
        row_slice(x, chosen.start, len(chosen))
        if chosen.step == 1
        else row_step(x, chosen.start, chosen.step, len(chosen))
    )


OPERATORS.update(
    {
        "@": lambda left, right: times(as_node(left), as_node(right)),
        "+": lambda left, right: plus(as_node(left), as_node(right)),
        "-": lambda left, right: minus(as_node(left), as_node(right)),
        "*": _product,
        **{"/": divide, "<": less, "<=": less_equal, ">": greater, ">=": greater_equal},
        **{"**": _power, "[]": _rows, "abs": abs, "transpose": transpose},
        "negate": negate,
        "constant": constant,
    }
)
