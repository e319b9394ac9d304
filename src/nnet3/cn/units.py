"""Units: groups of nodes, each computed by one worker when several workers share a network."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from nnet3.cn.node import Node
from nnet3.cn.order import Composite


@dataclass(frozen=True, eq=False)
class Unit:
    """Nodes computed together: a node, a loop, or a chain of nodes and loops without branches.

    `outputs`: roots, and nodes with users outside the unit. `children`: numbers of the units whose values are needed;
    `operands`: needed values of children, and inputs.
    """

    nodes: tuple[Node, ...]
    outputs: tuple[Node, ...]
    operands: tuple[Node, ...]
    children: tuple[int, ...]

    def cost(self, num_samples: int) -> int:
        """Returns roughly the number of multiplications, or of elements where there are none."""
        return sum(node_cost(node, num_samples) for node in self.nodes)


def node_cost(node: Node, num_samples: int) -> int:
    columns = node.shape.num_cols or num_samples
    if node.operation.weights:  # a matrix product
        return node.shape.rows * columns * (node.operands[node.operation.weights[0]].shape.num_cols or 1)
    largest = max([node.shape.rows, *(operand.shape.rows for operand in node.operands)])
    return largest * max(columns, num_samples if any(o.shape.has_samples for o in node.operands) else 1)


def find_units(composites: Sequence[Composite], needed: Collection[Node], roots: Collection[Node]) -> list[Unit]:
    """Returns the needed computed nodes, in units, in forward order.

    A composite joins the unit of its only operand if the operand has no other user: a branch is one unit.
    """
    needed_set = set(needed)
    computed = [
        composite for composite in composites if composite.nodes[0] in needed_set and composite.nodes[0].is_evaluated
    ]
    group_of: dict[Node, int] = {}
    users: dict[Node, set[int]] = {}
    for number, composite in enumerate(computed):
        group_of.update(dict.fromkeys(composite.nodes, number))
    for number, composite in enumerate(computed):
        for node in composite.nodes:
            for operand in node.operands:
                if operand in group_of and group_of[operand] != number:
                    users.setdefault(operand, set()).add(number)
    unit_of = list(range(len(computed)))
    members: dict[int, list[Node]] = {}
    for number, composite in enumerate(computed):
        outside = {o for node in composite.nodes for o in node.operands if o in group_of and group_of[o] != number}
        below = {unit_of[group_of[operand]] for operand in outside}
        if len(below) == 1:
            unit = below.pop()
            others = {user for node in members[unit] for user in users.get(node, ()) if unit_of[user] != unit}
            if others == {number} and not any(node in roots for node in members[unit]):
                unit_of[number] = unit
        members.setdefault(unit_of[number], []).extend(composite.nodes)
    numbers = {unit: position for position, unit in enumerate(members)}
    owner = {node: numbers[unit] for unit, nodes in members.items() for node in nodes}
    return [_unit(nodes, owner, numbers[unit], users, unit_of, numbers, roots) for unit, nodes in members.items()]


def _unit(
    nodes: list[Node],
    owner: dict[Node, int],
    number: int,
    users: dict[Node, set[int]],
    unit_of: list[int],
    numbers: dict[int, int],
    roots: Collection[Node],
) -> Unit:
    outputs = [n for n in nodes if n in roots or any(numbers[unit_of[u]] != number for u in users.get(n, ()))]
    operands = dict.fromkeys(o for node in nodes for o in node.operands if owner.get(o) != number)
    given = tuple(operand for operand in operands if not operand.is_stored)
    children = dict.fromkeys(owner[operand] for operand in given if operand in owner)
    return Unit(tuple(nodes), tuple(outputs), given, tuple(children))
