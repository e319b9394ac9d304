"""Asked: the nodes to be computed by a file, and its programs, for one length or for all."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from nnet3.cn.graph import takes_stages
from nnet3.cn.network_state import NetworkState
from nnet3.cn.node import Node
from nnet3.cn.nodes.component import ComponentOperation
from nnet3.cn.order import needed_nodes
from nnet3.cn.program import Program, Question
from nnet3.cn.samples import Layouts, SampleLayout
from nnet3.cn.shape import SEQUENCES
from nnet3.cn.stages_run import ProgramStage
from nnet3.engine.driver import compile_task
from nnet3.engine.lowering.continuation import frames_missing
from nnet3.engine.lowering.structure import structure_of
from nnet3.engine.lowering.sweeps import finished_sweeps
from nnet3.errors import ExportError
from nnet3.export.family_program import FamilyProgram
from nnet3.export.program import FixedProgram
from nnet3.model.structure.reach import component_reach

_MEMBERS = 2  # say how a family goes on, the next one confirms it
MOST_FRAMES = 64  # of the shortest program of a family


@dataclass(frozen=True, eq=False)
class Asked:
    """Values of a network in test mode, by the names of a file's outputs."""

    network: NetworkState
    outputs: Mapping[str, Node]
    stage: ProgramStage | None = None  # of a network in stages, if that is what is asked for

    @cached_property
    def nodes(self) -> list[Node]:
        """All nodes that are needed, in forward order."""
        if self.stage is not None:
            return list(self.program(1).source.number)
        return needed_nodes(self.network._nodes.nodes, list(self.outputs.values()), ())

    @cached_property
    def given(self) -> tuple[Node, ...]:
        """The nodes computed by other stages of the network."""
        return () if self.stage is None else self.stage.question.given

    @cached_property
    def contexts(self) -> tuple[Node, ...]:
        """The nodes that are read whole inside of loops."""
        return () if self.stage is None else self.stage.contexts

    @cached_property
    def is_staged(self) -> bool:
        """True if the file needs more than one program."""
        return self.stage is None and takes_stages(self.nodes)

    def stages(self) -> Iterator[Asked | Node]:
        """Yields the stages computed one after another: programs, and nodes of whole sequences."""
        if not self.is_staged:
            yield self
            return
        axes = {node.shape.axis for node in self.nodes if node.shape.has_samples and node.shape.axis != SEQUENCES}
        layouts = Layouts({axis: SampleLayout((1,)) for axis in axes} or {SEQUENCES: SampleLayout((1,))})
        computed = list(dict.fromkeys(node for node in self.outputs.values() if node.is_evaluated))
        names = self.network.names
        for stage in self.network._staged(layouts, self.nodes, computed, {}).stages():
            if isinstance(stage, Node):
                yield stage
            else:
                yield Asked(self.network, {names[node]: node for node in stage.question.outputs}, stage)

    @cached_property
    def inputs(self) -> list[Node]:
        return [node for node in self.nodes if node.operation.is_given or node in self.given]

    @cached_property
    def states(self) -> Mapping[Node, int]:
        """The initial states among the inputs, with their lags."""
        return {node: lag for node, lag in self.network.initial_states.items() if node in self.inputs}

    @property
    def tensors(self) -> list[Node]:
        """All nodes that a program is given."""
        return list(dict.fromkeys((*self.inputs, *self.contexts)))

    @cached_property
    def sequences(self) -> list[Node]:
        """The inputs with a column for each frame."""
        return [node for node in self.inputs if node.shape.has_samples and node not in self.states]

    @cached_property
    def may_be_padded(self) -> bool:
        """True if frames after the end of a sequence change nothing before it."""
        return not self.is_staged and not any(_looks_at_the_end(n) for n in self.nodes if n not in self.given)

    def program(self, frames: int) -> Program:
        computed = tuple(dict.fromkeys(node for node in self.outputs.values() if node.is_evaluated))
        has_samples = bool(self.sequences) if self.stage is None else self.stage.question.layout is not None
        layout = SampleLayout((frames,)) if has_samples else None
        question = Question(self.network._nodes, computed, layout, self.given, apart=None)
        return Program(question, options=self.network.compile_options, cache=self.network.cache)

    def fixed(self, frames: int) -> FixedProgram:
        return FixedProgram(compile_task(self.program(frames).task))

    @cached_property
    def step(self) -> int:
        """The frames by which members of a family differ. Raises ExportError if no step exists."""
        source = self.program(1).source
        if source.period is None:
            raise ExportError("a component looks at times of its own")
        return math.lcm(source.period, structure_of(source).lag)

    def lengths(self) -> Iterator[int]:
        """Yields numbers of frames, ascending, from which on longer programs may go on alike."""
        frames, step = 2, self.step
        while frames <= MOST_FRAMES:
            tasks = (self.program(frames + more).task for more in (0, step))
            short, long = (finished_sweeps(*task.lowered_from()) for task in tasks)
            missing = frames_missing(short, long, step)
            if missing is None:
                raise ExportError("it cannot be told from short sequences how longer ones go on")
            if not missing:
                yield frames
            frames += missing or max(1, frames // 2)

    def family(self, frames: int) -> FamilyProgram:
        """Returns the programs of `frames`, `frames + step`, ... frames. Raises NotAffineError if these are none."""
        tasks = [self.program(frames + number * self.step).task for number in range(_MEMBERS + 1)]
        return FamilyProgram.of_tasks(tasks)


def _looks_at_the_end(node: Node) -> bool:
    operation = node.operation
    if isinstance(operation, ComponentOperation):
        return component_reach(operation.component) > 0
    sums = not node.shape.has_samples and any(operand.shape.has_samples for operand in node.operands)
    return node.lag < 0 or (sums and not node.is_stored)
