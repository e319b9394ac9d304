"""Evaluate and ComputePartialGradient of one operation against an independent formula and finite differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from nnet3.cn.node import Node
from nnet3.cn.operation import OWN_VALUE, OperationState
from nnet3.cn.shape import Shape
from nnet3.engine.ir.kernel import KernelInfo

EPSILON = 1e-6


def random(*shape: int, seed: int = 0, positive: bool = False) -> Tensor:
    """A float64 matrix in the chapter's orientation."""
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape) + 100 * seed), dtype=torch.float64)
    return matrix.abs() + 0.1 if positive else matrix


def state(training: bool = True) -> OperationState:
    return OperationState(torch.Generator().manual_seed(1), training)


def check_node(
    node: Node,
    operands: Sequence[Tensor],
    formula: Callable[..., Tensor],
    *,
    gradients: Sequence[int] | None = None,
    differences: bool = True,
) -> None:
    """Run the node's kernel on operands (chapter's orientation); `formula` is what autograd differentiates.

    All values lie in wider matrices, derivatives overwrite and are added to, values that the operation does not declare
    as needed are withheld, and where it promises to work in place it does.
    """
    wanted = range(len(operands)) if gradients is None else gradients
    leaves = [operand.clone().requires_grad_() for operand in operands]
    expected = formula(*leaves)
    value = run_forward(node, operands)
    torch.testing.assert_close(value, expected.detach(), rtol=1e-10, atol=1e-12)
    for which, promises in enumerate(_info(node, []).inputs):
        if promises.propagate_in_place:
            torch.testing.assert_close(run_forward(node, operands, over=which), value, rtol=0, atol=0)
    samples = expected.shape[1]
    inferred = node.shape if node.shape.cols is not None else Shape(node.shape.rows, samples)
    assert (inferred.rows, inferred.cols) == tuple(expected.shape), "the inferred shape"

    direction = random(*expected.shape, seed=7)
    reference = torch.autograd.grad((expected * direction).sum(), [leaves[i] for i in wanted], allow_unused=True)
    for which, from_autograd in zip(wanted, reference, strict=True):
        ours = run_backward(node, operands, direction, which, accumulate=False)
        from_autograd = torch.zeros_like(operands[which]) if from_autograd is None else from_autograd
        torch.testing.assert_close(ours, from_autograd, rtol=1e-8, atol=1e-10)
        added = run_backward(node, operands, direction, which, accumulate=True)
        torch.testing.assert_close(added, ours + 1, rtol=1e-10, atol=1e-10)
        if _info(node, [which]).inputs[which].backprop_in_place:
            in_place = run_backward(node, operands, direction, which, accumulate=False, in_place=True)
            torch.testing.assert_close(in_place, ours, rtol=0, atol=0)
        if differences:
            torch.testing.assert_close(ours, by_differences(node, operands, direction, which), rtol=1e-5, atol=1e-7)


def run_forward(node: Node, operands: Sequence[Tensor], *, over: int | None = None) -> Tensor:
    """The value; it lies where operand `over` lies, if one is given."""
    kernel = node.operation.kernel(state())
    inputs = [_inside(operand) for operand in operands]
    output = _wide(_output_size(node, operands), fill=float("nan")) if over is None else inputs[over]
    kernel.run_forward(inputs, output, None)
    return output.T.clone()


def run_backward(
    node: Node, operands: Sequence[Tensor], direction: Tensor, which: int, accumulate: bool, *, in_place: bool = False
) -> Tensor:
    """The gradient with respect to operand `which`; with `in_place` it lies where that of the node lies."""
    kernel = node.operation.kernel(state())
    inputs = [_inside(operand) for operand in operands]
    output = _wide(_output_size(node, operands), fill=float("nan"))
    memo = kernel.run_forward(inputs, output, None)
    info = _info(node, [which])
    nothing = torch.zeros(0, 0, dtype=torch.float64)
    inputs = [m if p.backprop_needs_value else nothing for m, p in zip(inputs, info.inputs, strict=True)]
    output = output if info.backprop_needs_output else nothing
    assert info.backprop_needs_output == (OWN_VALUE in node.operation.needs_of_gradient(which))
    gradient = _inside(direction)
    fill = 1.0 if accumulate else float("nan")
    rows, cols = operands[which].shape
    deriv = gradient if in_place else _wide((cols, rows), fill)
    derivs = [deriv if i == which else None for i in range(len(operands))]
    memo = memo if info.uses_memo else None
    kernel.run_backward(inputs, output, gradient, memo, None, derivs, [accumulate] * len(operands), None)
    return deriv.T.clone()


def _info(node: Node, wanted: Sequence[int]) -> KernelInfo:
    """The promises of the node's kernel if these gradients are wanted."""
    shapes = [operand.shape for operand in node.operands]
    return node.operation.info("it", shapes, node.shape, [i in wanted for i in range(len(shapes))])


def by_differences(node: Node, operands: Sequence[Tensor], direction: Tensor, which: int) -> Tensor:
    """Equation (1.5), element by element."""
    result = torch.zeros_like(operands[which])
    for place in range(result.numel()):
        ends = []
        for step in (EPSILON, -EPSILON):
            moved = [operand.clone() for operand in operands]
            moved[which].view(-1)[place] += step
            ends.append(float((run_forward(node, moved) * direction).sum()))
        result.view(-1)[place] = (ends[0] - ends[1]) / (2 * EPSILON)
    return result


def _output_size(node: Node, operands: Sequence[Tensor]) -> tuple[int, int]:
    with_samples = [o.shape[1] for o, child in zip(operands, node.operands, strict=True) if child.shape.has_samples]
    return (node.shape.num_cols or with_samples[0], node.shape.rows)


def _wide(size: tuple[int, int], fill: float) -> Tensor:
    """A range of rows and columns of a wider matrix."""
    return torch.full((size[0] + 2, size[1] + 3), fill, dtype=torch.float64)[1:-1, 2:-1]


def _inside(operand: Tensor) -> Tensor:
    """The operand as it lies: transposed, inside a wider matrix."""
    matrix = _wide((operand.shape[1], operand.shape[0]), float("nan"))
    return matrix.copy_(operand.T)
