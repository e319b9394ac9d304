"""Networks in stages (see `computation_stages`): programs, and PyTorch's computations between them; times.

Autograd goes through all stages: a program is a function whose derivative is the program's backward part.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

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
from nnet3.cn.sequence_operation import SampleRows, SequenceOperation
from nnet3.cn.sequence_operation_in_loop import ContextInputs, contexts_of, row_operands
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
        """Observe one run of a program, or of the program's backward part."""
        profiler = self._programs.setdefault(runner, Profiler(runner.computer.computation))
        with runner.computer.observed(profiler):
            yield

    @contextmanager
    def whole(self, node: Node) -> Iterator[None]:
        """Time a node that PyTorch computes."""
        begin = time.perf_counter()
        yield
        self._wholes.setdefault(node, []).append((begin, time.perf_counter() - begin))

    @contextmanager
    def run(self) -> Iterator[None]:
        """Time one run of all stages."""
        begin = time.perf_counter()
        yield
        self._runs.append((begin, time.perf_counter() - begin))

    def report(self) -> ProfileReport:
        """The times of commands, of nodes of whole sequences, and of the rest, in which PyTorch goes back."""
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
    """One run of a program: the values given to the program and its results, by node."""

    runner: Runner
    given: tuple[Node, ...]
    contexts: Mapping[Node, SampleLayout | None]  # what nodes in a loop read whole
    layout: SampleLayout | None
    outputs: tuple[Node, ...]
    probed: dict[Node, Tensor]  # receives gradients of nodes inside
    profiler: StagesProfiler | None = None

    def _observed(self) -> AbstractContextManager[None]:
        return nullcontext() if self.profiler is None else self.profiler.program(self.runner)

    def forward(self, values: Sequence[Tensor]) -> dict[Node, Tensor]:
        """Returns the outputs, from the values of inputs and of contexts."""
        given = dict(zip(self.given, values[: len(self.given)], strict=True))
        inputs = None
        if self.contexts:
            whole = zip(values[len(self.given) :], self.contexts.values(), strict=True)
            contexts = dict(zip(self.contexts, (SampleRows(value, layout) for value, layout in whole), strict=True))
            assert self.layout is not None, "frames have samples"
            inputs = ContextInputs(contexts, self.layout)
        with self._observed():
            return self.runner.forward(given, inputs)

    def backward(self, seeds: Mapping[Node, Tensor]) -> list[Tensor | None]:
        """Returns the gradients of the given values and of the contexts, from those of the outputs."""
        with self._observed():
            found = self.runner.backward(seeds)
        # Other stages may use the given values too: autograd adds up their gradients.
        self.probed.update((node, found[node]) for node in self.runner.program.question.probes)
        whole = self.runner.context_gradients()
        return [*(found.get(node) for node in self.given), *(whole[node] for node in self.contexts)]


class ProgramFunction(torch.autograd.Function):
    """A program as a function of PyTorch. `anchor` requires grad, for parameters are learnt where inputs need none."""

    @staticmethod
    def forward(ctx: Any, call: ProgramCall, anchor: Tensor, *given: Tensor) -> tuple[Tensor, ...]:
        found = call.forward(given)
        ctx.call = call
        seeded = call.runner.program.question.criteria
        ctx.mark_non_differentiable(*(found[node] for node in call.outputs if node not in seeded))
        ctx.shapes = {node: found[node] for node in seeded}
        return tuple(found[node] for node in call.outputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Any, ...]:
        by_node = dict(zip(ctx.call.outputs, gradients, strict=True))
        seeds = {}
        for node, value in ctx.shapes.items():
            gradient = by_node[node]
            seeds[node] = torch.zeros_like(value) if gradient is None else gradient.contiguous()
        return (None, None, *ctx.call.backward(seeds))


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
    `apart`: see `Question`. `known_stages`: the `stages` of an equal run, with equal layouts.
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

    def run(self) -> None:
        with torch.set_grad_enabled(bool(self.flags)):
            for stage in self.stages() if self.known_stages is None else self.known_stages:
                if isinstance(stage, ProgramStage):
                    self._program(stage)
                else:
                    with nullcontext() if self.profiler is None else self.profiler.whole(stage):
                        self._whole(stage)

    def stages(self) -> Iterator[ProgramStage | Node]:
        """The stages computed one after another: programs, and nodes of whole sequences."""
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
        operation = node.operation
        assert isinstance(operation, SequenceOperation)
        operands = [SampleRows(self._value(operand), self._layout(operand)) for operand in node.operands]
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
        question, outputs = stage.question, stage.question.outputs
        runner = self.runner_of(question)
        values = [self._value(node) for node in (*stage.given, *stage.contexts)]
        layouts = {node: self._layout(node) for node in stage.contexts}
        call = ProgramCall(runner, stage.given, layouts, question.layout, outputs, self.probed, self.profiler)
        if question.criteria:
            found = ProgramFunction.apply(call, torch.zeros((), requires_grad=True), *values)
        else:
            by_node = call.forward([value.detach() for value in values])
            found = tuple(by_node[node] for node in outputs)
        self.values.update(zip(outputs, found, strict=True))

    def _layout_of_stage(self, stage: Stage, nodes: Sequence[Node]) -> SampleLayout | None:
        """The samples of a program; None for a program without samples."""
        return self.layouts.of(stage.key.axis) if any(node.shape.has_samples for node in nodes) else None
