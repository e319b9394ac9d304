"""Networks in stages (see `computation_stages`): programs, and PyTorch's computations between them; times.

Gradients go back through the programs by their backward parts, and between programs by autograd.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import torch
from torch import Tensor

from nnet3.base.text.html import folded
from nnet3.cn.computation_stages import Stage
from nnet3.cn.graph import NodeGraph
from nnet3.cn.node import Node
from nnet3.cn.node_text import describe_node
from nnet3.cn.program import Question
from nnet3.cn.runners import Runner
from nnet3.cn.samples import Layouts, SampleLayout
from nnet3.cn.sequence_operation import Backward, SampleRows, SequenceOperation
from nnet3.cn.sequence_operation_in_loop import ContextInputs, contexts_of, row_operands
from nnet3.engine.runtime.memory import unrecorded
from nnet3.engine.runtime.profile import CommandTime, Profiler, ProfileReport

Seen = TypeVar("Seen")


@dataclass(frozen=True)
class InStages(Generic[Seen]):
    """The stages of a network, in order: a title with a program, or with None where PyTorch computes.

    In the place of a program may stand its graph, or the task of compiling the graph.
    """

    parts: tuple[tuple[str, Seen | None], ...]

    @property
    def programs(self) -> list[Seen]:
        return [program for _, program in self.parts if program is not None]

    def __str__(self) -> str:
        shown = [f"# {title}" + ("" if program is None else f"\n{program}") for title, program in self.parts]
        return "\n\n".join(shown)

    def _repr_html_(self) -> str:
        return "".join(folded(title, "" if program is None else str(program)) for title, program in self.parts)


def title_of_whole(node: Node, names: Mapping[Node, str]) -> str:
    return f"PyTorch: {describe_node(node, names)}"


class StagesProfiler:
    """Times the programs of a network in stages, and PyTorch's computations in between."""

    def __init__(self, names: Mapping[Node, str]) -> None:
        self._names = names
        self._programs: dict[Runner, Profiler] = {}
        self._wholes: dict[Node, list[tuple[float, float]]] = {}
        self._runs: list[tuple[float, float]] = []

    @contextmanager
    def program(self, runner: Runner) -> Iterator[None]:
        """Observes one run of a program, or of the program's backward part."""
        profiler = self._programs.setdefault(runner, Profiler(runner.computer.computation))
        with runner.computer.observed(profiler):
            yield

    @contextmanager
    def whole(self, node: Node) -> Iterator[None]:
        """Times a node that PyTorch computes."""
        begin = time.perf_counter()
        yield
        self._wholes.setdefault(node, []).append((begin, time.perf_counter() - begin))

    @contextmanager
    def run(self) -> Iterator[None]:
        """Times one run of all stages."""
        begin = time.perf_counter()
        yield
        self._runs.append((begin, time.perf_counter() - begin))

    def report(self) -> ProfileReport:
        """Returns the times of commands, of nodes of whole sequences, and of the rest, in which PyTorch goes back."""
        times = [timing for profiler in self._programs.values() for timing in profiler.report().times]
        for node, found in self._wholes.items():
            times.append(_time(describe_node(node, self._names), "Whole", node.type, self._names[node], found))
        begin, last = self._runs[-1]
        known = sum(timing.seconds for timing in times)
        rest = sum(seconds for _, seconds in self._runs) / len(self._runs) - known
        known_last = sum(timing.last_seconds for timing in times)
        text = "what lies between stages: autograd, values that go from one to the other"
        times.append(
            CommandTime(0, 0, text, "Between", "", "", "", 0, begin, max(0.0, last - known_last), max(0.0, rest))
        )
        return ProfileReport(tuple(times), len(self._runs))


def _time(text: str, kind: str, type: str, node: str, found: list[tuple[float, float]]) -> CommandTime:
    begin, last = found[-1]
    return CommandTime(0, 0, text, kind, "", type, node, 0, begin, last, sum(each for _, each in found) / len(found))


