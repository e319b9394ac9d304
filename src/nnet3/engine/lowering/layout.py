"""Layout: all decisions about a task, made in stages before a command is written.

>>> from tests.lowering.examples import loop
>>> each = loop()
>>> layout = lay_out(each.task, NnetComputation())
>>> for stage in layout.reading, layout.needs, layout.writers:
...     print(stage)
node 3: rows 0.. of node 2
node 1: 2 slots
nodes with a derivative: 0, 1, 2, 3
affine learns once from nodes [2]
derivative of node 2: 0 rows to clear
derivative of node 0: 0 rows to clear
derivative of node 1: 0 rows to clear
>>> sorted(layout.values.matrix), sorted(layout.derivs.matrix)  # the nodes that have matrices of their own
([0, 1, 2], [0, 1, 2])

The rows of a step may share storage with the rows of the next step if all readers have run before the next step of the
node begins. So values that live within a time step share; a value read by a later time step, the backward pass or the
user has rows for all steps.

The sums (node 1) of h(t) = W (x(t) + h(t-1)) + b are such values, unless the backward pass needs them to learn W:

>>> for each in loop(backward=False), loop():
...     print(shared_values(each.task, each.reading, each.needs, each.layout.values.storage))
[1]
[]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.lowering.first_writers import FirstWriters, find_first_writers, receivers
from nnet3.engine.lowering.locations import NodeMatrices, RowStorage, find_storage
from nnet3.engine.lowering.needs import BackwardNeeds, find_needs
from nnet3.engine.lowering.reading import Reading, find_reading
from nnet3.engine.lowering.schedule import LayoutTask, Schedule
from nnet3.engine.lowering.source import NodeKind, Use


def shared_values(task: LayoutTask, reading: Reading, needs: BackwardNeeds, storage: list[RowStorage]) -> list[int]:
    """Returns the nodes whose values need rows for a single step."""
    schedule = task.schedule
    candidates = _candidates(schedule, storage)
    candidates = candidates and candidates - _kept_values(task, needs, storage)
    if not candidates:
        return []
    last_read = {root: np.full(schedule.num_rows(root), -1, np.int64) for root in candidates}
    for read in _reads(schedule, reading, storage, candidates):
        position = schedule.position_of_row(read.user)[read.rows]
        source = storage[read.source]
        np.maximum.at(last_read[source.root], read.source_rows + source.row_shift, position)
    return [root for root in candidates if _ends_before_next(schedule, root, last_read[root])]


def shared_derivs(task: LayoutTask, needs: BackwardNeeds, writers: FirstWriters) -> list[int]:
    """Returns the nodes whose derivatives need rows for a single step."""
    schedule, storage = task.schedule, writers.storage
    kept = {storage[node].root for node in needs.merged}
    kept |= {storage[io.node].root for io in (*task.request.inputs, *task.request.outputs)}
    result = []
    for root in _candidates(schedule, storage) - kept:
        settled = writers.settled.get(root)
        if not needs.needed[root] or settled is None or settled.uncovered.any():
            continue
        # Backward, the step after this one in the list comes before it, and reads its derivative at its own position.
        if _ends_before_next(schedule, root, settled.first_write):
            result.append(root)
    return result


class _Read(NamedTuple):
    """Rows of a user, counted from the user's first computed row, and the rows read of another node."""

    user: int
    source: int
    rows: np.ndarray
    source_rows: np.ndarray


def _candidates(schedule: Schedule, storage: list[RowStorage]) -> set[int]:
    """Returns the roots with several steps, all of whose rows are computed."""
    return {
        root
        for root in {own.root for own in storage}
        if len(schedule.steps_of_node[root]) > 1
        and schedule.num_given[root] == 0
        and schedule.nodes[root].kind in (NodeKind.KERNEL, NodeKind.GATHERED)
    }


def _kept_values(task: LayoutTask, needs: BackwardNeeds, storage: list[RowStorage]) -> set[int]:
    """Returns the roots whose values somebody needs after the forward pass, or all at once."""
    schedule = task.schedule
    kept = {storage[io.node].root for io in (*task.request.inputs, *task.request.outputs)}
    for number, node in enumerate(schedule.nodes):
        if node.kind is not NodeKind.KERNEL:
            continue
        info = task.source.kernel(number)
        for operand, promises in zip(node.operands, info.inputs, strict=True):
            if operand.use in (Use.ALL_SAMPLES, Use.WHOLE) or (needs.needed[number] and promises.backprop_needs_value):
                kept.add(storage[operand.node].root)
        if needs.needed[number] and info.backprop_needs_output:
            kept.add(storage[number].root)
    return kept


