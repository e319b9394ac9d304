"""Stages: the pieces of computing a network with nodes of whole sequences, or with samples on several axes.

A piece is a program over the samples of one axis, or a node computed by PyTorch between programs
(`sequence_operation`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from nnet3.cn.node import Node
from nnet3.cn.order import Composite
from nnet3.cn.sequence_operation_in_loop import contexts_of, row_operands
from nnet3.errors import NetworkError


@dataclass(frozen=True, order=True)
class StageKey:
    """The time at which a node is computed; smaller keys come first. Nodes of a program have equal keys and axes."""

    level: int
    is_program: bool
    axis: str


@dataclass(frozen=True, eq=False)
class Stage:
    """Nodes computed together, in forward order; a single node if the stage is no program."""

    key: StageKey
    nodes: tuple[Node, ...]


def find_stages(composites: Sequence[Composite]) -> list[Stage]:
    """Returns the stages of a graph, in an order with operands first.

    Raises NetworkError for a loop with a node of whole sequences in it.
    """
    keys: dict[Node, StageKey] = {}
    members: dict[tuple[StageKey, Node | None], list[Node]] = {}
    for composite in composites:
        if not any(node.is_evaluated for node in composite.nodes):
            continue
        key = _stage_key(composite, keys)
        keys.update(dict.fromkeys(composite.nodes, key))
        group = members.setdefault((key, None if key.is_program else composite.nodes[0]), [])
        group += composite.nodes
    return [Stage(key, tuple(nodes)) for (key, _), nodes in sorted(members.items(), key=lambda item: item[0][0])]


def _stage_key(composite: Composite, keys: dict[Node, StageKey]) -> StageKey:
    """Returns the earliest key at which the nodes can be computed, in a program of their axis."""
    inside = set(composite.nodes)
    operands = [operand for node in composite.nodes for operand in node.operands if operand not in inside]
    below = [keys[operand] for operand in operands if operand in keys]
    whole = [node for node in composite.nodes if node.operation.is_whole]
    if whole and not composite.is_loop:
        return StageKey(1 + max([-1, *(key.level for key in below)]), False, "")
    for node in whole:
        _check_steps(node, inside)
    contexts = [keys[operand] for node in whole for operand in contexts_of(node) if operand in keys]
    rows = [operand for node in composite.nodes for operand in row_operands(node)]
    axes = {node.shape.axis for node in (*composite.nodes, *rows) if node.shape.has_samples}
    if not axes:
        highest = max([key.level for key in below], default=0)
        axes = {key.axis for key in below if key.level == highest and key.is_program} or {""}
    axis = min(axes)
    level = max([0, *(key.level + (key.is_program and key.axis != axis) for key in below)])
    return StageKey(max([level, *(key.level + key.is_program for key in contexts)]), True, axis)


def _check_steps(node: Node, inside: Collection[Node]) -> None:
    """Raises NetworkError unless a node of whole sequences can be computed frame by frame of the loop that it is in."""
    within = [operand.formula for operand in contexts_of(node) if operand in inside]
    if node.operation.steps and not within:
        return
    if node.operation.steps:
        needs = f"needs all frames of '{within[0]}', which are not known"
    else:
        needs = "needs whole sequences, and cannot stand"
    raise NetworkError(f"'{node.formula}' ({node.type}) {needs} in a loop over their frames\n  {node.place}")
