"""Gradients of a network's criteria."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nnet3.cn.evaluation import EvaluatedNetwork
from nnet3.cn.layouts import Layouts
from nnet3.cn.network_state import takes_turns
from nnet3.cn.node import Node
from nnet3.cn.order import need_gradient_flags, needed_nodes
from nnet3.cn.program import Question
from nnet3.cn.staged import StagedRun
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
            gradient = self._gradient(stored).detach()
            result[self.names[stored]] = (
                (gradient.to_dense() if gradient.is_sparse else gradient).cpu().numpy().T.copy()
            )
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
        layouts = self._take(tuple(self.criteria), inputs)
        return {node: weight / num_terms(node, layouts) for node, weight in terms(self.criteria).items()}

    def _differentiated(self, extra: Sequence[Node]) -> list[Node]:
        """Parameters and statistics whose gradients are wanted."""
        trainable: list[Node] = [node for node in self._nodes.parameters if node.trainable]
        return trainable + [node for node in extra if node.is_stored and node not in trainable]

    def _zero_gradient(self, node: Node, layouts: Layouts) -> Tensor:
        if not node.shape.has_samples:
            return torch.zeros(node.shape.num_cols or 1, node.shape.rows, dtype=self.dtype)
        samples = self._nodes.layout_of(node, layouts.on(node.shape.axis)).num_samples
        return torch.zeros(samples, node.shape.rows, dtype=self.dtype)

    def _backward(
        self,
        inputs: Mapping[str, Any],
        criteria: Mapping[Node, float],
        extra: tuple[Node, ...],
        training: bool | None,
        *,
        stores_statistics: bool = False,
    ) -> tuple[float, Layouts, dict[Node, Tensor]]:
        if not criteria:
            raise NetworkError("the network has no criterion")
        training = self.training if training is None else training
        roots = tuple(criteria)
        flags = need_gradient_flags(roots, dict.fromkeys(extra, True))
        needed = needed_nodes(self._nodes.nodes, roots, ())
        check_gradients_exist(needed, flags, self.names)
        layouts = self._take(roots, inputs)
        final = tuple(
            dict.fromkeys(n for n in self._carried().values() if n in needed and n not in roots and n.operands)
        )
        probes = tuple(node for node in extra if node.is_evaluated and node in needed)
        has_statistics = any(operation.stores_statistics for _, operation in self._nodes.components)
        stores = stores_statistics and training and has_statistics
        if self._nodes.is_staged:
            return self._backward_in_stages(criteria, extra, final, needed, flags, layouts, training, stores)
        question = Question(
            self._nodes,
            (*roots, *final),
            layouts.on(""),
            criteria=tuple(root for root in roots if flags[root]),
            flags={node: True for node, flag in flags.items() if flag},
            probes=probes,
            training=training,
            stores_statistics=stores,
        )
        runner = self._runner(question)
        self._clear_gradients(extra)
        values = runner.forward({node: self._stamps.value(node) for node in needed if node in self._nodes.inputs})
        self._last = self._times_given(final), layouts, {node: values[node] for node in final}
        found = runner.backward(criteria) if question.criteria else {}
        value = sum(weight * float(values[node]) for node, weight in criteria.items())
        self._take_statistics(stores and math.isfinite(value))
        return value, layouts, found

    def _backward_in_stages(
        self,
        criteria: Mapping[Node, float],
        extra: Sequence[Node],
        final: Sequence[Node],
        needed: Sequence[Node],
        flags: Mapping[Node, bool],
        layouts: Layouts,
        training: bool,
        stores: bool,
    ) -> tuple[float, Layouts, dict[Node, Tensor]]:
        known = {node: self._stamps.value(node) for node in needed if node in self._nodes.inputs}
        for node in known:
            if flags.get(node, False):
                known[node] = known[node].detach().requires_grad_()
        given = dict(known)
        run = StagedRun(
            self, layouts, needed, (*criteria, *final), known, flags, extra, training, stores_statistics=stores
        )
        self._clear_gradients(extra)
        run.run()
        value = sum(weight * float(run.values[node].detach()) for node, weight in criteria.items())
        wanted = [node for node in criteria if run.values[node].requires_grad]
        if wanted:
            weights = [torch.full_like(run.values[node], criteria[node]) for node in wanted]
            torch.autograd.backward([run.values[node] for node in wanted], weights)
        self._last = self._times_given(final), layouts, {node: run.values[node].detach() for node in final}
        for node, leaf in run.leaves.items():
            if leaf.grad is not None:
                self._gradient(node).add_(leaf.grad)
        found = dict(run.probed)
        for node in extra:
            tensor = given.get(node, run.values.get(node))
            if node not in found and tensor is not None and tensor.grad is not None:
                found[node] = tensor.grad
        self._take_statistics(stores and math.isfinite(value))
        return value, layouts, found

    def _clear_gradients(self, extra: Sequence[Node]) -> None:
        for stored in self._differentiated(extra):
            self._gradient(stored).zero_()
        for _, operation in self._nodes.components:
            if operation.collects:
                operation.gradient_kernel().scale_(0.0)

    def _take_statistics(self, are_stored: bool) -> None:
        if are_stored:
            for _, operation in self._nodes.components:
                operation.take_statistics()

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
        times, layouts, found = self._last
        if any(n not in found for n in carried.values()) or times != self._times_given(found):
            values = self.evaluate(list(carried.values()), inputs)
            return dict(zip([self.names[state] for state in carried], values, strict=True))
        return {self.names[state]: self._shown(node, found[node], layouts) for state, node in carried.items()}


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


def num_terms(node: Node, layouts: Layouts) -> int:
    """The number of samples over which a term of a criterion is summed, 1 if it depends on none.

    They are those of the nearest nodes below that have samples; where these lie on several axes, the sequences.
    """
    waiting, seen, axes = [node], set[Node](), set[str]()
    while waiting:
        below = waiting.pop()
        if below in seen:
            continue
        seen.add(below)
        if below.shape.has_samples:
            axes.add(below.shape.axis)
        else:
            waiting += below.operands
    return layouts.num_samples(axes.pop()) if len(axes) == 1 else layouts.num_sequences if axes else 1
