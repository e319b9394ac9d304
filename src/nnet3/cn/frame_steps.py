"""FrameSteps: a network as programs of one frame each, with a state between: rows that later frames read.

Programs of the first frames may differ, while the state is not complete; then the programs repeat in a cycle.
`find_carried` finds the programs: a frame is a chunk of one row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from nnet3.base.index import IndexTable, N, T, find_rows, indexes_at, shift_indexes
from nnet3.cn.program import Program, Question
from nnet3.cn.source import CnSource
from nnet3.engine.driver import CompileTask
from nnet3.engine.lowering.carried_rows import ChunkRows, find_carried
from nnet3.engine.lowering.source import LoweringRequest, NodeKind, RequestedRows, Use
from nnet3.errors import NetworkError

Tables = Mapping[int, IndexTable]


class Kept(NamedTuple):
    """Rows among the rows given and then computed: from `first` to `last`, or else at `positions`."""

    first: int
    last: int
    positions: Tensor | None

    @classmethod
    def of(cls, positions: npt.NDArray[np.intp]) -> Kept:
        first, last = int(positions[0]), int(positions[-1])
        are_together = np.array_equal(positions, np.arange(first, last + 1))
        return cls(first, last, None if are_together else torch.from_numpy(positions.astype(np.int64)))


@dataclass(frozen=True, eq=False)
class FrameStep:
    """The rows of one frame, of one sequence, by number of the source's node.

    `new`: rows of inputs that the frame brings, and of the clock all frames so far, as far back as a step looks.
    `before`, `after`: the state, rows of inputs and kernels that the step is given and hands on. `wanted`: rows of the
    wanted nodes.
    """

    new: Tables
    before: Tables
    after: Tables
    wanted: Tables

    @cached_property
    def given(self) -> dict[int, IndexTable]:
        """The rows given to the program, by node: rows of the state, then new rows."""
        return _joined(self.before, self.new)

    @cached_property
    def computed(self) -> dict[int, IndexTable]:
        """The rows computed by the program, by node: wanted rows, and rows of the next state that were not given."""
        asked = {node: np.unique(table, axis=0) for node, table in _joined(self.wanted, self.after).items()}
        for node in asked.keys() & self.given.keys():
            asked[node] = asked[node][find_rows(self.given[node], asked[node]) < 0]
        return {node: table for node, table in asked.items() if len(table)}

    @cached_property
    def kept(self) -> dict[int, Kept]:
        """The rows that are the state after the step."""
        known = _joined(self.given, self.computed)
        return {node: Kept.of(find_rows(known[node], table)) for node, table in self.after.items()}

    @cached_property
    def shown(self) -> dict[int, int]:
        """The position of each wanted row among the rows computed of its node."""
        return {node: int(find_rows(self.computed[node], table)[0]) for node, table in self.wanted.items()}

    def is_as(self, other: FrameStep) -> bool:
        """Returns true if two steps have equal programs and hand on equal states."""
        return _bytes_of(self) == _bytes_of(other)


def _bytes_of(step: FrameStep) -> list[object]:
    groups = (step.new, step.before, step.after, step.wanted)
    return [[(node, table.tobytes()) for node, table in sorted(group.items())] for group in groups]


def _joined(*groups: Tables) -> dict[int, IndexTable]:
    found: dict[int, list[IndexTable]] = {}
    for group in groups:
        for node, table in group.items():
            found.setdefault(node, []).append(table)
    return {node: np.concatenate(tables) for node, tables in found.items()}


@dataclass(frozen=True, eq=False)
class FrameSteps:
    """The steps of a question: `head`, one after another, then `cycle` again and again."""

    question: Question
    source: CnSource
    head: Sequence[FrameStep]
    cycle: Sequence[FrameStep]

    @classmethod
    def of(cls, question: Question, source: CnSource) -> FrameSteps:
        """Finds the steps of a question by frames. Raises NetworkError for a node that looks at later frames."""
        _check_looks_back(source)
        states = {source.number[node]: lag for node, lag in question.graph.states.items() if node in source.number}
        inputs = [
            number
            for node, number in source.number.items()
            if source.nodes[number].kind is NodeKind.PROVIDED and node.shape.has_samples and number not in states
        ]
        roots = [source.number[node] for node in question.outputs]

        def chunk(number: int) -> ChunkRows:
            now = indexes_at(np.array([number - 1]))
            given = dict.fromkeys([source.clock, *inputs], now)
            if number == 1:
                given |= {node: indexes_at(np.arange(-lag, 0)) for node, lag in states.items()}
            return ChunkRows(given, dict.fromkeys(roots, now))

        carried = find_carried(source, chunk, 1)
        assert carried.newest is None, "operations look at times relative to their own"
        numbers = range(1, carried.num_chunks + 1)
        tables = ((number, table) for number in numbers for table in carried.before(number).values())
        looks_back = max((number - 1 - int(table[:, T].min()) for number, table in tables), default=0)
        steps = []
        for number in numbers:
            rows, earlier = chunk(number), carried.earlier(number)
            first = max(0, number - 1 - looks_back)
            new = {**rows.given, source.clock: indexes_at(np.arange(first, number))}
            before, after = (carried.before(each, earlier) for each in (number, number + 1))
            new, wanted = ({n: shift_indexes(t, -earlier) for n, t in group.items()} for group in (new, rows.wanted))
            before |= {node: new.pop(node) for node in states if node in new}
            steps.append(FrameStep(new, before, after, wanted))
        head, cycle = steps[: carried.num_head], steps[carried.num_head :]
        while head and head[-1].is_as(cycle[-1]):
            cycle = [head.pop(), *cycle[:-1]]
        return cls(question, source, head, cycle)

    def step_index(self, frame: int) -> int:
        """Returns the position in `steps` of the step of frame 0, 1, ..."""
        head = len(self.head)
        return frame if frame < head else head + (frame - head) % len(self.cycle)

    @cached_property
    def steps(self) -> list[FrameStep]:
        """All different steps."""
        return [*self.head, *self.cycle]


def _check_looks_back(source: CnSource) -> None:
    """Raises NetworkError, with the node's name, for a node that looks at later frames."""
    times = indexes_at(np.arange(source.period or 1))
    for number, node in enumerate(source.nodes):
        has_slots = node.kind is NodeKind.GATHERED or any(operand.use is Use.INDEXED for operand in node.operands)
        if not has_slots:
            continue
        ahead = int((source.slots(number, times)[1][:, :, T] - times[:, np.newaxis, T]).max(initial=0))
        if ahead > 0:
            raise NetworkError(
                f"'{node.name.partition(':')[0]}' looks {ahead} frame{'s' * (ahead > 1)} ahead: a network that is "
                "computed frame by frame looks back only"
            )


class StepProgram(Program):
    """The program of a step for some sequences: rows go by time, those of one time by sequence."""

    def __init__(self, question: Question, step: FrameStep, sequences: int, **how: Any):
        super().__init__(question, **how)
        self.step, self.sequences = step, sequences

    @cached_property
    def request(self) -> LoweringRequest:
        names = self.source.nodes

        def rows(tables: Tables) -> list[RequestedRows]:
            return [RequestedRows(node, names[node].name, self._of_all(table)) for node, table in tables.items()]

        return LoweringRequest(rows(self.step.given), rows(self.step.computed), watches_others=True)

    def _of_all(self, table: IndexTable) -> IndexTable:
        rows = np.repeat(table, self.sequences, axis=0)
        rows[:, N] = np.tile(np.arange(self.sequences), len(table))
        return rows

    @property
    def task(self) -> CompileTask:
        task, request = super().task, self.request
        rows = [[(each.name, each.indexes) for each in group] for group in (request.inputs, request.outputs)]
        return replace(task, key={**task.key, "step": rows}, series=lambda: None, signature=None)
