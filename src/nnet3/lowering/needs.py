"""Second stage of the layout: which nodes take part in the backward pass, with which rows, and what learns together.

The four steps of h(t) = W (x(t) + h(t-1)) + b learn together:

>>> from tests.lowering.examples import loop
>>> each = loop()
>>> print(find_needs(each.task, each.reading))
nodes with a derivative: 0, 1, 2, 3
affine learns once from nodes [2]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from nnet3.lowering.live_rows import LiveRows, live_rows
from nnet3.lowering.merged_updates import Learner, merged_updates
from nnet3.lowering.patterns import GatheredNode
from nnet3.lowering.reading import Reading
from nnet3.lowering.schedule import LayoutTask
from nnet3.lowering.source import NodeKind
from nnet3.schedule import reached


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
