"""check_finite: finds the input, parameter or node to which a NaN or an infinity goes back."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from nnet3.cn.network import Network
from nnet3.cn.node import Node
from nnet3.cn.order import need_gradient_flags, needed_nodes
from nnet3.cn.samples import Sequences
from nnet3.cn.sparse import as_array
from nnet3.engine.ir.matrices import is_finite
from nnet3.errors import TrainingError

_ADVICE = "a smaller learning rate may help"
Test = Callable[[np.ndarray], np.ndarray]


class NotFiniteError(TrainingError):
    """The criterion of a minibatch, or its gradient, is NaN or infinite."""


def check_finite(network: Network, batch: Mapping[str, Any], value: float) -> None:
    """Raises NotFiniteError if criterion or gradients are not finite; the message names the first such node."""
    if not math.isfinite(value):
        raise NotFiniteError(f"the criterion is {value}: {_where_values_begin(network, batch, value)}")
    gradients = [tensor.grad for tensor in network.tensors().values() if tensor.grad is not None]
    gradients = [gradient.coalesce().values() if gradient.is_sparse else gradient for gradient in gradients]
    if not all(map(is_finite, gradients)):
        raise NotFiniteError(f"the criterion is {value:g}, but {_where_gradients_begin(network, batch)}")


def _where_values_begin(network: Network, batch: Mapping[str, Any], value: float) -> str:
    is_bad: Test = np.isnan if math.isnan(value) else np.isinf
    needed = needed_nodes(network.nodes, list(network.criteria), ())
    for name in (network.names[node] for node in needed if node.operation.is_given):
        given = list(batch[name]) if isinstance(batch[name], Sequences) else as_array(batch[name], name)
        if network.find(name).shape.has_samples and not isinstance(given, list):
            given = network.turned(given)
        if bad := _first(given, is_bad):
            return f"input '{name}' holds {value} {bad}"
    for name, array in network.parameters().items():
        if bad := _first(array, is_bad):
            return f"parameter '{name}' holds {value} {bad}; {_ADVICE}"
    computed = [node for node in needed if node.is_evaluated]
    # Random numbers are others now: what only one mask of dropout made may not come again.
    evaluate = network.values_in_training if network.training else network.evaluate
    found = [_columns(network, *pair) for pair in zip(computed, evaluate(computed, batch), strict=True)]
    values = dict(zip(computed, found, strict=True))
    for composite in network.composites:
        # In a loop what comes first in time is first; a loop goes back in time if its delays look ahead.
        backward = any(node.lag < 0 for node in composite.nodes)
        bad_in = {n: _first(values[n], is_bad, backward=backward) for n in composite.nodes if n in values}
        first = [(bad.step, node) for node, bad in bad_in.items() if bad]
        if first:
            node = min(first, key=lambda pair: pair[0])[1]
            advice = "" if math.isnan(value) else f"; {_ADVICE}"
            return f"{_shown(network, node)} is the first node that holds {value}, {bad_in[node]}{advice}"
    return _ADVICE


def _where_gradients_begin(network: Network, batch: Mapping[str, Any]) -> str:
    flags = need_gradient_flags(list(network.criteria))
    nodes = [node for node in network.nodes if flags.get(node, False) and node.operands]
    gradients = network.gradients(batch, wrt=nodes)
    for node in reversed(nodes):
        if bad := _first(_columns(network, node, gradients.pop(network.names[node])), _is_not_finite):
            return f"the gradient of {_shown(network, node)} is the first that is not finite, {bad}"
    for name, gradient in gradients.items():
        if bad := _first(gradient, _is_not_finite):
            return f"the gradient of '{name}' is not finite {bad}"
    return f"its gradient is not finite; {_ADVICE}"


def _columns(network: Network, node: Node, value: Any) -> Any:
    """Returns a value with a column a sample, whatever the layout of the network is."""
    return network.turned(value) if node.shape.has_samples else value


def _shown(network: Network, node: Node) -> str:
    return f"'{network.names[node]}' ({node.type})"


def _is_not_finite(array: np.ndarray) -> np.ndarray:
    return ~np.isfinite(array)


@dataclass(frozen=True)
class _BadValue:
    """A column, of a sequence if there are several, and a row of a value; `step` is when it is computed in a loop."""

    column: int
    sequence: int | None
    row: int
    step: int

    def __str__(self) -> str:
        sequence = "" if self.sequence is None else f" of sequence {self.sequence}"
        return f"in column {self.column}{sequence}, row {self.row}"


def _first(value: Any, is_bad: Test, *, backward: bool = False) -> _BadValue | None:
    """Returns the first column of a matrix, or of a list of sequences, that has a bad element."""
    found = []
    for number, array in enumerate(value if isinstance(value, list) else [np.atleast_2d(value)]):
        bad = is_bad(array)
        columns = np.flatnonzero(bad.any(axis=0))
        if len(columns):
            column = int(columns[-1 if backward else 0])
            step = -column if backward else column
            found.append((step, number, column, int(bad[:, column].argmax())))
    if not found:
        return None
    step, number, column, row = min(found)
    return _BadValue(column, number if isinstance(value, list) else None, row, step)