@dataclass(frozen=True, eq=False)
class ProgramCall:
    """One run of a program: the nodes with given values, contexts and outputs; all values are rows.

    `contexts`: the nodes that nodes in a loop read whole, with their samples. `probed` receives gradients of nodes
    inside. `values`: those of the given nodes, then of the contexts. `results`: the outputs that have a gradient.
    """

    runner: Runner
    given: tuple[Node, ...]
    contexts: Mapping[Node, SampleLayout | None]
    layout: SampleLayout | None
    probed: dict[Node, Tensor]
    profiler: StagesProfiler | None
    values: Sequence[Tensor]
    results: dict[Node, Tensor] = field(default_factory=dict)

    def _observed(self) -> AbstractContextManager[None]:
        return nullcontext() if self.profiler is None else self.profiler.program(self.runner)

    def forward(self) -> dict[Node, Tensor]:
        """Returns the outputs; outputs with a gradient are leaves of autograd, and collect `grad`."""
        given = dict(zip(self.given, self.values, strict=False))
        inputs = None
        if self.contexts:
            whole = zip(self.values[len(self.given) :], self.contexts.values(), strict=True)
            rows = (SampleRows(value.detach(), layout) for value, layout in whole)
            contexts = dict(zip(self.contexts, rows, strict=True))
            assert self.layout is not None, "frames have samples"
            inputs = ContextInputs(contexts, self.layout)
        with self._observed():
            found = self.runner.forward(given, inputs)
        self.results.update((node, found[node].requires_grad_()) for node in self.runner.program.question.criteria)
        return found

    def backward(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yields each value with a gradient, and the gradient; nothing if no output has a gradient."""
        if all(value.grad is None for value in self.results.values()):
            return
        seeds = {
            node: torch.zeros_like(value) if value.grad is None else value.grad.contiguous()
            for node, value in self.results.items()
        }
        with self._observed():
            found = self.runner.backward(seeds)
        self.probed.update((node, found[node]) for node in self.runner.program.question.probes)
        whole = self.runner.context_gradients()
        gradients = [*(found.get(node) for node in self.given), *(whole[node] for node in self.contexts)]
        for value, gradient in zip(self.values, gradients, strict=True):
            if gradient is not None and value.requires_grad:
                yield value, gradient


@dataclass(frozen=True, eq=False)
class WholeCall:
    """A node computed without autograd: the operands' values, and the node's value, a leaf that collects `grad`."""

    operands: Sequence[SampleRows]
    value: Tensor
    gradients_of: Backward

    def backward(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yields each operand's value with a gradient, and the gradient; nothing if the value has no gradient."""
        if self.value.grad is None:
            return
        for operand, gradient in zip(self.operands, self.gradients_of(self.value.grad), strict=True):
            if gradient is not None and operand.tensor.requires_grad:
                yield operand.tensor, gradient


@dataclass(frozen=True, eq=False)
class ProgramStage:
    """One program of a run in stages, the program's given values, and the contexts of nodes in its loops."""

    question: Question
    given: tuple[Node, ...]
    contexts: tuple[Node, ...]


@dataclass(eq=False)
class StagesRun:
    """One computation of `needed` nodes: `run` leaves the values of nodes in `keep` in `values`.

    `values` begins with the known values. With `flags` (whether the gradient of each node is needed) values have a
    history for autograd. `leaves`: the parameters read by PyTorch, by node. `probed`: gradients of `probes`.
    `apart`: see `Question`. `known_stages`: the `stages` of an equal run, with equal layouts. `lazy`: the operands of
    nodes that are computed if a user needs them.
    """

    graph: NodeGraph
    runner_of: Callable[[Question], Runner]
    layouts: Layouts
    needed: Collection[Node]
    keep: Collection[Node]
    values: dict[Node, Tensor]
    flags: Mapping[Node, bool] = field(default_factory=dict)
    probes: Collection[Node] = ()
    training: bool = False
    stores_statistics: bool = False
    apart: tuple[str, ...] = ()
    leaves: dict[Node, Tensor] = field(default_factory=dict)
    probed: dict[Node, Tensor] = field(default_factory=dict)
    profiler: StagesProfiler | None = None
    known_stages: Sequence[ProgramStage | Node] | None = None
    calls: list[ProgramCall | WholeCall] = field(default_factory=list)
    lazy: dict[Node, Sequence[SampleRows]] = field(default_factory=dict)

    def run(self) -> None:
        with unrecorded():
            for stage in self.stages() if self.known_stages is None else self.known_stages:
                if isinstance(stage, ProgramStage):
                    self._program(stage)
                else:
                    with nullcontext() if self.profiler is None else self.profiler.whole(stage):
                        self._whole(stage)

    def backward(self, weights: Mapping[Node, float]) -> None:
        """Goes back from the sum of weights times values of nodes, through all stages of a run with `flags`.

        The gradient of each leaf, a given value or a parameter that PyTorch reads, is left as its `grad`.
        """
        waiting: list[tuple[Tensor, Tensor]] = []  # values that PyTorch computed, and parts of their gradients
        for node, weight in weights.items():
            value = self.values[node]
            if value.requires_grad:
                _add_gradient(value, torch.full_like(value, weight), waiting)
        while self.calls:  # what uses a program's outputs has been gone through before the program
            _go_back(waiting, are_more=True)
            for value, gradient in self.calls.pop().backward():
                _add_gradient(value, gradient, waiting)
        _go_back(waiting, are_more=False)

    def stages(self) -> Iterator[ProgramStage | Node]:
        """Yields the stages computed one after another: programs, and nodes of whole sequences."""
        exported, waiting = self._exported(), set(self.needed) - set(self.values)
        for stage in self.graph.stages:
            nodes = [node for node in stage.nodes if node in waiting]
            if nodes:
                yield self._program_stage(stage, nodes, exported) if stage.key.is_program else nodes[0]

    def _exported(self) -> set[Node]:
        """Nodes with wanted values, and nodes used by other stages."""
        stage_of = {node: stage for stage in self.graph.stages for node in stage.nodes}
        used = {
            operand
            for node in self.needed
            for operand in node.operands
            if node in stage_of and stage_of[node] is not stage_of.get(operand)
        }
        return used | set(self.keep)

    def _whole(self, node: Node) -> None:
        """Computes a node, or leaves it until a user needs the value."""
        operation, first = node.operation, node.operands[0]
        assert isinstance(operation, SequenceOperation)
        if operation.is_lazy and node not in self.keep and node not in self.probes:
            self.lazy[node] = self._rows(node.operands)
            return
        if first in self.lazy and node not in self.probes:
            assert isinstance(first.operation, SequenceOperation)
            merged = operation.after(first.operation)
            if merged is not None and self._differentiate(node, merged, self.lazy[first]):
                return
        self._compute(node, operation, self._rows(node.operands))

    def _rows(self, nodes: Sequence[Node]) -> list[SampleRows]:
        return [SampleRows(self._value(node), self._layout(node)) for node in nodes]

    def _differentiate(self, node: Node, operation: SequenceOperation, operands: Sequence[SampleRows]) -> bool:
        """Computes a value by an operation that knows its gradient; returns False for another operation."""
        found = operation.differentiate(operands, self._layout(node))
        if found is None:
            return False
        self.values[node], gradients_of = found
        if self.flags.get(node, False):
            self.calls.append(WholeCall(operands, self.values[node].requires_grad_(), gradients_of))
        return True

    def _compute(self, node: Node, operation: SequenceOperation, operands: Sequence[SampleRows]) -> None:
        with torch.set_grad_enabled(bool(self.flags)):
            value = operation.compute(operands, self._layout(node))
        if node in self.probes and value.requires_grad:
            value.retain_grad()
        elif node in self.probes:  # nothing below needs a gradient
            value = value.detach().requires_grad_()
        self.values[node] = value

    def _layout(self, node: Node) -> SampleLayout | None:
        return self.layouts.of(node.shape.axis) if node.shape.has_samples else None

    def _value(self, node: Node) -> Tensor:
        if not node.is_stored:
            if node not in self.values:
                assert isinstance(node.operation, SequenceOperation)
                self._compute(node, node.operation, self.lazy.pop(node))
            return self.values[node]
        if node not in self.leaves:
            self.leaves[node] = node.memory.detach().requires_grad_(self.flags.get(node, False))
        return self.leaves[node]

    def _program_stage(self, stage: Stage, nodes: Sequence[Node], exported: Collection[Node]) -> ProgramStage:
        inside = set(nodes)
        outputs = tuple(node for node in nodes if node in exported)
        used = dict.fromkeys(operand for node in nodes for operand in row_operands(node) if operand not in inside)
        contexts = tuple(dict.fromkeys(operand for node in nodes for operand in contexts_of(node)))
        given = tuple(node for node in used if not node.is_stored)
        flagged = {node for node in (*nodes, *used, *contexts) if self.flags.get(node, False)}
        has_components = any(node.operation.parameters() for node in nodes)
        question = Question(
            self.graph,
            outputs,
            self._layout_of_stage(stage, (*nodes, *given)),
            given=tuple(node for node in given if node.is_evaluated),
            criteria=tuple(node for node in outputs if node in flagged),
            flags=dict.fromkeys((node for node in self.graph.nodes if node in flagged), True),
            probes=tuple(node for node in nodes if node in self.probes),
            training=self.training,
            stores_statistics=self.stores_statistics and has_components,
            apart=self.apart,
        )
        return ProgramStage(question, given, contexts)

    def _program(self, stage: ProgramStage) -> None:
        question = stage.question
        runner = self.runner_of(question)
        values = [self._value(node) for node in (*stage.given, *stage.contexts)]
        layouts = {node: self._layout(node) for node in stage.contexts}
        call = ProgramCall(runner, stage.given, layouts, question.layout, self.probed, self.profiler, values)
        found = call.forward()
        self.values.update((node, found[node]) for node in question.outputs)
        if question.criteria:
            self.calls.append(call)

    def _layout_of_stage(self, stage: Stage, nodes: Sequence[Node]) -> SampleLayout | None:
        """Returns the samples of a program; None for a program without samples."""
        return self.layouts.of(stage.key.axis) if any(node.shape.has_samples for node in nodes) else None


def _add_gradient(value: Tensor, gradient: Tensor, waiting: list[tuple[Tensor, Tensor]]) -> None:
    """Adds to the gradient of a leaf; what has a history waits for autograd."""
    if not value.is_leaf:
        waiting.append((value, gradient))
    else:
        value.grad = gradient if value.grad is None else value.grad + gradient


def _go_back(waiting: list[tuple[Tensor, Tensor]], *, are_more: bool) -> None:
    """Lets autograd go back from waiting values; `are_more`: more values with the same history may follow."""
    if waiting:
        values, gradients = zip(*waiting, strict=True)
        torch.autograd.backward(values, gradients, retain_graph=are_more)
        waiting.clear()
