"""Gradients of a network's criteria."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nnet3.cn.evaluation import EvaluatedNetwork
from nnet3.cn.network_state import takes_turns
from nnet3.cn.node import Node
from nnet3.cn.order import need_gradient_flags, needed_nodes
from nnet3.cn.program import Question
from nnet3.cn.samples import SampleLayout
from nnet3.errors import ArgumentError, GradientError, NetworkError


class DifferentiatedNetwork(EvaluatedNetwork):
    """Base of `Network`: gradients."""

    def gradients(
        self, inputs: Mapping[str, Any], *, wrt: Sequence[Node | str] = (), training: bool | None = None
    ) -> dict[str, np.ndarray | list[np.ndarray]]:
        """The gradient of the criterion, summed over samples, by the name of each trainable parameter: (rows, columns).

        `wrt`: other nodes whose gradients are wanted too, of the shape of their values. Going against a gradient
        makes the criterion smaller. `training`: in training mode, by default as the network is (see `train`).
        Raises GradientError where something between has no gradient.
        """
        return self.criterion_and_gradients(inputs, wrt=wrt, training=training)[1]

    @takes_turns
    def criterion_and_gradients(
        self, inputs: Mapping[str, Any], *, wrt: Sequence[Node | str] = (), training: bool | None = None
    ) -> tuple[float, dict[str, Any]]:
        """The weighted sum of the criteria, and `gradients` of it."""
        if isinstance(wrt, Node | str) or not isinstance(wrt, Iterable):
            raise ArgumentError(f"wrt must be a list of nodes or names, got {wrt!r}")
        extra = tuple(self.find(node) for node in wrt)
        value, layout, found = self._backward(inputs, self.criteria, extra, training)
        result: dict[str, Any] = {}
        for stored in self._differentiated(extra):
            result[self.names[stored]] = self._gradient(stored).detach().cpu().numpy().T.copy()
        for node, operation in self._nodes.components:
            if operation.needs_training:
                for name, tensor in operation.gradient_kernel().parameters().items():
                    result[f"{self.names[node]}.{name}"] = tensor.detach().cpu().numpy().copy()
        for node in extra:
            if not node.is_stored:
                rows = found[node] if node in found else self._zero_gradient(node, layout)
                result[self.names[node]] = self._shown(node, rows, layout)
        return value, result

    @takes_turns
    def backward(self, inputs: Mapping[str, Any], *, training: bool | None = None, per_sample: bool = False) -> float:
        """The criterion; its gradients are left in the memory that `tensors` shows, as the `grad` of these tensors.

        In training mode batch-norm collects its statistics here. With `per_sample` the criterion is that of (1.2): what
        is summed over samples is divided by their number, and what belongs to no sample (regularization) is not.
        """
        weights = self.criteria if not per_sample else self._weights_per_sample(inputs)
        value = self._backward(inputs, weights, (), training, stores_statistics=True)[0]
        self.tensors()  # an optimizer may have taken the gradients off
        return value

    def _weights_per_sample(self, inputs: Mapping[str, Any]) -> dict[Node, float]:
        layout = self._take(tuple(self.criteria), inputs)
        samples = 1 if layout is None else layout.num_samples
        weights = terms(self.criteria)
        for node in weights:
            if any(below.shape.has_samples for below in needed_nodes(self._nodes.nodes, [node], ())):
                weights[node] /= samples
        return weights

    def _differentiated(self, extra: Sequence[Node]) -> list[Node]:
        """Parameters and statistics whose gradients are wanted."""
        trainable: list[Node] = [node for node in self._nodes.parameters if node.trainable]
        return trainable + [node for node in extra if node.is_stored and node not in trainable]

    def _zero_gradient(self, node: Node, layout: SampleLayout | None) -> Tensor:
        if not node.shape.has_samples:
            return torch.zeros(node.shape.cols or 1, node.shape.rows, dtype=self.dtype)
        samples = self._nodes.layout_of(node, layout).num_samples
        return torch.zeros(samples, node.shape.rows, dtype=self.dtype)

    def _backward(
        self,
        inputs: Mapping[str, Any],
        criteria: Mapping[Node, float],
        extra: tuple[Node, ...],
        training: bool | None,
        *,
        stores_statistics: bool = False,
    ) -> tuple[float, SampleLayout | None, dict[Node, Tensor]]:
        if not criteria:
            raise NetworkError("the network has no criterion")
        training = self.training if training is None else training
        roots = tuple(criteria)
        flags = need_gradient_flags(roots, dict.fromkeys(extra, True))
        needed = needed_nodes(self._nodes.nodes, roots, ())
        check_gradients_exist(needed, flags, self.names)
        layout = self._take(roots, inputs)
        final = tuple(
            dict.fromkeys(n for n in self._carried().values() if n in needed and n not in roots and n.operands)
        )
        probes = tuple(node for node in extra if node.is_evaluated and node in needed)
        question = Question(
            self._nodes,
            (*roots, *final),
            layout,
            criteria=tuple(root for root in roots if flags[root]),
            flags={node: True for node, flag in flags.items() if flag},
            probes=probes,
            training=training,
            stores_statistics=stores_statistics
            and training
            and any(operation.stores_statistics for _, operation in self._nodes.components),
        )
        runner = self._runner(question)
        for stored in self._differentiated(extra):
            self._gradient(stored).zero_()
        for _, operation in self._nodes.components:
            if operation.collects:
                operation.gradient_kernel().scale_(0.0)
        values = runner.forward({node: self._stamps.value(node) for node in needed if node in self._nodes.inputs})
        self._last = self._times_given(final), layout, {node: values[node] for node in final}
        found = runner.backward(criteria) if question.criteria else {}
        value = sum(weight * float(values[node]) for node, weight in criteria.items())
        if question.stores_statistics and math.isfinite(value):
            for _, operation in self._nodes.components:
                operation.take_statistics()
        return value, layout, found

    def _times_given(self, nodes: Iterable[Node]) -> dict[Node, int | None]:
        """The times at which the inputs that the nodes need got their values."""
        needed = needed_nodes(self._nodes.inputs, nodes, ())
        return {node: self._stamps.time_given(node) for node in needed}

    def _carried(self) -> dict[Node, Node]:
        """The nodes whose last frames are the initial states of what follows, by the inputs that these are."""
        return {delay.initial: delay.operands[0] for delay in self._nodes.delays if delay.initial is not None}

    @takes_turns
    def final_states(self, inputs: Mapping[str, Any]) -> dict[str, list[np.ndarray]]:
        """For each initial state the frames that follow on it: all frames of what is delayed, by sequence.

        Those of the last gradient, if it was of these inputs; else they are evaluated.
        """
        carried = self._carried()
        self._take(tuple(carried.values()), inputs)
        times, layout, found = self._last
        if layout is None or any(n not in found for n in carried.values()) or times != self._times_given(found):
            values = self.evaluate(list(carried.values()), inputs)
            return dict(zip([self.names[state] for state in carried], values, strict=True))
        return {self.names[state]: self._shown(node, found[node], layout) for state, node in carried.items()}


def check_gradients_exist(nodes: Iterable[Node], flags: Mapping[Node, bool], names: Mapping[Node, str]) -> None:
    """Raise GradientError for a node through which a gradient would have to pass but cannot."""
    for node in nodes:
        for place, operand in enumerate(node.operands):
            if flags.get(operand, False) and flags.get(node, False):
                try:
                    node.operation.check_gradient(place)
                except GradientError as error:
                    where = f"\n  {node.place}" if node.place.line else ""
                    raise GradientError(f"'{names[node]}': {error}{where}") from None


def terms(criteria: Mapping[Node, float]) -> dict[Node, float]:
    """The terms of which criteria are sums, with weights, for (1.2): sums and constant factors are dissolved."""
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
