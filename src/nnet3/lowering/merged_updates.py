"""Merged updates: one a kernel and minibatch, because natural gradient looks at rows together.

A kernel runs backward in pieces if several nodes share it or if it lies in a recurrence. It learns once, from the rows
of all pieces, after the last of them. In h(t) = W (x(t) + h(t-1)) + b that is after step 1, the first one of h:

>>> from tests.lowering.examples import loop
>>> each = loop()
>>> groups = merged_updates(each.task, each.needs.needed, each.needs.live)
>>> groups
{('affine', ()): [2]}
>>> dict(last_pieces(each.schedule, groups))
{1: [('affine', ())]}
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import numpy as np

from nnet3.lowering.live_rows import LiveRows
from nnet3.lowering.schedule import LayoutTask, Schedule, Step
from nnet3.lowering.source import NodeKind, Use

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
