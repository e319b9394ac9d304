"""Second stage of the layout: which nodes take part in the backward pass, with which rows, and what learns together.

The four steps of h(t) = W (x(t) + h(t-1)) + b learn together:

>>> from tests.lowering.examples import loop
>>> each = loop()
>>> print(find_needs(each.task, each.reading))
nodes with a derivative: 0, 1, 2, 3
affine learns once from nodes [2]

A kernel runs backward in pieces if several nodes share it or if it lies in a recurrence. It learns once, from the rows
of all pieces, after the last of them. In h(t) = W (x(t) + h(t-1)) + b that is after step 1, the first one of h:

>>> groups = merged_updates(each.task, each.needs.needed, each.needs.live)
>>> groups
{('affine', ()): [2]}
>>> dict(last_pieces(each.schedule, groups))
{1: [('affine', ())]}
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from nnet3.lowering.live_rows import LiveRows, live_rows
from nnet3.lowering.patterns import GatheredNode
from nnet3.lowering.reading import Reading
from nnet3.lowering.schedule import LayoutTask, Schedule, Step
from nnet3.lowering.source import NodeKind, Use
from nnet3.schedule import reached

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
        if info.merges_updates and rows_only and ((info.updatable and request.need_model_derivative) or whole):
            whole_operands = tuple(operand.node for operand in node.operands if operand.use is Use.WHOLE)
            nodes[info.name, whole_operands].append(number)
    return {
        learner: numbers
        for learner, numbers in nodes.items()
        if sum(len(schedule.steps_of_node[number]) for number in numbers) > 1
    }


def computed_rows(schedule: Schedule, node: int) -> Step:
    """Returns the rows of a node that its kernel computes."""
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
    """The derivatives and updates of the backward pass; without one, nothing is needed.

    `needed` (nodes,): the nodes that have a derivative. `live`: the rows that have one. `sent`: the slots by which
    gathered nodes send derivatives back, the same objects as in the reading unless some rows are not live. `updates`:
    kernels that learn from several steps at once, and their nodes. `unread[node]` (rows,): rows whose derivatives
    nobody reads.
    """

    needed: np.ndarray
    live: LiveRows
    sent: Mapping[int, GatheredNode]
    updates: Mapping[Learner, list[int]]
    unread: Mapping[int, np.ndarray]

    @cached_property
    def merged(self) -> frozenset[int]:
        """The nodes whose updates are made together, after all their steps."""
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

    A node needs one if it, or a node below it, gives an input derivative, an update or the gradient of bound memory. If
    some outputs are only watched, an output whose derivative is given must also use the node. Nodes without live rows
    need none, but for an input whose derivative is asked for: it is zero. `sent`: the slots by which gathered nodes
    send derivatives back.
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
            needed[number] |= source.kernel(number).updatable and request.need_model_derivative
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
