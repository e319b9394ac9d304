"""A criterion taken apart into its terms, for (1.2): those that are summed over samples are divided by their number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nnet3.cn.node import Node
from nnet3.cn.nodes.activations import Copy, Negate
from nnet3.cn.nodes.leaves import ParameterNode
from nnet3.cn.nodes.scaling import Scale
from nnet3.cn.nodes.sums import ElementTimes, Minus, Plus
from nnet3.cn.order import needed_nodes


def terms(criteria: Mapping[Node, float]) -> dict[Node, float]:
    """The terms and weights that criteria are sums of: sums, differences and constant factors are dissolved."""
    found: dict[Node, float] = {}
    waiting = list(criteria.items())
    while waiting:
        node, weight = waiting.pop()
        parts = list(_parts(node))
        waiting += [(part, weight * factor) for part, factor in parts]
        if not parts:
            found[node] = found.get(node, 0.0) + weight
    return found


def _parts(node: Node) -> Iterator[tuple[Node, float]]:
    """What a number is a linear combination of, with factors; nothing if it is something else."""
    operands = node.operands
    if isinstance(node.operation, Plus | Minus):
        yield operands[0], 1.0
        yield operands[1], -1.0 if isinstance(node.operation, Minus) else 1.0
    elif isinstance(node.operation, Copy | Negate):
        yield operands[0], -1.0 if isinstance(node.operation, Negate) else 1.0
    elif isinstance(node.operation, Scale | ElementTimes):
        for factor, other in (operands, operands[::-1]):
            if isinstance(factor, ParameterNode) and not factor.trainable:
                yield other, float(factor.memory[0, 0])
                return


def depends_on_samples(node: Node, nodes: list[Node]) -> bool:
    """Whether the value depends on the samples of a minibatch; `nodes`: all nodes of the network, in forward order."""
    return any(below.shape.has_samples for below in needed_nodes(nodes, [node], ()))
