"""Reach: the largest distance between an output and input on which the output's value depends.

The context of a network is the input needed by an output. Optional input (IfDefined, Failover, statistics) may lie
further away: a recurrence that looks ahead reaches to the end of the input. An input `ivector` has no times.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from typing import NamedTuple

import numpy as np

from nnet3.base.index import T, indexes_at
from nnet3.engine.schedule import reached
from nnet3.model.components.base import Component
from nnet3.model.structure.node_rules import NodeRules
from nnet3.model.structure.nodes import ComponentNode, DescriptorNode, InputNode
from nnet3.model.structure.parts import NetworkParts


class _Look(NamedTuple):
    """A node's look at another node, at most `ahead` frames later; infinity: at a time that does not move with t."""

    node: int
    source: int
    ahead: float


def right_reach(parts: NetworkParts, outputs: Collection[str] = ("output",)) -> float:
    """Returns the largest number of frames of input after an output on which the output may depend; infinity without a
    bound.
    """
    looks = list(_looks(NodeRules(parts)))
    users, sources = (np.array([look[column] for look in looks], np.intp) for column in (0, 1))
    ahead = np.array([look.ahead for look in looks])
    if np.isinf(ahead).any():
        return math.inf
    reach = np.full(len(parts.nodes), -math.inf)
    reach[_timed_inputs(parts)] = 0
    for _ in range(len(parts.nodes) + 1):
        before = reach.copy()
        np.maximum.at(reach, users, before[sources] + ahead)
        if np.array_equal(reach, before):
            return float(max(reach[parts.node_number[name]] for name in outputs))
    return math.inf  # a recurrence gets further with every round


def component_reach(component: Component) -> float:
    """Returns the frames of input after an output on which a component may look; infinity without a bound."""
    period = component.rules_period
    return _farthest(component.wanted_inputs(indexes_at(np.arange(2 * period))), period) if period else math.inf


def depends_on_what_is_there(parts: NetworkParts) -> bool:
    """Returns true if an output depends on which frames of input are given, or on where t = 0 is."""
    rules = NodeRules(parts)
    if any(math.isinf(look.ahead) for look in _looks(rules)):
        return True
    return any(_has_optional_slots(rules, number) for number in _needed(parts))


def _has_optional_slots(rules: NodeRules, number: int) -> bool:
    node = rules.parts.nodes[number]
    if isinstance(node, ComponentNode):
        return not rules.parts.component(node).needs_all_inputs
    if not isinstance(node, DescriptorNode):
        return False
    slots = len(node.descriptor.slots())
    return slots > 0 and bool(node.descriptor.availability(~np.eye(slots, dtype=bool)).any())


def _timed_inputs(parts: NetworkParts) -> list[int]:
    nodes = enumerate(parts.nodes)
    return [number for number, node in nodes if isinstance(node, InputNode) and node.name != "ivector"]


def _needed(parts: NetworkParts) -> set[int]:
    """Returns the nodes on which outputs may depend."""
    outputs = (n for n, node in enumerate(parts.nodes) if node.is_output)
    return set(reached(outputs, parts.sources))


def _looks(rules: NodeRules) -> Iterator[_Look]:
    """Yields the looks of nodes needed by outputs at nodes dependent on frames of input."""
    needed = _needed(rules.parts)
    timed, grows = set(_timed_inputs(rules.parts)), True
    while grows:
        more = {number for number in needed - timed if not timed.isdisjoint(rules.may_use(number))}
        timed |= more
        grows = bool(more)
    for number in sorted(needed):
        yield from (look for look in _looks_of(rules, number) if look.source in timed)


def _looks_of(rules: NodeRules, number: int) -> Iterator[_Look]:
    period = rules.period_of(number)
    if period is None:
        yield from (_Look(number, source, math.inf) for source in rules.may_use(number))
        return
    nodes, indexes = rules.slots(number, indexes_at(np.arange(2 * period)))
    for slot in range(nodes.shape[1]):
        ahead = _farthest(indexes[:, slot : slot + 1], period)
        yield from (_Look(number, source, ahead) for source in np.unique(nodes[:, slot]).tolist())


def _farthest(wanted: np.ndarray, period: int) -> float:
    """Returns the largest lead of indexes (rows, slots, 3) over the indexes at t = 0, 1 ... that want them; infinity if
    the leads do not repeat with the period.
    """
    ahead = wanted[:, :, T].astype(np.int64) - np.arange(2 * period)[:, np.newaxis]
    same = np.array_equal(ahead[:period], ahead[period:])
    return float(ahead.max()) if same else math.inf
