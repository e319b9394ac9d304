"""What each operation promises to lowering and to the passes: whoever forgets a promise computes or keeps too much."""

from __future__ import annotations

import pytest

from nnet3 import cn
from nnet3.cn.node import Node
from nnet3.cn.operation_types import OPERATIONS
from tests.cn.nodes.samples import NODES, V, W, x, y

WITH_MEMO = {"dropout", "cos", "cross_entropy_with_softmax", "class_cross_entropy", "max_pooling"}
NOT_KERNELS = {"input", "parameter", "mean", "inv_std_dev", "delay", "component"}


def info_of(node: Node, wanted):
    shapes = [operand.shape for operand in node.operands]
    return node.operation.info("it", shapes, node.shape, [number in wanted for number in range(len(shapes))])


@pytest.mark.parametrize(("node", "needs", "over", "back"), NODES, ids=lambda value: getattr(value, "type", ""))
def test_promises_say_which_values_gradients_need(node, needs, over, back) -> None:
    numbers = range(len(node.operands))
    for which in numbers:
        info = info_of(node, [which])
        assert [p.backprop_needs_value for p in info.inputs] == [str(number) in needs[which] for number in numbers]
        assert info.backprop_needs_output == ("o" in needs[which])
        assert info.uses_memo == (node.type in WITH_MEMO)
    info = info_of(node, numbers)
    assert [p.backprop_needs_value for p in info.inputs] == [str(n) in "".join(needs) for n in numbers]
    assert [p.propagate_in_place for p in info.inputs] == [str(number) in over for number in numbers]
    assert [p.backprop_in_place for p in info.inputs] == [str(number) in back for number in numbers]
    assert all(p.accumulates_deriv for p in info.inputs)
    assert info.backprop_needs_sign_only == (node.type == "relu")
    assert info.row_by_row == node.shape.has_samples
    assert not info.updatable
    nothing = info_of(node, [])
    assert not any(p.backprop_needs_value for p in nothing.inputs)
    assert not nothing.uses_memo
    assert not nothing.merges_updates


def test_gradients_without_samples_are_computed_for_all_frames_at_once() -> None:
    """What a recurrence gives to a parameter is summed after the loop, in one update."""
    assert info_of(W @ x, [0]).merges_updates
    assert info_of(W @ x, [0, 1]).merges_updates
    assert not info_of(W @ x, [1]).merges_updates
    assert not info_of(W @ V, [0]).merges_updates
    assert not info_of(cn.square_error(x, y), [0]).merges_updates


def test_all_kernels_are_in_the_table() -> None:
    ours = {type for type, made in OPERATIONS.items() if made.__module__.startswith("nnet3.") and not made.is_whole}
    assert {node.type for node, *_ in NODES} == ours - NOT_KERNELS
