"""Recurrences that have no way to start: a value on them always needs another one.

With all input that could be wanted, a node is computable at some index only if what it requires is. Nodes of which
that cannot be said, however often it is asked, wait for themselves; IfDefined or Failover would let them begin.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nnet3.errors import Span
from nnet3.schedule import DirectedGraph, strongly_connected_components
from nnet3.structure.descriptor import Failover, Simple, Sum, SumDescriptor
from nnet3.structure.forwarding import ForwardingDescriptor, NodeReference, Offset
from nnet3.structure.nodes import DescriptorNode, InputNode
from nnet3.structure.parts import NetworkParts


@dataclass(frozen=True)
class _Need:
    """A required term of node `user` that refers to node `source`, which waits for itself."""

    user: int
    source: int
    forward: ForwardingDescriptor | None = None


def startless_warnings(parts: NetworkParts) -> list[str]:
    """For each recurrence that can never start what to do, with the line in which it is defined."""
    stuck = never_computable(parts)
    if not stuck:
        return []
    needs = [need for number in sorted(stuck) for need in _needs(parts, number) if need.source in stuck]
    numbers = {number: position for position, number in enumerate(sorted(stuck))}
    sources = np.array([numbers[need.source] for need in needs], int)
    users = np.array([numbers[need.user] for need in needs], int)
    group_of, _ = strongly_connected_components(DirectedGraph.from_edges(len(numbers), sources, users))
    within: dict[int, list[_Need]] = {}
    waiting = set()  # groups that wait for another one
    for need in needs:
        group = int(group_of[numbers[need.user]])
        if group == int(group_of[numbers[need.source]]):
            within.setdefault(group, []).append(need)
        else:
            waiting.add(group)
    return [_warning(parts, group) for number, group in within.items() if number not in waiting]


def never_computable(parts: NetworkParts) -> set[int]:
    """Nodes that no amount of input makes computable, as long as `computable` stands for "at some index"."""
    users: dict[int, list[int]] = {}
    for number in range(len(parts.nodes)):
        for source in parts.sources(number):
            users.setdefault(source, []).append(number)
    computable: set[int] = set()
    waiting = list(range(len(parts.nodes)))[::-1]  # mostly they are written after what they need
    while waiting:
        number = waiting.pop()
        if number not in computable and _is_computable(parts, number, computable):
            computable.add(number)
            waiting += users.get(number, [])
    return set(range(len(parts.nodes))) - computable


def _is_computable(parts: NetworkParts, number: int, computable: set[int]) -> bool:
    node = parts.nodes[number]
    if isinstance(node, InputNode):
        return True
    if not isinstance(node, DescriptorNode):
        return all(source in computable for source in parts.sources(number))
    return all(_is_sum_computable(parts, part, computable) for part in node.descriptor.parts)


def _is_sum_computable(parts: NetworkParts, part: SumDescriptor, computable: set[int]) -> bool:
    if isinstance(part, Simple):
        return any(parts.node_number[reference.node] in computable for reference in part.source.nodes())
    if isinstance(part, Sum):
        return all(_is_sum_computable(parts, term, computable) for term in part.terms)
    if isinstance(part, Failover):
        return any(_is_sum_computable(parts, argument, computable) for argument in part.arguments)
    return True


def _needs(parts: NetworkParts, number: int) -> Iterator[_Need]:
    node = parts.nodes[number]
    if not isinstance(node, DescriptorNode):
        yield from (_Need(number, source) for source in parts.sources(number))
        return
    waiting = list(node.descriptor.parts)
    while waiting:
        part = waiting.pop(0)
        if isinstance(part, Simple):
            for reference in part.source.nodes():
                yield _Need(number, parts.node_number[reference.node], part.source)
        elif isinstance(part, Sum | Failover):
            waiting += part.arguments


def _warning(parts: NetworkParts, needs: list[_Need]) -> str:
    """One that can be acted on: which term of which line to wrap, best one that goes back in time."""
    written = [need for need in needs if need.forward is not None]
    delays = [need for need in written if isinstance(need.forward, Offset) and need.forward.t_offset]
    chosen = (delays or written)[0]
    owner, source = parts.nodes[chosen.user], parts.nodes[chosen.source]
    name = owner.name if owner.is_output else parts.nodes[chosen.user + 1].name
    span = _span_of(chosen.forward) or owner.span
    message = (
        f"the recurrence through '{name}' has no way to start: '{source.name}' needs its own value of another time, "
        "always"
    )
    hint = f"write IfDefined({chosen.forward}), which is zero where there is no such value"
    return f"{span.place}: {message}\n{span.excerpt(hint)}" if span else f"{message}; {hint}"


def _span_of(forward: ForwardingDescriptor | None) -> Span | None:
    references = [] if forward is None else list(forward.nodes())
    return references[0].span if references and isinstance(references[0], NodeReference) else None
