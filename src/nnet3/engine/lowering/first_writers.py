"""Third stage of the layout: where derivatives lie, and who writes first to each.

In h(t) = W (x(t) + h(t-1)) + b the sums (node 1) send their derivative to x by slot 0, and are the first to do so; to h
by slot 1, after the user, who gives derivatives of all four rows:

>>> from tests.lowering.examples import loop
>>> each = loop()
>>> writers = find_first_writers(each.task, each.reading, each.needs)
>>> {slot: rows.tolist() for slot, rows in writers.slots[1].items()}
{0: [True, True, True, True], 1: [False, False, False, False]}
>>> writers.outputs
[True]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from nnet3.engine.lowering.contributions import Cells, Contributions, Settled
from nnet3.engine.lowering.locations import RowStorage, find_storage
from nnet3.engine.lowering.needs import BackwardNeeds, LiveRows
from nnet3.engine.lowering.reading import Reading, RowsOf
from nnet3.engine.lowering.requested import output_block
from nnet3.engine.lowering.schedule import LayoutTask, Step
from nnet3.engine.lowering.sending import SentOperand, SentSlot, operand_contributions, slot_contributions
from nnet3.engine.lowering.source import NodeKind, RequestedRows


class TakenRows(NamedTuple):
    """Rows of a node that take a derivative from outside, without the dead ones if `masked`."""

    rows: Step
    masked: bool


@dataclass(frozen=True, eq=False)
class FirstWriters:
    """The storage and the first writers of derivatives.

    `storage`: by node. `views`: by gathered node whose derivative lies in the matrix of its source's derivative.
    `settled`: by root. Masks are true for the first writer: `slots[gathered node][slot]` (rows,),
    `operands[kernel node, operand]` (steps,) and `outputs` (requested outputs,). A slot or operand without a mask sends
    nothing. `taken`: by requested output, see `_taken_rows`.
    """

    storage: list[RowStorage]
    views: Mapping[int, RowsOf] = field(default_factory=dict)
    settled: Mapping[int, Settled] = field(default_factory=dict)
    slots: Mapping[int, Mapping[int, np.ndarray]] = field(default_factory=dict)
    operands: Mapping[tuple[int, int], list[bool]] = field(default_factory=dict)
    outputs: list[bool] = field(default_factory=list)
    taken: list[TakenRows | None] = field(default_factory=list)

    def blocks_to_clear(self, root: int) -> list[Cells] | None:
        """Returns the blocks of a derivative that nobody overwrites; None if nobody writes to it at all."""
        return self.settled[root].blocks_to_clear() if root in self.settled else None

    def __str__(self) -> str:
        uncovered = {root: int(each.uncovered.any(axis=1).sum()) for root, each in self.settled.items()}
        return "\n".join(f"derivative of node {root}: {count} rows to clear" for root, count in uncovered.items())


def find_first_writers(task: LayoutTask, reading: Reading, needs: BackwardNeeds) -> FirstWriters:
    """Returns the first writers. A gathered node in order shares the storage of its source if it writes first."""
    schedule = task.schedule
    storage = find_storage(schedule, {})
    if not task.request.needs_backward:
        return FirstWriters(storage)
    root = [own.root for own in storage]
    possible = {
        node: rows
        for node, rows in reading.in_order.items()
        if needs.needed[node] and needs.needed[rows.node] and not schedule.nodes[root[rows.node]].gradient
        if _stays_live(needs.live, node, rows)
    }
    written = [root[node] for node in _written_nodes(task, reading, needs)]
    writers = np.bincount(written, minlength=len(root))
    views = {node: rows for node, rows in possible.items() if writers[root[rows.node]] == 1}
    others = {node: rows for node, rows in possible.items() if node not in views}
    if others:
        storage = find_storage(schedule, views)
        tried = _collect(task, reading, needs, views, only={storage[rows.node].root for rows in others.values()})
        views |= {node: rows for node, rows in others.items() if tried.slots[node][0].all()}
    return _collect(task, reading, needs, views)


def receivers(task: LayoutTask, reading: Reading, needs: BackwardNeeds, node: int) -> list[int]:
    """Returns the nodes with derivatives written to by `node`, if the derivative of `node` is no view."""
    return sorted(set(_written_by(task, reading, needs, node)))


def _written_by(task: LayoutTask, reading: Reading, needs: BackwardNeeds, node: int) -> list[int]:
    """Returns the nodes with derivatives written to by `node`, a node once for each slot or operand."""
    if node in reading.gathered:
        written = [source for slot in needs.sent[node].slots for source in slot.sources]
    else:
        written = [operand.node for operand in task.schedule.nodes[node].operands]
    return [each for each in written if needs.needed[each]]


def _stays_live(live: LiveRows, node: int, shared: RowsOf) -> bool:
    """True if each live row of a gathered node is a live row of the source too."""
    own = live.rows(node)
    return shared.node not in live.live or bool((live.rows(shared.node)[shared.first :][: len(own)] | ~own).all())


def _written_nodes(task: LayoutTask, reading: Reading, needs: BackwardNeeds) -> list[int]:
    """Returns the nodes with written derivatives, once per writer."""
    written = [io.node for io in task.request.outputs if io.has_deriv and needs.needed[io.node]]
    for number in np.flatnonzero(needs.needed).tolist():
        if task.schedule.steps_of_node[number]:
            written += _written_by(task, reading, needs, number)
    return written


def _taken_rows(task: LayoutTask, needs: BackwardNeeds, io: RequestedRows, own: RowStorage) -> TakenRows | None:
    """Returns the rows of an output that take the derivative given by the user; None if no rows do.

    `own`: the storage of the node's derivative. A derivative given for unread rows does no harm.
    """
    live = needs.live
    if not io.has_deriv or not needs.needed[io.node]:
        return None
    block = output_block(task.schedule, io)
    hull = live.hull(block)
    if hull is None or live.is_whole(block):
        return hull and TakenRows(hull, False)
    if own.root in needs.unread:
        first = block.first + own.row_shift
        unread = needs.unread[own.root][first : first + block.num_rows]
        if (live.rows(io.node)[block.first : block.first + block.num_rows] | unread).all():
            return TakenRows(block, False)
    return TakenRows(hull, not live.is_whole(hull))


def _collect(
    task: LayoutTask, reading: Reading, needs: BackwardNeeds, views: Mapping[int, RowsOf], only: set[int] | None = None
) -> FirstWriters:
    """Returns the first writers of all derivatives, or of those of the roots `only`, with these views."""
    schedule, needed = task.schedule, needs.needed
    storage = find_storage(schedule, views)
    contributions = Contributions(schedule, storage, needs.unread)
    slots: list[SentSlot] = []
    operands: list[SentOperand] = []
    outputs: list[int | None] = []
    taken = [_taken_rows(task, needs, io, storage[io.node]) for io in task.request.outputs]
    for term, (io, rows_taken) in enumerate(zip(task.request.outputs, taken, strict=True)):
        outputs.append(None)
        if rows_taken is not None:
            _, first, count = rows_taken.rows
            bound = schedule.nodes[storage[io.node].root].adds_to_memory
            position, whole = np.array(len(schedule.steps)), np.zeros(1, np.int64)
            rows = np.arange(first, first + count)
            outputs[term] = contributions.add(io.node, rows, position, term, not bound, step_first=whole)
    for number, node in enumerate(schedule.nodes):
        positions = np.array(schedule.steps_of_node[number], np.int64)
        if not needed[number] or len(positions) == 0 or number in views:
            continue
        targets = receivers(task, reading, needs, number)
        if only is not None and not any(storage[target].root in only for target in targets):
            continue
        if number in reading.gathered:
            slots += slot_contributions(schedule, needs, contributions, number, positions)
        elif node.kind is NodeKind.KERNEL:
            operands += operand_contributions(schedule, needs, contributions, number, positions)
    settled, overwrites = contributions.settle()
    by_slot: dict[int, dict[int, np.ndarray]] = {}
    for number, slot, rows, contribution in slots:
        of_node = by_slot.setdefault(number, {})
        of_node.setdefault(slot, np.zeros(schedule.num_rows(number), bool))[rows] = overwrites[contribution]
    return FirstWriters(
        storage,
        views,
        settled,
        by_slot,
        {(sent.node, sent.operand): sent.sending.by_step(overwrites[sent.contribution]) for sent in operands},
        [each is not None and bool(overwrites[each].all()) for each in outputs],
        taken,
    )
