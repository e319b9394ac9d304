"""Live rows: the rows with derivatives, where a request limits derivatives to a range of times.

Rows with t outside the range are dead: their derivatives count as zero, at every node. Rows of padding are dead too.
All other rows are live, and so are values without samples. The backward pass leaves dead rows out. A kernel that treats
each row alone runs on the rows of a step from the first live one to the last. Any other kernel runs on whole steps,
with zeros in dead rows, and its derivatives for dead rows are dropped. Steps without a live row are left out.

>>> from tests.lowering.examples import splice
>>> each = splice()
>>> live = live_rows(each.source, each.schedule, (1, 2))
>>> live.live[2].tolist()  # of t = 0..3
[False, True, True, False]
>>> live.hull(Step(2, 0, 4))  # the rows from the first live one to the last
Step(node=2, first=1, num_rows=2)
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from nnet3.index import T
from nnet3.lowering.graph import NO_ITEM
from nnet3.lowering.patterns import GatheredNode, SlotPattern, slot_pattern
from nnet3.lowering.schedule import Schedule, Step
from nnet3.lowering.source import GraphSource, NodeKind, Use


@dataclass(eq=False)
class LiveRows:
    """The rows that have derivatives: a mask `live[node]` (rows,) for each node with dead rows."""

    source: GraphSource
    schedule: Schedule
    live: dict[int, np.ndarray] = field(default_factory=dict)
    _cut: dict[int, bool] = field(default_factory=dict)

    @property
    def is_limited(self) -> bool:
        return bool(self.live)

    def is_dead(self, node: int) -> bool:
        """True if no row of a node has a derivative."""
        return node in self.live and not self.live[node].any()

    def rows(self, node: int) -> np.ndarray:
        """Returns the live rows of a node, or of what a view looks at, as a mask (rows,)."""
        return self.live[node] if node in self.live else np.ones(self.schedule.whole(node).num_rows, bool)

    def is_whole(self, step: Step) -> bool:
        """True if all these rows of a node are live."""
        return step.node not in self.live or bool(self.live[step.node][step.first : step.first + step.num_rows].all())

    def hull(self, step: Step) -> Step | None:
        """Returns the rows from the first live one to the last live one; None if there are none."""
        if step.node not in self.live:
            return step
        live = np.flatnonzero(self.live[step.node][step.first : step.first + step.num_rows])
        if len(live) == 0:
            return None
        return Step(step.node, step.first + int(live[0]), int(live[-1] - live[0]) + 1)

    def worked_on(self, step: Step) -> Step | None:
        """Returns the rows on which a kernel's step runs backward; None if it does not."""
        hull = self.hull(step)
        return hull if hull is None or self.is_cut(step.node) else step

    def is_cut(self, node: int) -> bool:
        """True if a kernel node runs backward on live rows only, because its kernel treats each row alone."""
        if node not in self._cut:
            info = self.source.kernel(node)
            self._cut[node] = (
                (info.row_by_row and not info.uses_memo and not info.needs_indexes)
                and all(operand.use in (Use.ROW, Use.WHOLE) for operand in self.schedule.nodes[node].operands)
            )  # fmt: skip
        return self._cut[node]

    def unread(self, node: int, sent: GatheredNode | None, is_merged: bool) -> np.ndarray | None:
        """Returns the rows of a node whose derivative nobody reads, a mask (rows,); None if there are none.

        `sent`: the slots by which a gathered node sends back. `is_merged`: an update takes the rows of all steps.
        """
        kind, given = self.schedule.nodes[node].kind, self.schedule.num_given[node]
        if node not in self.live or kind not in (NodeKind.KERNEL, NodeKind.GATHERED):
            return None
        unread = np.ones(len(self.live[node]), bool)
        unread[:given] = False
        steps = [self.schedule.steps[position] for position in self.schedule.steps_of_node[node]]
        if sent is not None and all(slot.regular.all() for slot in sent.slots):
            for slot in sent.slots:
                unread &= ~slot.used
            return unread
        if is_merged:
            steps.append(Step(node, given, len(unread) - given))
        for step in steps:
            read = step if kind is NodeKind.GATHERED else self.worked_on(step)
            if read is not None:
                unread[read.first : read.first + read.num_rows] = False
        return unread

    def sent(self, gathered: GatheredNode) -> GatheredNode:
        """Returns the slots by which a gathered node sends back: from live rows, to live rows."""
        own = self.live.get(gathered.number)
        if own is None and not any(source in self.live for slot in gathered.slots for source in slot.sources):
            return gathered
        parts = []
        for part, column, slots in gathered.parts:
            kept = [self._sent_slot(slot, own, gathered) for slot in slots]
            parts.append((part, column, [slot for slot in kept if slot is not None]))
        return replace(gathered, parts=tuple(parts))

    def _sent_slot(self, slot: SlotPattern, own: np.ndarray | None, gathered: GatheredNode) -> SlotPattern | None:
        live = slot.used.copy() if own is None else slot.used & own
        for source in slot.sources:
            if source in self.live:
                rows = np.flatnonzero(slot.used & (slot.source_node == source))
                live[rows] &= self.live[source][slot.source_row[rows]]
        if (live == slot.used).all():
            return slot
        nodes, rows = np.where(live, slot.source_node, -1), np.where(live, slot.source_row, -1)
        return slot_pattern(nodes, rows, gathered.step_first, gathered.step_count)


def live_rows(source: GraphSource, schedule: Schedule, times: tuple[int, int] | None) -> LiveRows:
    """Returns the live rows: those with t from times[0] to times[1], both included; all if `times` is None."""
    result = LiveRows(source, schedule)
    if times is None:
        return result
    time_of_item = np.asarray(schedule.graph.indexes[:, T])
    inside_of_item = (time_of_item >= times[0]) & (time_of_item <= times[1])
    for number in range(len(schedule.nodes)):
        seen = schedule.seen(number)
        items = schedule.items[seen]
        real = items != NO_ITEM
        if schedule.nodes[seen].num_rows is not None or inside_of_item[items[real]].all():
            continue
        result.live[number] = real & inside_of_item[np.where(real, items, 0)]
    return result
