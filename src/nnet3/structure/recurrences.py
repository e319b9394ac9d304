"""Finds recurrences that have no way to start: each value on them needs another one.

Suppose that all input is given. A node is computable at some index if its required slots are; the nodes that are left
out of the least fixed point of this rule wait for themselves. IfDefined or Failover would let them begin.
"""

from __future__ import annotations

import numpy as np

from nnet3.schedule import DirectedGraph, strongly_connected_components
from nnet3.structure.node_rules import NodeRules
from nnet3.structure.nodes import DescriptorNode
from nnet3.structure.parts import NetworkParts


def startless_warnings(parts: NetworkParts) -> list[str]:
    """Returns for each recurrence that can never start a line with its place and a remedy."""
    stuck = sorted(never_computable(parts))
    if not stuck:
        return []
    rules, place = NodeRules(parts), {number: position for position, number in enumerate(stuck)}
    pairs = [(place[source], place[user]) for user in stuck for source in rules.needs(user) if source in place]
    sources, users = np.array(pairs, int).T
    group_of, _ = strongly_connected_components(DirectedGraph.from_edges(len(stuck), sources, users))
    inside = group_of[sources] == group_of[users]
    waiting = set(group_of[users[~inside]].tolist())  # for another group
    return [
        _warning(parts, {stuck[position] for position in np.flatnonzero(group_of == group).tolist()})
        for group in dict.fromkeys(group_of[users[inside]].tolist())
        if group not in waiting
    ]


def never_computable(parts: NetworkParts) -> set[int]:
    """Returns the nodes that no input makes computable at any index."""
    rules = NodeRules(parts)
    users: dict[int, list[int]] = {}
    for number in range(len(parts.nodes)):
        for source in parts.sources(number):
            users.setdefault(source, []).append(number)
    computable: set[int] = set()
    waiting = list(range(len(parts.nodes)))[::-1]  # mostly they are written after what they need
    while waiting:
        number = waiting.pop()
        if number not in computable and _is_computable(rules, number, computable):
            computable.add(number)
            waiting += users.get(number, [])
    return set(range(len(parts.nodes))) - computable


def _is_computable(rules: NodeRules, number: int, computable: set[int]) -> bool:
    if computable.issuperset(rules.may_use(number)):
        return True
    available = [not computable.isdisjoint(sources) for sources in rules.slot_sources(number)]
    return bool(rules.availability(number, np.array([available]))[0])


def _warning(parts: NetworkParts, group: set[int]) -> str:
    """Says which term of which line to wrap in IfDefined, preferably one with an offset in time."""
    needed = [
        (number, forward, reference)
        for number in sorted(group)
        if isinstance(node := parts.nodes[number], DescriptorNode)
        for forward in node.descriptor.needed_slots()
        for reference in forward.nodes()
        if parts.node_number[reference.node] in group
    ]
    delays = [need for need in needed if (plain := need[1].plain()) and plain[1]]
    number, forward, reference = (delays or needed)[0]
    span = next(forward.nodes()).span or parts.nodes[number].span
    message = (
        f"the recurrence through '{parts.visible_name(number)}' has no way to start: '{reference.node}' needs its own "
        "value of another time, always"
    )
    hint = f"write IfDefined({forward}), which is zero where there is no such value"
    return f"{span.place}: {message}\n{span.excerpt(hint)}" if span else f"{message}; {hint}"
