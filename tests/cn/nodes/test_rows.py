"""Rows of nodes, and nodes on top of each other."""

from __future__ import annotations

import pytest
import torch

from nnet3 import cn
from tests.cn.check_node import check_node, random

x = cn.input("x", 4)
y = cn.input("y", 3)


@pytest.mark.parametrize("operands", [(x, y, cn.parameter("c", (2, 1))), (cn.input("z", 1), x)])
def test_row_stack_puts_operands_below_each_other(operands) -> None:
    node = cn.row_stack(*operands)
    matrices = [random(o.shape.rows, o.shape.cols or 5, seed=i) for i, o in enumerate(operands)]
    check_node(node, matrices, lambda *parts: torch.cat([p.expand(-1, 5) for p in parts]))


def test_row_slice_is_a_view() -> None:
    node = cn.row_slice(x, 1, 2)
    assert str(node.shape) == "2 x S"
    check_node(node, [random(4, 5)], lambda value: value[1:3])
