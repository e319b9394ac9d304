"""An independent computation of networks in stages: sequence by sequence in PyTorch, differentiated by autograd."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nnet3 import cn
from nnet3.cn.node import Node, StoredNode
from tests.cn.reference import FORMULAS, columns

REDUCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "first": lambda x: x[:, :1],
    "last": lambda x: x[:, -1:],
    "sum": lambda x: x.sum(1, keepdim=True),
    "mean": lambda x: x.mean(1, keepdim=True),
    "max": lambda x: x.amax(1, keepdim=True),
}


def _chosen(x: Tensor, numbers: Tensor) -> Tensor:
    """Columns of X, zeros for numbers of none."""
    padded = torch.cat([x, torch.zeros_like(x[:, :1]) if x.shape[1] else x.new_zeros(len(x), 1)], 1)
    places = [n if 0 <= n < x.shape[1] else x.shape[1] for n in numbers.detach()[0].long().tolist()]
    return padded[:, places]


def _lstm(op: Any, x: Tensor, w: Tensor, r: Tensor, b: Tensor) -> Tensor:
    h = c = x.new_zeros(r.shape[1], 1)
    found = {}
    for t in range(x.shape[1])[:: -1 if op.reverse else 1]:
        i, f, g, o = (w @ x[:, t : t + 1] + r @ h + b).chunk(4)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        found[t] = h = torch.sigmoid(o) * torch.tanh(c)
    return torch.cat([found[t] for t in sorted(found)], 1)


def _attention(op: Any, query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    return values @ torch.softmax(keys.T @ query / len(query) ** 0.5, 0)


#: By type of node: functions of the operation and of the operands of one sequence, which has frames
WHOLE: dict[str, Callable[..., Tensor]] = {
    "reduce_sequence": lambda op, x: REDUCTIONS[op.how](x) if x.shape[1] else x.new_zeros(len(x), 1),
    "sequence_softmax": lambda op, x: torch.softmax(x, 1),
    "reverse_sequence": lambda op, x: x.flip(1),
    "broadcast_as": lambda op, x, like: x.expand(-1, like.shape[1]),
    "gather_frames": lambda op, x, numbers: _chosen(x, numbers),
    "sparse_times": lambda op, table, x: table @ x,
    "embedding": lambda op, table, numbers: _chosen(table, numbers),
    "attention": _attention,
    "lstm_layer": _lstm,
    "delay": lambda op, x: _chosen(x, torch.arange(x.shape[1])[None] - op.lag),
}


class StagedReference:
    """Values of nodes, a list of (rows, frames) each, or one without samples; no loops, no defaults; float64."""

    def __init__(self, network: cn.Network, inputs: Mapping[str, cn.Sequences]) -> None:
        self.known: dict[Node, Any] = {}
        for node in network.nodes:
            if isinstance(node, StoredNode):
                self.known[node] = torch.tensor(node.value, dtype=torch.float64, requires_grad=True)
            elif node.operation.is_given:
                arrays = inputs[node.name]
                self.known[node] = [torch.tensor(np.asarray(array, float), requires_grad=True) for array in arrays]
        given = {node.shape.axis: [x.shape[1] for x in self.known[node]] for node in network.inputs}
        self.number = len(next(iter(given.values())))
        self.lengths = {"sequence": [1] * self.number, **given}

    def value(self, node: Node) -> Any:
        if node not in self.known:
            depends = any(isinstance(self.value(each), list) for each in node.operands)
            own = [self._of(node, number) for number in range(self.number if depends else 1)]
            self.known[node] = own if node.shape.has_samples else torch.stack(own).sum(0)
        return self.known[node]

    def _of(self, node: Node, number: int) -> Tensor:
        """The value in one sequence; of a criterion the part of this sequence."""
        values = [self.value(each) for each in node.operands]
        values = [value[number] if isinstance(value, list) else value for value in values]
        if node.shape.has_samples and not self.lengths[node.shape.axis][number]:
            return torch.zeros(node.shape.rows, 0, dtype=torch.float64, requires_grad=True)
        found = {**FORMULAS, **WHOLE}[node.type](node.operation, *values)
        return found if found.requires_grad else found.requires_grad_()  # of a sequence without frames


def compare_stages(network: cn.Network, inputs: Mapping[str, cn.Sequences]) -> None:
    """All values and all gradients of a float64 network in stages against this reference."""
    reference = StagedReference(network, inputs)
    nodes = [node for node in network.nodes if node.is_evaluated]
    for node, value in zip(nodes, network.evaluate(nodes, inputs), strict=True):
        expected = reference.value(node)
        expected = torch.cat(expected, 1) if isinstance(expected, list) else expected
        np.testing.assert_allclose(columns(value), expected.detach(), rtol=1e-8, atol=1e-10, err_msg=repr(node))
    total = sum(weight * reference.value(node)[0, 0] for node, weight in network.criteria.items())
    options = {node: node.operation.options() for node in network.inputs}
    given = [node for node, each in options.items() if each.get("classes") or each.get("sparse")]
    wanted = [node for node in network.nodes if node not in given]
    value, gradients = network.criterion_and_gradients(inputs, wrt=wanted)
    assert abs(value - float(total.detach())) <= 1e-8 * abs(value)
    for node in wanted:
        own = reference.value(node)
        parts = own if isinstance(own, list) else [own]
        found = torch.autograd.grad(total, parts, retain_graph=True, allow_unused=True, materialize_grads=True)
        expected = torch.cat(found, 1)
        ours = columns(gradients[network.names[node]])
        np.testing.assert_allclose(ours, expected, rtol=1e-6, atol=1e-9, err_msg=repr(node))
