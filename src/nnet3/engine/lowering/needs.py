"""Second stage of the layout: the nodes and rows that take part in the backward pass, and the kernels' joint updates.

The four steps of h(t) = W (x(t) + h(t-1)) + b learn together:

>>> from tests.lowering.examples import loop
>>> each = loop()
>>> print(find_needs(each.task, each.reading))
nodes with a derivative: 0, 1, 2, 3
affine learns once from nodes [2]

A kernel runs backward in pieces if several nodes share the kernel or if it lies in a recurrence. The kernel learns
once, from the rows of all pieces, after the last piece. In h(t) = W (x(t) + h(t-1)) + b the last piece is step 1, the
first step of h:

>>> groups = merged_updates(each.task, each.needs.needed, each.needs.live)
>>> groups
{('affine', ()): [2]}
>>> dict(last_pieces(each.schedule, groups))
{1: [('affine', ())]}

Rows with t outside `deriv_times` are dead: the derivative of a dead row counts as zero, at every node. Rows of padding
are dead too. All other rows are live, and so are values without samples. The backward pass leaves dead rows out. A
kernel that works row by row, without a memo or indexes, runs on the rows of a step from the first live row to the last.
Any other kernel runs on whole steps, with zeros in dead rows, and derivatives for dead rows are dropped. Steps without
a live row are left out.

>>> from tests.lowering.examples import splice
>>> each = splice()
>>> live = live_rows(each.source, each.schedule, (1, 2))
>>> live.live[2].tolist()  # of t = 0..3
[False, True, True, False]
>>> live.hull(Step(2, 0, 4))  # the rows from the first live one to the last
Step(node=2, first=1, num_rows=2)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from nnet3.base.index import T
from nnet3.engine.lowering.graph import NO_ITEM
from nnet3.engine.lowering.reading import GatheredNode, Reading, SlotPattern, slot_pattern
from nnet3.engine.lowering.schedule import LayoutTask, Schedule, Step
from nnet3.engine.lowering.source import GraphSource, NodeKind, Use
from nnet3.engine.schedule import reached


@dataclass(eq=False)
class LiveRows:
    """The rows that have derivatives: a mask `live[node]` (rows,) for each node with dead rows."""

    source: GraphSource
    schedule: Schedule
    live: dict[int, np.ndarray] = field(default_factory=dict)
    _cut: dict[int, bool] = field(default_factory=dict)

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
        """Returns the rows from the first live row to the last; None without a live row."""
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

    def updated(self, node: int) -> list[Step]:
        """Returns the rows of which a node's update, merged from all steps, learns, in runs.

        The first live rows of a step may lie behind the last rows of the step before: times may run backward.
        """
        whole = computed_rows(self.schedule, node)
        if node not in self.live or not self.is_cut(node):
            return [] if self.hull(whole) is None else [whole]
        steps = sorted(self.schedule.steps[position] for position in self.schedule.steps_of_node[node])
        runs: list[Step] = []
        for hull in filter(None, map(self.hull, steps)):
            if runs and hull.first == runs[-1].first + runs[-1].num_rows:
                runs[-1] = runs[-1]._replace(num_rows=runs[-1].num_rows + hull.num_rows)
            else:
                runs.append(hull)
        return runs

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
        if not self.live:
            return gathered
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


Learner = tuple[str, tuple[int, ...]]
"""The name of a kernel and those of its operands without samples, which learn with it."""


def merged_updates(task: LayoutTask, needed: np.ndarray, live: LiveRows) -> dict[Learner, list[int]]:
    """Returns the kernels that learn from several steps together, and their nodes."""
    source, request, schedule = task
    nodes: dict[Learner, list[int]] = defaultdict(list)
    for number, node in enumerate(schedule.nodes):
        if node.kind is not NodeKind.KERNEL or not needed[number] or not schedule.steps_of_node[number]:
            continue
        if live.worked_on(computed_rows(schedule, number)) is None:
            continue
        info = source.kernel(number)
        whole = any(o.use is Use.WHOLE and needed[o.node] for o in node.operands)
        rows_only = all(
            o.use is Use.ROW or (o.use is Use.WHOLE and promises.accumulates_deriv)
            for o, promises in zip(node.operands, info.inputs, strict=True)
        )
        if info.merges_updates and rows_only and (request.updates(info) or whole):
            whole_operands = tuple(operand.node for operand in node.operands if operand.use is Use.WHOLE)
            nodes[info.name, whole_operands].append(number)
    return {
        learner: numbers
        for learner, numbers in nodes.items()
        if sum(len(schedule.steps_of_node[number]) for number in numbers) > 1
    }


def computed_rows(schedule: Schedule, node: int) -> Step:
    """Returns the rows of a node computed by its kernel."""
    given = schedule.num_given[node]
    return Step(node, given, schedule.num_rows(node) - given)


def last_pieces(schedule: Schedule, groups: Mapping[Learner, list[int]]) -> dict[int, list[Learner]]:
    """Returns the updates that come after each step: after the last piece of the backward pass, the first forward."""
    result: dict[int, list[Learner]] = defaultdict(list)
    for learner, nodes in groups.items():
        result[min(schedule.steps_of_node[node][0] for node in nodes)].append(learner)
    return result


@dataclass(frozen=True, eq=False)
class BackwardNeeds:
    """The derivatives and updates of the backward pass; without a backward pass, nothing is needed.

    `needed` (nodes,): the nodes with a derivative. `live`: the rows with a derivative. `sent`: the slots by
    which gathered nodes send derivatives back, the objects of the reading itself unless some rows are not live.
    `updates`: kernels that learn from several steps at once, and the nodes of each kernel. `unread[node]` (rows,): rows
    with unread derivatives.
    """

    needed: np.ndarray
    live: LiveRows
    sent: Mapping[int, GatheredNode]
    updates: Mapping[Learner, list[int]]
    unread: Mapping[int, np.ndarray]

    @cached_property
    def merged(self) -> frozenset[int]:
        """The nodes with merged updates, made after the last step."""
        return frozenset(node for nodes in self.updates.values() for node in nodes)

    def __str__(self) -> str:
        nodes = ", ".join(map(str, np.flatnonzero(self.needed).tolist())) or "none"
        merged = [f"{name} learns once from nodes {nodes}" for (name, _), nodes in self.updates.items()]
        return "\n".join([f"nodes with a derivative: {nodes}", *merged])


def find_needs(task: LayoutTask, reading: Reading) -> BackwardNeeds:
    """Returns the needs of a task."""
    request = task.request
    live = live_rows(task.source, task.schedule, request.deriv_times if request.needs_backward else None)
    sent = {number: live.sent(each) for number, each in reading.gathered.items()}
    needed = deriv_needed(task, sent, live)
    updates = merged_updates(task, needed, live)
    merged = {number for numbers in updates.values() for number in numbers}
    unread = {number: live.unread(number, sent.get(number), number in merged) for number in live.live}
    return BackwardNeeds(
        needed, live, sent, updates, {number: rows for number, rows in unread.items() if rows is not None}
    )


def deriv_needed(task: LayoutTask, sent: Mapping[int, GatheredNode], live: LiveRows) -> np.ndarray:
    """Returns the nodes whose values need a derivative, a mask (nodes,).

    A node needs a derivative if the node, or a node below, gives an input derivative, an update or the gradient of
    bound memory. If some outputs are only watched, an output with a given derivative must also use the node. Nodes
    without live rows need no derivative, except an input with a wanted derivative: the derivative is zero. `sent`: the
    slots by which gathered nodes send derivatives back.
    """
    source, request, schedule = task
    needed = np.zeros(len(schedule.nodes), bool)
    if not request.needs_backward:
        return needed
    users: list[list[int]] = [[] for _ in schedule.nodes]
    uses: list[list[int]] = [[] for _ in schedule.nodes]
    for number, node in enumerate(schedule.nodes):
        if not schedule.is_used(number) or live.is_dead(number):
            continue
        if node.kind is NodeKind.PROVIDED:
            needed[number] |= bool(node.gradient)
        elif node.kind is NodeKind.KERNEL and schedule.steps_of_node[number]:
            needed[number] |= request.trains(source.kernel(number))
        if node.kind is NodeKind.GATHERED:
            used = {each for slot in sent[number].slots for each in slot.sources} if number in sent else set()
        else:
            used = {operand.node for operand in node.operands}
        uses[number] = list(used)
        for each in used:
            users[each].append(number)
    asked = [io.node for io in request.inputs if io.has_deriv]
    needed[asked] = True
    alive = (number for number in np.flatnonzero(needed).tolist() if not live.is_dead(number))
    needed[reached(alive, users.__getitem__)] = True
    if request.watches_others:
        below = np.zeros_like(needed)
        below[reached([io.node for io in request.outputs if io.has_deriv], uses.__getitem__)] = True
        needed &= below
        needed[asked] = True
    return needed
