"""An independent computation of whole networks: column by column in PyTorch, differentiated by autograd."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np
import torch
from torch import Tensor

from nnet3 import cn
from nnet3.cn.node import Node, StoredNode
from nnet3.cn.nodes.convolution import Convolution, Pooling, TransposedConvolution
from nnet3.cn.nodes.delay import DelayNode
from nnet3.cn.operation import Operation
from nnet3.engine.ir.checker import check_computation
from nnet3.engine.ir.computation import NnetComputation


def _images(operation: Convolution | Pooling, columns: Tensor) -> Tensor:
    rows, cols, channels = operation.image
    return columns.T.reshape(-1, rows, cols, channels).permute(0, 3, 1, 2)


def _columns(images: Tensor) -> Tensor:
    return images.permute(0, 2, 3, 1).reshape(len(images), -1).T


def _convolution(operation: Convolution, kernels: Tensor, images: Tensor, bias: Tensor | None = None) -> Tensor:
    weight = kernels.reshape(-1, *operation.window, operation.image[2]).permute(0, 3, 1, 2)
    margins = tuple(n // 2 for n in operation.window) if operation.pad else 0
    found = torch.nn.functional.conv2d(_images(operation, images), weight, stride=operation.stride, padding=margins)
    return _columns(found if bias is None else found + bias[None, :, :, None])


def _transposed(
    operation: TransposedConvolution, kernels: Tensor, images: Tensor, bias: Tensor | None = None
) -> Tensor:
    """Without margins, dilation and extra."""
    weight = kernels.reshape(operation.image[2], *operation.window, -1).permute(0, 3, 1, 2)
    found = torch.nn.functional.conv_transpose2d(_images(operation, images), weight, stride=operation.stride)
    return _columns(found if bias is None else found + bias[None, :, :, None])


def _pooling(
    function: Callable[[Tensor, tuple[int, int], tuple[int, int]], Tensor],
) -> Callable[[Pooling, Tensor], Tensor]:
    def pool(operation: Pooling, images: Tensor) -> Tensor:
        assert not operation.pad
        return _columns(function(_images(operation, images), operation.window, operation.stride))

    return pool


def _expanded(function: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Operation, Tensor, Tensor], Tensor]:
    def apply(operation: Operation, x: Tensor, y: Tensor) -> Tensor:
        rows, cols = max(x.shape[0], y.shape[0]), max(x.shape[1], y.shape[1])
        x, y = (m.repeat(rows // m.shape[0], cols // m.shape[1]) for m in (x, y))
        return function(x, y)

    return apply


#: By type of node: functions of the operation and of the values of the operands
FORMULAS: dict[str, Callable[..., Tensor]] = {
    "negate": lambda op, x: 0 - x,
    "sigmoid": lambda op, x: 0.5 * (1 + torch.tanh(x / 2)),
    "tanh": lambda op, x: 2 / (1 + torch.exp(-2 * x)) - 1,
    "relu": lambda op, x: torch.where(x > 0, x, torch.zeros_like(x)),
    "log": lambda op, x: torch.log(x),
    "exp": lambda op, x: torch.exp(x),
    "copy": lambda op, x: x,
    "softmax": lambda op, x: torch.exp(x - torch.logsumexp(x, 0, keepdim=True)),
    "log_softmax": lambda op, x: x - torch.logsumexp(x, 0, keepdim=True),
    "sum_elements": lambda op, x: x.sum().reshape(1, 1),
    "l1_norm": lambda op, x: x.abs().sum().reshape(1, 1),
    "l2_norm": lambda op, x: (x**2).sum().sqrt().reshape(1, 1),
    "squared_norm": lambda op, x: (x**2).sum().reshape(1, 1),
    "scale": lambda op, x, y: x[0, 0] * y,
    "times": lambda op, x, y: x @ y,
    "element_times": _expanded(torch.mul),
    "plus": _expanded(torch.add),
    "minus": _expanded(torch.sub),
    "diag_times": lambda op, d, y: d * y,
    "dropout": lambda op, x: x,
    "khatri_rao_product": lambda op, x, y: torch.einsum("ij,kj->ikj", x, y).reshape(-1, x.shape[1]),
    "cos": lambda op, x, y: ((x * y).sum(0) / (x.norm(dim=0) * y.norm(dim=0)))[None],
    "classification_error": lambda op, x, y: (x.argmax(0) != y.argmax(0)).sum().to(x.dtype).reshape(1, 1),
    "square_error": lambda op, x, y: ((x - y) ** 2).sum().reshape(1, 1) / 2,
    "cross_entropy": lambda op, x, y: -(x * y.log()).sum().reshape(1, 1),
    "cross_entropy_with_softmax": lambda op, x, y: -(x * (y - torch.logsumexp(y, 0))).sum().reshape(1, 1),
    "per_dim_mean_var_norm": lambda op, x, m, s: (x - m) * s,
    "convolution": _convolution,
    "transposed_convolution": _transposed,
    "max_pooling": _pooling(torch.nn.functional.max_pool2d),
    "average_pooling": _pooling(torch.nn.functional.avg_pool2d),
    "row_slice": lambda op, x: x[op.first : op.first + op.rows],
    "row_stack": lambda op, *xs: torch.cat([x.expand(-1, max(y.shape[1] for y in xs)) for x in xs]),
}


class Reference:
    """Values of nodes of one network for inputs as users give them; float64."""

    def __init__(
        self, nodes: Iterable[Node], inputs: Mapping[str, object], states: Mapping[str, int] | None = None
    ) -> None:
        self.parameters: dict[Node, Tensor] = {
            node: torch.tensor(node.value, dtype=torch.float64, requires_grad=True)
            for node in nodes
            if isinstance(node, StoredNode)
        }
        self.inputs: dict[str, list[Tensor]] = {}
        self.lengths: list[int] | None = None
        has_samples = {node.name: node.shape.has_samples for node in nodes}
        for name, value in inputs.items():
            if isinstance(value, cn.Sequences):
                arrays = [torch.tensor(np.asarray(a, float), requires_grad=True) for a in value]
                if name not in (states or {}):
                    self.lengths = [a.shape[1] for a in arrays]
            else:
                arrays = [torch.tensor(np.asarray(value, float), requires_grad=True)]
                if has_samples[name] and name not in (states or {}):
                    self.lengths = [1] * arrays[0].shape[1]
            self.inputs[name] = arrays
        self.known: dict[tuple[Node, int, int], Tensor] = {}

    def column(self, node: Node, n: int, t: int) -> Tensor:
        """(D, 1): the column of sample (n, t)."""
        key = (node, n, t)
        if key not in self.known:
            self.known[key] = self._column(node, n, t)
        return self.known[key]

    def _column(self, node: Node, n: int, t: int) -> Tensor:
        assert self.lengths is not None
        if node.type == "input":
            arrays = self.inputs[node.name]
            return (
                arrays[0][:, n : n + 1]
                if len(arrays) == 1
                and self.lengths == [1] * len(self.lengths)
                and arrays[0].shape[1] == len(self.lengths)
                else arrays[n][:, t : t + 1]
            )
        if isinstance(node, DelayNode):
            source = t - node.operation.lag
            if 0 <= source < self.lengths[n]:
                return self.column(node.operands[0], n, source)
            if node.initial is not None:
                state = self.inputs[node.initial.name][n]
                place = source + state.shape[1] if source < 0 else source - self.lengths[n]
                if 0 <= place < state.shape[1]:
                    return state[:, place : place + 1]
            return torch.full((node.shape.rows, 1), node.operation.default, dtype=torch.float64)
        operands = [self.column(o, n, t) if o.shape.has_samples else self.matrix(o) for o in node.operands]
        return FORMULAS[node.type](node.operation, *operands)

    def matrix(self, node: Node) -> Tensor:
        """The value of a node: all samples side by side, or the matrix of one without samples."""
        key = (node, -1, -1)
        if key not in self.known:
            self.known[key] = self._matrix(node)
        return self.known[key]

    def _matrix(self, node: Node) -> Tensor:
        if isinstance(node, StoredNode):
            return self.parameters[node]
        if node.shape.has_samples:
            assert self.lengths is not None
            return torch.cat(
                [self.column(node, n, t) for n, length in enumerate(self.lengths) for t in range(length)], 1
            )
        if node.type == "input":
            return self.inputs[node.name][0]
        return FORMULAS[node.type](node.operation, *[self.matrix(operand) for operand in node.operands])


def columns(value: float | np.ndarray | list[np.ndarray]) -> np.ndarray:
    """A value as users get it, all samples side by side."""
    return np.concatenate(value, 1) if isinstance(value, list) else np.reshape(value, np.shape(value) or (1, 1))


def compare(network: cn.Network, inputs: Mapping[str, object], rtol: float = 1e-8) -> None:
    """All values and all gradients of a float64 network against this reference. Dropout must be absent."""
    states = {node.name: lag for node, lag in network.initial_states.items()}
    reference = Reference(network.nodes, inputs, states)
    nodes = [node for node in network.nodes if node.name not in states]
    for node, value in zip(nodes, network.evaluate(nodes, inputs), strict=True):
        expected = reference.matrix(node).detach().numpy()
        np.testing.assert_allclose(columns(value), expected, rtol=rtol, atol=1e-10, err_msg=repr(node))
    if not network.criteria:
        return
    terms = [weight * reference.matrix(node)[0, 0] for node, weight in network.criteria.items()]
    total = torch.stack(terms).sum()
    program = network.program(inputs)
    assert isinstance(program, NnetComputation)
    check_computation(program)
    value, ours = network.criterion_and_gradients(inputs, training=False)
    np.testing.assert_allclose(value, float(total.detach()), rtol=rtol)
    trainable = {name: reference.parameters[network.find(name)] for name in ours}
    gradients = torch.autograd.grad(total, list(trainable.values()), allow_unused=True)
    for (name, tensor), gradient in zip(trainable.items(), gradients, strict=True):
        wanted = torch.zeros_like(tensor) if gradient is None else gradient
        np.testing.assert_allclose(ours[name], wanted.numpy(), rtol=1e-6, atol=1e-9, err_msg=name)
