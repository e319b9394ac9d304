"""The operators `@ + - *` of nodes; a number stands for a constant (or, in a product, for a scale)."""

from __future__ import annotations

from typing import Any

from nnet3.cn.node import OPERATORS, Node, as_node
from nnet3.cn.nodes.activations import negate
from nnet3.cn.nodes.leaves import constant
from nnet3.cn.nodes.products import times
from nnet3.cn.nodes.scaling import scale
from nnet3.cn.nodes.sums import element_times, minus, plus


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _product(left: Any, right: Any) -> Node:
    if _is_number(left):
        return scale(left, right)
    if _is_number(right):
        return scale(right, left)
    return element_times(as_node(left), as_node(right))


OPERATORS.update(
    {
        "@": lambda left, right: times(as_node(left), as_node(right)),
        "+": lambda left, right: plus(as_node(left), as_node(right)),
        "-": lambda left, right: minus(as_node(left), as_node(right)),
        "*": _product,
        "negate": negate,
        "constant": constant,
    }
)
