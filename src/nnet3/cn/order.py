"""Orders of computation and needGradient flags: Algorithms 1.2, 1.4, 1.5 and 1.6 as functions on nodes.

Where the chapter recurses these keep their own stack: a deep network would exceed Python's recursion limit.
docs/computational_networks.md lists what the printed algorithms get wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from nnet3.cn.node import Node
from nnet3.engine.schedule.directed_graph import DirectedGraph, reached
from nnet3.engine.schedule.strong_components import strongly_connected_components
from nnet3.errors import NetworkError

Vertex = TypeVar("Vertex", bound=Hashable)


@dataclass(frozen=True, eq=False)
class Composite:
    """A vertex of the graph without loops: one node, or all nodes of a loop in order within one frame."""

    nodes: tuple[Node, ...]
    is_loop: bool


def operands_of(node: Node) -> Sequence[Node]:
    return node.operands


def forward_order(
    roots: Iterable[Vertex],
    children: Callable[[Vertex], Sequence[Vertex]] = operands_of,  # type: ignore[assignment]
) -> list[Vertex]:
    """Algorithm 1.2: returns the roots and all needed nodes, children before parents, in depth-first order.

    Raises NetworkError if the graph has a loop; see `forward_order_with_loops`.
    """
    order: list[Vertex] = []
    done: set[Vertex] = set()
    on_path: set[Vertex] = set()
    for root in roots:
        stack = [(root, 0)]
        while stack:
            vertex, position = stack.pop()
            if position == 0:
                if vertex in done:
                    continue
                if vertex in on_path:
                    raise NetworkError("the graph has a loop: its nodes have no order")
                on_path.add(vertex)
            below = children(vertex)
            if position < len(below):
                stack.append((vertex, position + 1))
                stack.append((below[position], 0))
            else:
                on_path.discard(vertex)
                done.add(vertex)
                order.append(vertex)
    return order


def all_nodes(roots: Iterable[Node]) -> list[Node]:
    """Returns the roots and all nodes below them, in depth-first order; loops are allowed."""
    return reached(roots, operands_of)


def parents_of(nodes: Iterable[Node]) -> dict[Node, list[Node]]:
    """Returns the users of every node, repeated for every operand position of the node."""
    nodes = list(nodes)
    parents: dict[Node, list[Node]] = {node: [] for node in nodes}
    for node in nodes:
        for operand in node.operands:
            parents[operand].append(node)
    return parents


def forward_order_with_loops(roots: Iterable[Node]) -> list[Composite]:
    """Algorithm 1.6: returns strongly connected components in forward order; within a loop, delays are leaves."""
    roots = list(roots)
    nodes = all_nodes(roots)
    number = {node: i for i, node in enumerate(nodes)}
    arcs = [(number[operand], number[node]) for node in nodes for operand in node.operands]
    sources, targets = zip(*arcs, strict=True) if arcs else ((), ())
    component, _ = strongly_connected_components(DirectedGraph.from_edges(len(nodes), sources, targets))
    members: dict[int, list[Node]] = {}
    for node in nodes:
        members.setdefault(int(component[number[node]]), []).append(node)
    below: dict[int, list[int]] = {}
    for label, inside in members.items():
        outside = [int(component[number[operand]]) for node in inside for operand in node.operands]
        below[label] = [other for other in dict.fromkeys(outside) if other != label]
    order = forward_order([int(component[number[root]]) for root in roots], lambda label: below[label])
    return [_composite(members[label]) for label in order]


def _composite(nodes: list[Node]) -> Composite:
    """Returns the nodes of a component in their order within a frame (GetLoopForwardOrder)."""
    inside = set(nodes)
    is_loop = len(nodes) > 1 or nodes[0] in nodes[0].operands
    if not is_loop:
        return Composite((nodes[0],), False)

    def children(node: Node) -> Sequence[Node]:
        return () if node.lag else [operand for operand in node.operands if operand in inside]

    return Composite(tuple(forward_order(nodes, children)), True)


def gradient_order(
    criterion: Vertex,
    children: Callable[[Vertex], Sequence[Vertex]] = operands_of,  # type: ignore[assignment]
) -> list[Vertex]:
    """Algorithm 1.4: the nodes whose ComputePartialGradient is called, a node after all its parents. Leaves have none.

    The criterion has no parents and comes first, let in without counting a parent down.
    """
    descendants = forward_order([criterion], children)
    parents_left = dict.fromkeys(descendants, 0)
    for vertex in descendants:
        for child in children(vertex):
            parents_left[child] += 1
    order: list[Vertex] = []
    stack = [criterion]
    while stack:
        vertex = stack.pop()
        if not children(vertex):
            continue
        order.append(vertex)
        for child in reversed(children(vertex)):
            parents_left[child] -= 1
            if parents_left[child] == 0:
                stack.append(child)
    return order


def gradient_order_with_loops(criteria: Sequence[Node], flags: Mapping[Node, bool]) -> list[Composite]:
    """Algorithm 1.4 on the graph without loops of Algorithm 1.6: the composites with gradients, after all parents.

    All criteria are gone back from at once. Loops are walked back within a frame; nodes that need no gradient by
    `flags` (Algorithm 1.5) are left out.
    """
    composite_of = {node: composite for composite in forward_order_with_loops(criteria) for node in composite.nodes}
    start = Composite((), False)

    def children(composite: Composite) -> Sequence[Composite]:
        below = criteria if composite is start else [operand for node in composite.nodes for operand in node.operands]
        return [other for other in dict.fromkeys(composite_of[node] for node in below) if other is not composite]

    order = gradient_order(start, children)[1:]
    return [Composite(found.nodes[::-1], found.is_loop) for found in order if flags[found.nodes[0]]]


def need_gradient_flags(roots: Iterable[Node], wanted: Mapping[Node, bool] | None = None) -> dict[Node, bool]:
    """Algorithm 1.5: whether the gradient of a node is needed: of leaves and of `wanted` nodes, as stated
    (a parameter's default is `trainable`, an input's False); of others, if the gradient of any child is. Loops are
    allowed.
    """
    return gradient_flags(forward_order_with_loops(roots), wanted or {})


def gradient_flags(composites: Iterable[Composite], wanted: Mapping[Node, bool]) -> dict[Node, bool]:
    """Returns `need_gradient_flags` of all nodes of composites in forward order."""
    flags: dict[Node, bool] = {}
    for composite in composites:
        needed = False
        for node in composite.nodes:
            own = wanted.get(node, node.is_trained)
            needed |= own or any(flags.get(operand, False) for operand in node.operands)
        flags.update(dict.fromkeys(composite.nodes, needed))
    return flags


def needed_nodes(ordered: Iterable[Node], roots: Iterable[Node], given: Collection[Node]) -> list[Node]:
    """Returns the nodes that the roots still need when the values of `given` are known, in unchanged order."""
    seen = set(reached(roots, lambda node: () if node in given or node.is_stored else node.operands))
    return [node for node in ordered if node in seen]


def initial_states(nodes: Iterable[Node]) -> dict[Node, int]:
    """Returns the inputs that are initial states of delays, with the lag of largest size served."""
    found: dict[Node, int] = {}
    for node in nodes:
        if node.initial is not None:
            known = found.get(node.initial, 0)
            if known * node.lag < 0:
                raise NetworkError(f"'{node.initial.formula}' is the initial state of delays in both directions")
            found[node.initial] = max(known, node.lag, key=abs)
    return found
