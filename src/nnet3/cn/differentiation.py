"""Gradients of a network's criteria."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nnet3.cn.evaluation import EvaluatedNetwork
from nnet3.cn.network_state import takes_turns
from nnet3.cn.node import Node, StoredNode
from nnet3.cn.order import need_gradient_flags, needed_nodes
from nnet3.cn.program import Question
from nnet3.cn.samples import Layout
from nnet3.errors import ArgumentError, GradientError, NetworkError


class DifferentiatedNetwork(EvaluatedNetwork):
    """Base of `Network`: gradients."""

    def gradients(
        self, inputs: Mapping[str, Any], *, wrt: Sequence[Node | str] = (), training: bool = True
    ) -> dict[str, np.ndarray | list[np.ndarray]]:
        """The gradient of the criterion, summed over samples, by the name of each trainable parameter: (rows, columns).

        `wrt`: other nodes whose gradients are wanted too, of the shape of their values. Going against a gradient
        makes the criterion smaller. Raises GradientError where something between has no gradient.
        """
        return self.criterion_and_gradients(inputs, wrt=wrt, training=training)[1]

    @takes_turns
    def criterion_and_gradients(
        self, inputs: Mapping[str, Any], *, wrt: Sequence[Node | str] = (), training: bool = True
    ) -> tuple[float, dict[str, Any]]:
        """The weighted sum of the criteria, and `gradients` of it."""
        if isinstance(wrt, Node | str) or not isinstance(wrt, Iterable):
            raise ArgumentError(f"wrt must be a list of nodes or names, got {wrt!r}")
        extra = tuple(self.find(node) for node in wrt)
        value, layout, found = self._backward(inputs, extra, training)
        result: dict[str, Any] = {}
        for stored in self._differentiated(extra):
            result[self.names[stored]] = self._gradient(stored).detach().cpu().numpy().T.copy()
        for node, operation in self._component_operations():
            if operation.needs_training:
                for name, tensor in operation.gradient_kernel().parameters().items():
                    result[f"{self.names[node]}.{name}"] = tensor.detach().cpu().numpy().copy()
        for node in extra:
            if not isinstance(node, StoredNode):
                rows = found.get(node)
                if rows is None:
                    rows = torch.zeros_like(self._zero_gradient(node, layout))
                result[self.names[node]] = self._shown(node, rows, layout)
        return value, result

    @takes_turns
    def backward(self, inputs: Mapping[str, Any], *, training: bool = True) -> float:
        """The criterion; its gradients are left in the memory that `tensors` shows, as the `grad` of these tensors."""
        value = self._backward(inputs, (), training)[0]
        self.tensors()  # an optimizer may have taken the gradients off
        return value

    def _differentiated(self, extra: Sequence[Node]) -> list[StoredNode]:
        """Parameters and statistics whose gradients are wanted."""
        trainable: list[StoredNode] = [node for node in self._parameter_nodes() if node.trainable]
        return trainable + [node for node in extra if isinstance(node, StoredNode) and node not in trainable]

    def _zero_gradient(self, node: Node, layout: Layout | None) -> Tensor:
        if not node.shape.has_samples:
            return torch.zeros(node.shape.cols or 1, node.shape.rows)
        assert layout is not None
        lag = self._nodes.states.get(node)
        return torch.zeros((layout if lag is None else layout.of_states(lag)).num_samples, node.shape.rows)

    def _backward(
        self, inputs: Mapping[str, Any], extra: tuple[Node, ...], training: bool
    ) -> tuple[float, Layout | None, dict[Node, Tensor]]:
        if not self.criteria:
            raise NetworkError("the network has no criterion")
        roots = tuple(self.criteria)
        flags = need_gradient_flags(roots, dict.fromkeys(extra, True))
        needed = needed_nodes(self._nodes.nodes, roots, ())
        check_gradients_exist(needed, flags, self.names)
        layout = self._take(roots, inputs)
        final = tuple(
            dict.fromkeys(n for n in self._carried().values() if n in needed and n not in roots and n.operands)
        )
        computed = (node for node in extra if node.operands and not isinstance(node, StoredNode))
        probes = tuple(node for node in computed if node in needed)
        question = Question(
            self._nodes,
            (*roots, *final),
            layout,
            criteria=tuple(root for root in roots if flags[root]),
            flags={node: True for node, flag in flags.items() if flag},
            probes=probes,
        )
        runner = self._runner(question)
        for stored in self._differentiated(extra):
            self._gradient(stored).zero_()
        for _, operation in self._component_operations():
            if operation.needs_training:
                operation.gradient_kernel().scale_(0.0)
        self.state.training = training
        values = runner.forward({node: self._stamps.value(node) for node in needed if node in self._nodes.inputs})
        self._last = inputs, layout, {node: values[node] for node in final}
        found = runner.backward(self.criteria) if question.criteria else {}
        return sum(weight * float(values[node]) for node, weight in self.criteria.items()), layout, found

    def _carried(self) -> dict[Node, Node]:
        """The nodes whose last frames are the initial states of what follows, by the inputs that these are."""
        nodes = self._nodes.nodes
        return {n.operands[1]: n.operands[0] for n in nodes if n.type == "delay" and len(n.operands) == 2}

    @takes_turns
    def final_states(self, inputs: Mapping[str, Any]) -> dict[str, list[np.ndarray]]:
        """For each initial state the frames that follow on it: all frames of what is delayed, by sequence.

        Those of the last gradient, if it was of these inputs; else they are evaluated.
        """
        carried = self._carried()
        last, layout, found = self._last
        if last is not inputs or layout is None or any(node not in found for node in carried.values()):
            return dict(
                zip([self.names[s] for s in carried], self.evaluate(list(carried.values()), inputs), strict=True)
            )
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
