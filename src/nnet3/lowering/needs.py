"""Which nodes take part in the backward pass."""

from __future__ import annotations

import numpy as np

from nnet3.lowering.live_rows import LiveRows
from nnet3.lowering.patterns import GatheredNode
from nnet3.lowering.schedule import Schedule
from nnet3.lowering.source import GraphSource, LoweringRequest, NodeKind


def deriv_needed(
    source: GraphSource, request: LoweringRequest, schedule: Schedule, sent: dict[int, GatheredNode], live: LiveRows
) -> np.ndarray:
    """For each node, whether the derivative with respect to its value is needed (nodes,): what it, or anything it is
    computed from, has to give: an input derivative, an update, the gradient of bound memory.

    `sent`: what gathered nodes send back. A node of which nobody asks a derivative but that something learns from has
    one too: it is zero. So has an input without live rows, but no other node without.
    """
    needed = np.zeros(len(schedule.nodes), bool)
    if not request.needs_backward:
        return needed
    users: list[list[int]] = [[] for _ in schedule.nodes]
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
        for each in used:
            users[each].append(number)
    for io in request.inputs:
        needed[io.node] |= io.has_deriv
    waiting = [number for number in np.flatnonzero(needed).tolist() if not live.is_dead(number)]
    while waiting:
        for user in users[waiting.pop()]:
            if not needed[user]:
                needed[user] = True
                waiting.append(user)
    return needed
