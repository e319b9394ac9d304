"""Which nodes of a recurrent epoch need room for one step only.

The rows of a step may share their place with those of the next one if everybody who reads them has done so before the
next step of the node begins. That holds for what lives within a time step; what a later time step reads, or the
backward pass, or the user, has rows for all steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from nnet3.lowering.source import NodeKind, Use

if TYPE_CHECKING:
    from nnet3.lowering.layout import Layout


def share_values(layout: Layout) -> list[int]:
    """Nodes whose values need room for one step only."""
    candidates = _candidates(layout, [place.root for place in layout.values.places])
    candidates -= _kept_values(layout)
    if not candidates:
        return []
    schedule, places = layout.schedule, layout.values.places
    last_read = {root: np.full(schedule.num_rows(root), -1, np.int64) for root in candidates}
    for user, source, rows, source_rows in _reads(layout, candidates):
        position = schedule.position_of_row(user)[rows]
        np.maximum.at(last_read[places[source].root], source_rows + places[source].row_shift, position)
    return [root for root in candidates if _ends_before_next(layout, root, last_read[root])]


def shared_derivs(layout: Layout) -> list[int]:
    """Nodes whose derivatives need room for one step only."""
    if layout.derivatives is None:
        return []
    candidates = _candidates(layout, [place.root for place in layout.derivs.places])
    kept = {layout.derivs.places[node].root for nodes in layout.updates.values() for node in nodes}
    kept |= {layout.derivs.places[io.node].root for io in (*layout.request.inputs, *layout.request.outputs)}
    result = []
    for root in candidates - kept:
        first_write = layout.derivatives.first_write.get(root)
        uncovered = layout.derivatives.uncovered.get(root)
        if not layout.needed[root] or first_write is None or uncovered is None or uncovered.any():
            continue
        positions = layout.schedule.steps_of_node[root]
        steps = [layout.schedule.steps[position] for position in positions]
        begins = [first_write[step.first : step.first + step.num_rows].max() for step in steps]
        # Backward, the step after this one in the list comes before it, and reads its derivative at its own position.
        if all(begin < position for begin, position in zip(begins, positions[1:], strict=False)):
            result.append(root)
    return result


def _candidates(layout: Layout, roots: list[int]) -> set[int]:
    """Roots with several steps, all of whose rows are computed."""
    schedule = layout.schedule
    return {
        root
        for root in set(roots)
        if len(schedule.steps_of_node[root]) > 1
        and schedule.num_given[root] == 0
        and schedule.nodes[root].kind in (NodeKind.KERNEL, NodeKind.GATHERED)
    }


def _kept_values(layout: Layout) -> set[int]:
    """Roots whose values somebody needs after the forward pass, or all at once."""
    schedule, places = layout.schedule, layout.values.places
    kept = {places[io.node].root for io in (*layout.request.inputs, *layout.request.outputs)}
    for number, node in enumerate(schedule.nodes):
        if node.kind is not NodeKind.KERNEL:
            continue
        info = layout.source.kernel(number)
        for operand, promises in zip(node.operands, info.inputs, strict=True):
            if operand.use in (Use.ALL_SAMPLES, Use.WHOLE) or (layout.needed[number] and promises.backprop_needs_value):
                kept.add(places[operand.node].root)
        if layout.needed[number] and info.backprop_needs_output:
            kept.add(places[number].root)
    return kept


def _reads(layout: Layout, roots: set[int]) -> Iterator[tuple[int, int, np.ndarray, np.ndarray]]:
    """User node, node read, rows of the user (counted from its first computed one), rows that they read.

    Only what is read of these roots.
    """
    schedule, places = layout.schedule, layout.values.places
    for number, gathered in layout.gathered.items():
        if not layout.is_copied(number):
            continue
        for slot in gathered.slots:
            for source in slot.sources:
                if places[source].root not in roots:
                    continue
                rows = np.flatnonzero((slot.source_node == source) & slot.used)
                yield number, source, rows - schedule.num_given[number], slot.source_row[rows]
    for number, node in enumerate(schedule.nodes):
        if node.kind is not NodeKind.KERNEL or not schedule.steps_of_node[number]:
            continue
        for place, operand in enumerate(node.operands):
            if places[operand.node].root not in roots:
                continue
            if operand.use is Use.ROW and schedule.nodes[operand.node].num_rows is None:
                read = schedule.operand_rows(number, place)[schedule.num_given[number] :]
                yield number, operand.node, np.arange(len(read)), read
            elif operand.use is Use.INDEXED:
                yield from _indexed_reads(layout, number, operand.node)


def _indexed_reads(layout: Layout, number: int, operand: int) -> Iterator[tuple[int, int, np.ndarray, np.ndarray]]:
    """A step reads all rows of the gathering step before it; its first row stands for all of its own."""
    schedule = layout.schedule
    begin = 0
    for position in schedule.steps_of_node[number]:
        step, read = schedule.steps[position], schedule.steps[position - 1]
        rows = np.full(read.num_rows, begin)
        yield number, operand, rows, np.arange(read.first, read.first + read.num_rows)
        begin += step.num_rows


def _ends_before_next(layout: Layout, root: int, last_read: np.ndarray) -> bool:
    positions = layout.schedule.steps_of_node[root]
    steps = [layout.schedule.steps[position] for position in positions]
    ends = [last_read[step.first : step.first + step.num_rows].max() for step in steps]
    return all(end < following for end, following in zip(ends, positions[1:], strict=False))
