"""The roots of a network as users give them: criteria and outputs."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
from torch import Tensor

from nnet3.cn.node import Node
from nnet3.errors import ArgumentError, NetworkError, ShapeError, check_kind

Criteria: TypeAlias = Node | Sequence[Node] | Mapping[Node, float] | None
Outputs: TypeAlias = Mapping[str, Node] | Sequence[Node] | Node | None


def weights_of(criterion: Criteria) -> dict[Node, float]:
    """Returns the criteria with their weights. Raises NetworkError, ArgumentError, ShapeError for invalid criteria."""
    if criterion is None:
        return {}
    if isinstance(criterion, Node):
        criterion = {criterion: 1.0}
    if isinstance(criterion, np.ndarray | Tensor):
        raise ArgumentError("the criterion of a network must be a node, several, or a mapping to weights, got numbers")
    check_kind(criterion, Iterable, "the criterion of a network", "a node, several, or a mapping to weights")
    pairs = list(criterion.items()) if isinstance(criterion, Mapping) else [(node, 1.0) for node in criterion]
    weights: dict[Node, float] = {}
    for node, weight in pairs:
        if not isinstance(node, Node):
            raise NetworkError(f"expected a node as criterion, got {node!r}")
        if not node.shape.is_scalar:
            raise ShapeError(f"a criterion is 1 x 1, but '{node.formula}' is {node.shape}: sum it with sum_elements")
        check_kind(weight, numbers.Real, f"the weight of the criterion '{node.formula}'", "a number")
        if not math.isfinite(weight):
            raise ArgumentError(f"the weight of the criterion '{node.formula}' must be finite, got {weight}")
        weights[node] = weights.get(node, 0.0) + float(weight)
    return weights


def named_outputs(outputs: Outputs) -> dict[str, Node]:
    """Returns outputs by name, nameless ones numbered. Raises NetworkError, ArgumentError for what is no output."""
    if outputs is None:
        return {}
    check_kind(outputs, (Node, Iterable), "the outputs of a network", "a node, several, or a mapping from names")
    nodes = (
        [outputs] if isinstance(outputs, Node) else list(outputs.values() if isinstance(outputs, Mapping) else outputs)
    )
    for node in nodes:
        if not isinstance(node, Node):
            raise NetworkError(f"expected nodes as outputs, got {node!r}")
    if isinstance(outputs, Mapping):
        for name in outputs:
            if not isinstance(name, str) or not name:
                raise NetworkError(f"expected texts as the names of outputs, got {name!r}")
        return dict(outputs)
    named: dict[str, Node] = {}
    given = {node.name for node in nodes}
    for number, node in enumerate(nodes, 1):
        name = node.name or f"output{number}"
        while not node.name and name in given:
            name += "_"
        if named.setdefault(name, node) is not node:
            raise NetworkError(f"two nodes are called '{name}':\n  {named[name].place}\n  {node.place}")
    return named
