"""A criterion taken apart into its terms, for (1.2): those that are summed over samples are divided by their number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nnet3.cn.node import Node
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
    """The nodes of which a number is a linear combination, with factors; nothing if it is something else."""
    yield from zip(node.operands, node.operation.linear_factors, strict=False)
    if node.operation.is_bilinear:
        for factor, other in (node.operands, node.operands[::-1]):
            if factor.is_parameter and not factor.trainable:
                yield other, float(factor.memory[0, 0])
                return


def depends_on_samples(node: Node, nodes: list[Node]) -> bool:
    """Whether the value depends on the samples of a minibatch; `nodes`: all nodes of the network, in forward order."""
    return any(below.shape.has_samples for below in needed_nodes(nodes, [node], ()))
