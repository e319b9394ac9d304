"""Nodes of a recurrent epoch that need room for one step only.

The rows of a step may share their place with those of the next one if everybody who reads them has done so before the
next step of the node begins. That holds for what lives within a time step; what a later time step reads, or the
backward pass, or the user, has rows for all steps.

The sums (node 1) of h(t) = W (x(t) + h(t-1)) + b are such values, unless the backward pass needs them to learn W:

>>> from tests.lowering.examples import loop
>>> for each in loop(backward=False), loop():
...     print(shared_values(each.task, each.reading, each.needs, each.layout.values.places))
[1]
[]
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from nnet3.lowering.first_writers import FirstWriters
from nnet3.lowering.needs import BackwardNeeds
from nnet3.lowering.places import RowPlace
from nnet3.lowering.reading import Reading
from nnet3.lowering.schedule import LayoutTask, Schedule
from nnet3.lowering.source import NodeKind, Use


def shared_values(task: LayoutTask, reading: Reading, needs: BackwardNeeds, places: list[RowPlace]) -> list[int]:
    """Returns the nodes whose values need room for one step only."""
    schedule = task.schedule
    candidates = _candidates(schedule, places) - _kept_values(task, needs, places)
    if not candidates:
        return []
    last_read = {root: np.full(schedule.num_rows(root), -1, np.int64) for root in candidates}
    for read in _reads(schedule, reading, places, candidates):
        position = schedule.position_of_row(read.user)[read.rows]
        place = places[read.source]
        np.maximum.at(last_read[place.root], read.source_rows + place.row_shift, position)
    return [root for root in candidates if _ends_before_next(schedule, root, last_read[root])]


def shared_derivs(task: LayoutTask, needs: BackwardNeeds, writers: FirstWriters) -> list[int]:
    """Returns the nodes whose derivatives need room for one step only."""
    schedule, places = task.schedule, writers.places
    kept = {places[node].root for node in needs.merged}
    kept |= {places[io.node].root for io in (*task.request.inputs, *task.request.outputs)}
    result = []
    for root in _candidates(schedule, places) - kept:
        settled = writers.settled.get(root)
        if not needs.needed[root] or settled is None or settled.uncovered.any():
            continue
        positions = schedule.steps_of_node[root]
        steps = [schedule.steps[position] for position in positions]
        begins = [settled.first_write[step.first : step.first + step.num_rows].max() for step in steps]
        # Backward, the step after this one in the list comes before it, and reads its derivative at its own position.
        if all(begin < position for begin, position in zip(begins, positions[1:], strict=False)):
            result.append(root)
    return result


class _Read(NamedTuple):
    """Rows of a user, counted from its first computed one, and the rows of another node that they read."""

    user: int
    source: int
    rows: np.ndarray
    source_rows: np.ndarray


def _candidates(schedule: Schedule, places: list[RowPlace]) -> set[int]:
    """Returns the roots with several steps, all of whose rows are computed."""
    return {
        root
        for root in {place.root for place in places}
        if len(schedule.steps_of_node[root]) > 1
        and schedule.num_given[root] == 0
        and schedule.nodes[root].kind in (NodeKind.KERNEL, NodeKind.GATHERED)
    }


def _kept_values(task: LayoutTask, needs: BackwardNeeds, places: list[RowPlace]) -> set[int]:
    """Returns the roots whose values somebody needs after the forward pass, or all at once."""
    schedule = task.schedule
    kept = {places[io.node].root for io in (*task.request.inputs, *task.request.outputs)}
    for number, node in enumerate(schedule.nodes):
        if node.kind is not NodeKind.KERNEL:
            continue
        info = task.source.kernel(number)
        for operand, promises in zip(node.operands, info.inputs, strict=True):
            if operand.use in (Use.ALL_SAMPLES, Use.WHOLE) or (needs.needed[number] and promises.backprop_needs_value):
                kept.add(places[operand.node].root)
        if needs.needed[number] and info.backprop_needs_output:
            kept.add(places[number].root)
    return kept


def _reads(schedule: Schedule, reading: Reading, places: list[RowPlace], roots: set[int]) -> Iterator[_Read]:
    """Yields all that is read of these roots."""
    for number, gathered in reading.gathered.items():
        if number in reading.views:
            continue
        for slot in gathered.slots:
            for source in slot.sources:
                if places[source].root not in roots:
                    continue
                rows = np.flatnonzero((slot.source_node == source) & slot.used)
                yield _Read(number, source, rows - schedule.num_given[number], slot.source_row[rows])
    for number, node in enumerate(schedule.nodes):
        if node.kind is not NodeKind.KERNEL or not schedule.steps_of_node[number]:
            continue
        for place, operand in enumerate(node.operands):
            if places[operand.node].root not in roots:
                continue
            if operand.use is Use.ROW and schedule.nodes[operand.node].num_rows is None:
                read = schedule.operand_rows(number, place)[schedule.num_given[number] :]
                yield _Read(number, operand.node, np.arange(len(read)), read)
            elif operand.use is Use.INDEXED:
                yield from _indexed_reads(schedule, number, operand.node)


def _indexed_reads(schedule: Schedule, number: int, operand: int) -> Iterator[_Read]:
    """Yields the reads of each step: all rows of the gathering step before it; its first row stands for all."""
    begin = 0
    for position in schedule.steps_of_node[number]:
        step, read = schedule.steps[position], schedule.steps[position - 1]
        rows = np.full(read.num_rows, begin)
        yield _Read(number, operand, rows, np.arange(read.first, read.first + read.num_rows))
        begin += step.num_rows


def _ends_before_next(schedule: Schedule, root: int, last_read: np.ndarray) -> bool:
    positions = schedule.steps_of_node[root]
    steps = [schedule.steps[position] for position in positions]
    ends = [last_read[step.first : step.first + step.num_rows].max() for step in steps]
    return all(end < following for end, following in zip(ends, positions[1:], strict=False))
