"""Which nodes take part in the backward pass."""

from __future__ import annotations

import numpy as np

from nnet3.lowering.patterns import GatheredNode
from nnet3.lowering.schedule import Schedule
from nnet3.lowering.source import GraphSource, LoweringRequest, NodeKind


def deriv_needed(
    source: GraphSource, request: LoweringRequest, schedule: Schedule, gathered: dict[int, GatheredNode]
) -> np.ndarray:
    """For each node, whether the derivative with respect to its value is needed (nodes,): what it, or anything it is
    computed from, has to give: an input derivative, an update, the gradient of bound memory.

    A node of which nobody asks a derivative but that something learns from has one too: it is zero.
    """
    needed = np.zeros(len(schedule.nodes), bool)
    if not request.needs_backward:
        return needed
    for io in request.inputs:
        needed[io.node] |= io.has_deriv
    users: list[list[int]] = [[] for _ in schedule.nodes]
    for number, node in enumerate(schedule.nodes):
        if not schedule.is_used(number):
            continue
        if node.kind is NodeKind.PROVIDED:
            needed[number] |= bool(node.gradient)
        elif node.kind is NodeKind.KERNEL and schedule.steps_of_node[number]:
            needed[number] |= source.kernel(number).updatable and request.need_model_derivative
        if node.kind is NodeKind.GATHERED:
            used = {each for slot in gathered[number].slots for each in slot.sources} if number in gathered else set()
        else:
            used = {operand.node for operand in node.operands}
        for each in used:
            users[each].append(number)
    waiting = np.flatnonzero(needed).tolist()
    while waiting:
        for user in users[waiting.pop()]:
            if not needed[user]:
                needed[user] = True
                waiting.append(user)
    return needed