def _reads(schedule: Schedule, reading: Reading, storage: list[RowStorage], roots: set[int]) -> Iterator[_Read]:
    """Yields all reads of the roots."""
    for number, gathered in reading.gathered.items():
        if number in reading.views:
            continue
        for slot in gathered.slots:
            for source in slot.sources:
                if storage[source].root not in roots:
                    continue
                rows = np.flatnonzero((slot.source_node == source) & slot.used)
                yield _Read(number, source, rows - schedule.num_given[number], slot.source_row[rows])
    for number, node in enumerate(schedule.nodes):
        if node.kind is not NodeKind.KERNEL or not schedule.steps_of_node[number]:
            continue
        for index, operand in enumerate(node.operands):
            if storage[operand.node].root not in roots:
                continue
            if operand.use is Use.ROW and schedule.nodes[operand.node].num_rows is None:
                read = schedule.operand_rows(number, index)[schedule.num_given[number] :]
                yield _Read(number, operand.node, np.arange(len(read)), read)
            elif operand.use is Use.INDEXED:
                yield from _indexed_reads(schedule, number, operand.node)


def _indexed_reads(schedule: Schedule, number: int, operand: int) -> Iterator[_Read]:
    """Yields the reads of every step: all rows of the gathering step before; the step's first row stands for all."""
    begin = 0
    for position in schedule.steps_of_node[number]:
        step, read = schedule.steps[position], schedule.steps[position - 1]
        rows = np.full(read.num_rows, begin)
        yield _Read(number, operand, rows, np.arange(read.first, read.first + read.num_rows))
        begin += step.num_rows


def _ends_before_next(schedule: Schedule, root: int, position_of_row: np.ndarray) -> bool:
    """True if all positions of a step's rows are before the node's next step."""
    positions = schedule.steps_of_node[root]
    last = np.maximum.reduceat(position_of_row, [schedule.steps[position].first for position in positions])
    return bool((last[:-1] < positions[1:]).all())


@dataclass(frozen=True, eq=False)
class Layout:
    """The results of the stages, all printable values.

    `reading`: the sources of values. `needs`: the existing derivatives. `writers`: their storage and first writers.
    `values`, `derivs`: the matrices, declared in the computation.
    """

    task: LayoutTask
    reading: Reading
    needs: BackwardNeeds
    writers: FirstWriters
    values: NodeMatrices
    derivs: NodeMatrices

    @cached_property
    def step_numbers(self) -> list[int]:
        """The number of each step of the schedule among the steps of its node."""
        count = [0] * len(self.task.schedule.nodes)
        numbers = []
        for step in self.task.schedule.steps:
            numbers.append(count[step.node])
            count[step.node] += 1
        return numbers

    def receivers(self, node: int) -> list[int]:
        """Returns the nodes with derivatives written to by `node`."""
        return [] if node in self.writers.views else receivers(self.task, self.reading, self.needs, node)


def lay_out(task: LayoutTask, computation: NnetComputation) -> Layout:
    """Decides where everything lies, and declares the matrices in the computation."""
    reading = find_reading(task.schedule)
    needs = find_needs(task, reading)
    writers = find_first_writers(task, reading, needs)
    storage = find_storage(task.schedule, reading.views)
    shared = shared_values(task, reading, needs, storage)
    values = NodeMatrices(task.schedule, computation, False, storage, shared)
    derivs = NodeMatrices(task.schedule, computation, True, writers.storage, shared_derivs(task, needs, writers))
    _declare(task, needs, values, derivs)
    return Layout(task, reading, needs, writers, values, derivs)


def _declare(task: LayoutTask, needs: BackwardNeeds, values: NodeMatrices, derivs: NodeMatrices) -> None:
    """Declare a matrix for each root with rows, and for the root's derivative if needed."""
    schedule = task.schedule
    for number, node in enumerate(schedule.nodes):
        if schedule.num_rows(number) == 0:
            continue
        if node.kind is NodeKind.PROVIDED and node.num_rows is not None:
            values.bind(number, node.memory)
            if needs.needed[number]:
                derivs.bind(number, node.gradient)
            continue
        if values.storage[number].root == number:
            values.declare(number)
        if needs.needed[number] and derivs.storage[number].root == number:
            derivs.declare(number)
