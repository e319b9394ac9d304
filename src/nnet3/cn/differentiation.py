"""Gradients of a network's criteria."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nnet3.cn.evaluation import EvaluatedNetwork
from nnet3.cn.network_state import takes_turns
from nnet3.cn.node import Node
from nnet3.cn.order import needed_nodes
from nnet3.cn.program import Question
from nnet3.cn.samples import Layouts
from nnet3.cn.stages_run import ProgramStage, StagesRun
from nnet3.engine.runtime.memory import unrecorded
from nnet3.errors import ArgumentError, NetworkError


@dataclass(frozen=True)
class Differentiated:
    """One run forward and backward: the criterion, the samples, and results of nodes, as rows.

    `gradients`: of inputs, probed and given nodes; gradients of parameters lie in memory. `values`: of criteria and
    watched nodes.
    """

    criterion: float
    layouts: Layouts
    gradients: dict[Node, Tensor]
    values: dict[Node, Tensor]


@dataclass(frozen=True)
class Counted:
    """A sum over samples, and the number of samples; 1 for a value without samples."""

    total: float
    count: int


@dataclass
class _GradientTask:
    """The gradient of some criteria, for any samples: the nodes whose values are wanted, the nodes whose last frames
    are kept, all nodes needed by these, the inputs among the needed nodes, and the question for the last samples;
    where there are stages, these for the last samples.
    """

    roots: tuple[Node, ...]
    final: tuple[Node, ...]
    needed: list[Node]
    given: list[Node]
    question: Question
    stages: tuple[Layouts, list[ProgramStage | Node]] | None = None


class DifferentiatedNetwork(EvaluatedNetwork):
    """Base of `Network`: gradients."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._tasks: dict[tuple[object, ...], _GradientTask] = {}
        super().__init__(*args, **kwargs)

    def gradients(
        self, inputs: Mapping[str, Any], *, wrt: Sequence[Node | str] = (), training: bool | None = None
    ) -> dict[str, np.ndarray | list[np.ndarray]]:
        """Returns the criterion's gradient, summed over samples, by name of each trained parameter: (rows, columns).

        `wrt`: further nodes whose gradients are wanted, of the shape of their values. Going against a gradient
        makes the criterion smaller. `training`: in training mode, by default the network's mode (see `train`).
        Raises GradientError where a node in between has no gradient.
        """
        return self.criterion_and_gradients(inputs, wrt=wrt, training=training)[1]

    @takes_turns
    def criterion_and_gradients(
        self, inputs: Mapping[str, Any], *, wrt: Sequence[Node | str] = (), training: bool | None = None
    ) -> tuple[float, dict[str, Any]]:
        """Returns the weighted sum of the criteria, and `gradients` of it."""
        extra = self.nodes_wrt(wrt)
        found = self._backward(inputs, self.criteria, extra, training)
        return found.criterion, self.shown_gradients(found, extra)

    def nodes_wrt(self, wrt: Sequence[Node | str]) -> tuple[Node, ...]:
        """Returns the nodes of `wrt`. Raises ArgumentError for anything but a list of nodes or names."""
        if isinstance(wrt, Node | str) or not isinstance(wrt, Iterable):
            raise ArgumentError(f"wrt must be a list of nodes or names, got {wrt!r}")
        return tuple(self.find(node) for node in wrt)

    def shown_gradients(self, found: Differentiated, extra: Sequence[Node]) -> dict[str, Any]:
        """Returns the gradients that a run has found or left in memory, as users see them, by name."""
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
                known = found.gradients
                rows = known[node] if node in known else self._zero_gradient(node, found.layouts)
                result[self.names[node]] = self._shown(node, rows, found.layouts)
        return result

    @takes_turns
    def backward(self, inputs: Mapping[str, Any], *, training: bool | None = None, per_sample: bool = False) -> float:
        """Returns the criterion; its gradients are left in the tensors of `tensors`, as their `grad`.

        In training mode batch-norm collects statistics here. With `per_sample` the criterion is as in (1.2): sums over
        samples are divided by the number of samples, terms without samples (regularization) are not.
        """
        if per_sample:
            return self.backward_per_sample(inputs, training=training)["criterion"].total
        value = self._backward(inputs, self.criteria, (), training, stores_statistics=True).criterion
        self._show_gradients()
        return value

    @takes_turns
    def backward_per_sample(
        self,
        inputs: Mapping[str, Any],
        watched: Mapping[str, Node] | None = None,
        *,
        training: bool | None = None,
        add_up: Callable[[list[int]], list[int]] = list,
    ) -> dict[str, Counted]:
        """Runs `backward` for the criterion per sample; returns its value and those of the `watched` nodes (1 x 1).

        Under "criterion" is the mean over samples, with the number of samples. `add_up` makes numbers of samples of
        this process into numbers of all processes that share the minibatch; then the gradients, and the criterion, are
        this process's share of the sum.
        """
        watched = watched or {}
        layouts = self._take((*self.criteria, *watched.values()), inputs)
        parts = terms(self.criteria)
        numbers = add_up([num_terms(node, layouts) for node in parts])
        weights = {node: weight / number for (node, weight), number in zip(parts.items(), numbers, strict=True)}
        found = self._backward(inputs, weights, (), training, stores_statistics=True, watched=tuple(watched.values()))
        self._show_gradients()
        counted = {"criterion": Counted(found.criterion, self._num_samples(layouts))}
        for name, node in watched.items():
            counted[name] = Counted(float(found.values[node].detach()), num_terms(node, layouts))
        return counted

    @takes_turns
    def totals(self, inputs: Mapping[str, Any], watched: Mapping[str, Node] | None = None) -> dict[str, Counted]:
        """Returns the numbers of `backward_per_sample` in test mode, without gradients."""
        parts, watched = terms(self.criteria), watched or {}
        nodes = list(dict.fromkeys((*parts, *watched.values())))
        values, layouts = self._values_of(nodes, inputs)
        mean = sum(weight * float(values[node]) / num_terms(node, layouts) for node, weight in parts.items())
        counted = {"criterion": Counted(mean, self._num_samples(layouts))}
        counted |= {name: Counted(float(values[node]), num_terms(node, layouts)) for name, node in watched.items()}
        return counted

    def _num_samples(self, layouts: Layouts) -> int:
        """Returns a minibatch's number of samples; with several axes, the samples that the first criterion sums."""
        return num_terms(next(iter(self.criteria)), layouts) if self._nodes.is_staged else layouts.num_samples("")

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
        watched: tuple[Node, ...] = (),
    ) -> Differentiated:
        if not criteria:
            raise NetworkError("the network has no criterion")
        training = self.training if training is None else training
        stores = stores_statistics and training and any(op.stores_statistics for _, op in self._nodes.components)
        task = self._gradient_task(tuple(criteria), extra, watched, training, stores)
        layouts = self._take(task.roots, inputs)
        if self._nodes.is_staged:
            asked = task.question
            run = self._staged(
                *(layouts, task.needed, asked.outputs, {}, asked.flags, extra),
                training=training,
                stores_statistics=stores,
            )
            if task.stages is None or task.stages[0] is not layouts:
                task.stages = layouts, list(run.stages())
            run.known_stages = task.stages[1]
            with unrecorded():
                return self._backward_in_stages(run, criteria, extra, task.final)
        layout = layouts.on("")
        if task.question.layout is not layout:
            task.question = replace(task.question, layout=layout)
        runner = self._runner(task.question)
        with unrecorded():
            self._clear_gradients(extra, runner.overwritten)
            values = runner.forward({node: self._stamps.value(node) for node in task.given})
            self._last = self._times_given(task.final), layouts, {node: values[node] for node in task.final}
            found = runner.backward(criteria) if task.question.criteria else {}
        value = sum([weight * values[node].item() for node, weight in criteria.items()])
        self._take_statistics(stores and math.isfinite(value))
        return Differentiated(value, layouts, found, values)

    def _gradient_task(
        self,
        criteria: tuple[Node, ...],
        extra: tuple[Node, ...],
        watched: tuple[Node, ...],
        training: bool,
        stores: bool,
    ) -> _GradientTask:
        graph, apart = self._nodes, tuple(self.recorders)
        key = criteria, extra, watched, training, stores, apart, graph.learning
        found = self._tasks.get(key)
        if found is None:
            flags, roots = graph.gradient_flags(criteria, extra), tuple(dict.fromkeys((*criteria, *watched)))
            needed = graph.below(roots)
            carried = [n for n in graph.carried.values() if n in needed and n not in roots and n.operands]
            final = tuple(dict.fromkeys(carried))
            question = Question(
                graph,
                (*roots, *final),
                None,
                criteria=tuple(root for root in criteria if flags[root]),
                flags=flags,
                probes=tuple(node for node in extra if node.is_evaluated and node in needed),
                training=training,
                stores_statistics=stores,
                accumulates=False,
                apart=apart,
            )
            given = [node for node in graph.inputs if node in needed]
            found = self._tasks[key] = _GradientTask(roots, final, needed, given, question)
        return found

    def _backward_in_stages(
        self, run: StagesRun, criteria: Mapping[Node, float], extra: Sequence[Node], final: Sequence[Node]
    ) -> Differentiated:
        for node in run.needed:
            if node in self._nodes.inputs:
                rows = self._stamps.value(node)
                run.values[node] = rows.detach().requires_grad_() if run.flags.get(node, False) else rows
        given = dict(run.values)
        found_whole = self._nodes.read_by_pytorch
        self._clear_gradients(extra, found_whole)
        run.run()
        value = sum([weight * run.values[node].item() for node, weight in criteria.items()])
        run.backward(criteria)
        self._last = self._times_given(final), run.layouts, {node: run.values[node].detach() for node in final}
        for node, leaf in run.leaves.items():
            if leaf.grad is not None and node not in found_whole:
                self._gradient(node).add_(leaf.grad)
        for node in self._differentiated(extra):
            if node in found_whole:
                gradient = run.leaves[node].grad if node in run.leaves else None
                if gradient is None:
                    self._gradient(node).zero_()
                else:
                    self._gradients[node] = gradient
        found = dict(run.probed)
        for node in extra:
            tensor = given.get(node, run.values.get(node))
            if node not in found and tensor is not None and tensor.grad is not None:
                found[node] = tensor.grad
        self._take_statistics(run.stores_statistics and math.isfinite(value))
        return Differentiated(value, run.layouts, found, {node: run.values[node] for node in run.keep})

    def _clear_gradients(self, extra: Sequence[Node], overwritten: Collection[Node] = ()) -> None:
        for stored in self._differentiated(extra):
            if stored not in overwritten:
                self._gradient(stored).zero_()
        for _, operation in self._nodes.components:
            if operation.collects:
                operation.gradient_kernel().scale_(0.0)

    def _take_statistics(self, are_stored: bool) -> None:
        if are_stored:
            for _, operation in self._nodes.components:
                operation.take_statistics()

    def _times_given(self, nodes: Collection[Node]) -> dict[Node, int | None]:
        """Returns the times at which the inputs of the nodes got values."""
        if not nodes:
            return {}
        needed = needed_nodes(self._nodes.inputs, nodes, ())
        return {node: self._stamps.time_given(node) for node in needed}

    @takes_turns
    def final_states(self, inputs: Mapping[str, Any]) -> dict[str, list[np.ndarray]]:
        """Returns the next frames of each initial state: all frames of the delayed value, by sequence.

        The frames are from the last gradient, if of these inputs; else they are evaluated.
        """
        carried = self._nodes.carried
        self._take(tuple(carried.values()), inputs)
        times, layouts, found = self._last
        if any(n not in found for n in carried.values()) or times != self._times_given(found):
            values = self.evaluate(list(carried.values()), inputs)
            return dict(zip([self.names[state] for state in carried], values, strict=True))
        return {self.names[state]: self._shown(node, found[node], layouts) for state, node in carried.items()}


def terms(criteria: Mapping[Node, float]) -> dict[Node, float]:
    """Returns the terms of criteria, with weights, for (1.2): sums and constant factors are dissolved."""
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
    """Yields the nodes of a linear combination, with their factors; nothing for a node of another kind."""
    yield from zip(node.operands, node.operation.linear_factors, strict=False)
    if node.operation.is_bilinear:
        for factor, other in (node.operands, node.operands[::-1]):
            if factor.is_parameter and not factor.trainable:
                yield other, float(factor.memory[0, 0])
                return


def num_terms(node: Node, layouts: Layouts) -> int:
    """Returns the number of samples over which a term of a criterion is summed, 1 for a term without samples.

    The samples are those of the nearest nodes below with samples; where these lie on several axes, the sequences.
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
