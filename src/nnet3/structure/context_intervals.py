"""Contexts of networks of which a window of input computes an interval of times at every node.

So it is where each term is needed and looks at times by offsets, by Round or at fixed ones; what IfDefined holds never
matters. A Switch, sources that stand in for each other at other times, components that make do with some of their
inputs and moves in x are left to trials.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nnet3.components import Component
from nnet3.structure.descriptor import Const, Descriptor, Failover, IfDefined, Simple, Sum, SumDescriptor
from nnet3.structure.forwarding import ForwardingDescriptor, NodeReference, Offset, ReplaceIndex, Round, Switch
from nnet3.structure.nodes import ComponentNode, DescriptorNode, DimRangeNode
from nnet3.structure.parts import NetworkParts

_WINDOW = 2**32  # frames of input: more than all offsets can sum up to in practice
_EVER = 2**60
_MOST_CELLS = 10_000_000
_MOST_SLOTS = 64
_PROBES = np.array([[0, t, 0] for t in (0, 1, 2, 3, 7, -3, 64, 1001)], np.int32)


class NotIntervalsError(Exception):
    """What a window computes need not be an interval somewhere."""


@dataclass(frozen=True)
class _Interval:
    """For each shift of the window, (shifts,): all times from `low` to `high`; none if low > high."""

    low: npt.NDArray[np.int64]
    high: npt.NDArray[np.int64]

    def shifted(self, offset: int) -> _Interval:
        """The times t at which t + offset is in it."""
        return _Interval(
            np.where(abs(self.low) >= _EVER, self.low, self.low - offset),
            np.where(abs(self.high) >= _EVER, self.high, self.high - offset),
        )

    def rounded(self, modulus: int) -> _Interval:
        """The times t at which t rounded down to a multiple of `modulus` is in it."""
        low = np.where(abs(self.low) >= _EVER, self.low, -(-self.low // modulus) * modulus)
        last = self.high // modulus * modulus
        high = np.where(abs(self.high) >= _EVER, self.high, np.where(last < low, low - 1, last + modulus - 1))
        return _Interval(low, high)

    def fixed(self, time: int) -> _Interval:
        """All times if `time` is in it, else none."""
        inside = (self.low <= time) & (time <= self.high)
        return _Interval(np.where(inside, -_EVER, _EVER), np.where(inside, _EVER, -_EVER))

    def common(self, other: _Interval) -> _Interval:
        return _Interval(np.maximum(self.low, other.low), np.minimum(self.high, other.high))

    def joined(self, other: _Interval) -> _Interval:
        """The larger of two of which one contains the other; anything else depends on the length of the window."""
        for inner, outer in ((self, other), (other, self)):
            inside = (inner.low > inner.high) | ((outer.low <= inner.low) & (inner.high <= outer.high))
            if inside.all():
                return outer
        raise NotIntervalsError


def context_by_intervals(parts: NetworkParts) -> tuple[int, int] | None:
    """(left, right) context, None if no output is ever computable. Raises NotIntervalsError."""
    order, stuck = _order(parts)
    at_once = max(1, _MOST_CELLS // max(1, len(order)))
    left = right = 0
    for first in range(0, parts.modulus + 1, at_once):
        shifts = np.arange(first, min(first + at_once, parts.modulus + 1), dtype=np.int64)
        output = _Intervals(parts, shifts, stuck).solve(order)
        if (np.maximum(output.low, shifts) > np.minimum(output.high, shifts + _WINDOW - 1)).any():
            return None
        left = max(left, int((output.low - shifts).max()))
        right = max(right, int((shifts + _WINDOW - 1 - output.high).max()))
    return left, right


def _order(parts: NetworkParts) -> tuple[list[int], set[int]]:
    """Nodes that the output needs, sources first, and those that need themselves (or such a node)."""
    users: dict[int, list[int]] = {}
    waiting: dict[int, int] = {}
    stack = [parts.node_number["output"]]
    while stack:
        number = stack.pop()
        if number in waiting:
            continue
        sources = set(_needed(parts, number))
        waiting[number] = len(sources)
        for source in sources:
            users.setdefault(source, []).append(number)
        stack += sources
    order = [number for number, count in waiting.items() if count == 0]
    for number in order:
        for user in users.get(number, ()):
            waiting[user] -= 1
            if waiting[user] == 0:
                order.append(user)
    stuck = set(waiting) - set(order)
    if any(_has_failover(parts, number) for number in stuck):
        raise NotIntervalsError  # the recurrence may have another way to start
    return order, stuck


def _needed(parts: NetworkParts, number: int) -> list[int]:
    node = parts.nodes[number]
    if not isinstance(node, DescriptorNode):
        return parts.sources(number)
    forwards = (forward for part in node.descriptor.parts for forward in _needed_forwards(part))
    return [parts.node_number[reference.node] for forward in forwards for reference in forward.nodes()]


def _needed_forwards(part: SumDescriptor) -> Iterator[ForwardingDescriptor]:
    if isinstance(part, Simple):
        yield part.source
    elif isinstance(part, Sum | Failover):
        for argument in part.arguments:
            yield from _needed_forwards(argument)


def _has_failover(parts: NetworkParts, number: int) -> bool:
    node = parts.nodes[number]
    if not isinstance(node, DescriptorNode):
        return False
    waiting = list(node.descriptor.parts)
    while waiting:
        part = waiting.pop()
        if isinstance(part, Failover):
            return True
        waiting += part.arguments if isinstance(part, Sum) else ()
    return False


class _Intervals:
    """The interval of each node, when the window begins at each of the shifts."""

    def __init__(self, parts: NetworkParts, shifts: npt.NDArray[np.int64], stuck: set[int]):
        self.parts = parts
        self.always = _Interval(np.full(len(shifts), -_EVER), np.full(len(shifts), _EVER))
        self.never = _Interval(self.always.high, self.always.low)
        last = shifts + _WINDOW - 1
        given = {"input": _Interval(shifts, last), "ivector": _Interval(shifts - parts.modulus, last)}
        self.given = {parts.node_number[name]: times for name, times in given.items() if name in parts.node_number}
        self.known = dict.fromkeys(stuck, self.never)
        self.offsets: dict[str, list[int]] = {}

    def solve(self, order: list[int]) -> _Interval:
        for number in order:
            self.known[number] = self._node(number)
        return self.known[self.parts.node_number["output"]]

    def _node(self, number: int) -> _Interval:
        node = self.parts.nodes[number]
        if isinstance(node, DescriptorNode):
            return self._descriptor(node.descriptor)
        if isinstance(node, DimRangeNode):
            return self.known[self.parts.node_number[node.source]]
        if isinstance(node, ComponentNode):
            return self._component(number, node)
        return self.given.get(number, self.never)

    def _component(self, number: int, node: ComponentNode) -> _Interval:
        component = self.parts.component(node)
        sources = self.parts.sources(number)
        if component.identity_indexes and sources:
            return self.known[sources[0]]
        if node.component not in self.offsets:
            self.offsets[node.component] = _fixed_offsets(component)
        result = self.always
        for offset in self.offsets[node.component]:
            result = result.common(self.known[sources[0]].shifted(offset))
        return result

    def _descriptor(self, descriptor: Descriptor) -> _Interval:
        result = self.always
        for part in descriptor.parts:
            result = result.common(self._sum(part))
        return result

    def _sum(self, part: SumDescriptor) -> _Interval:
        if isinstance(part, Simple):
            return self._forward(part.source)
        if isinstance(part, Failover):
            return self._sum(part.left).joined(self._sum(part.right))
        assert isinstance(part, Sum | IfDefined | Const)
        result = self.always
        for argument in part.arguments if isinstance(part, Sum) else ():
            result = result.common(self._sum(argument))
        return result

    def _forward(self, forward: ForwardingDescriptor) -> _Interval:
        if isinstance(forward, NodeReference):
            return self.known[self.parts.node_number[forward.node]]
        if isinstance(forward, Offset) and forward.x_offset == 0:
            return self._forward(forward.source).shifted(forward.t_offset)
        if isinstance(forward, Round):
            return self._forward(forward.source).rounded(forward.t_modulus)
        if isinstance(forward, ReplaceIndex) and forward.variable == "t":
            return self._forward(forward.source).fixed(forward.value)
        if isinstance(forward, ReplaceIndex) and forward.value == 0:
            return self._forward(forward.source)
        if isinstance(forward, Switch) and len(forward.sources) == 1:
            return self._forward(forward.sources[0])
        raise NotIntervalsError


def _fixed_offsets(component: Component) -> list[int]:
    """Offsets in t at all of which the component needs its input. Raises NotIntervalsError if that is not its rule."""
    wanted = component.wanted_inputs(_PROBES).astype(np.int64) - _PROBES[:, np.newaxis, :]
    slots = wanted.shape[1]
    if slots > _MOST_SLOTS or wanted[:, :, [0, 2]].any() or (wanted != wanted[:1]).any():
        raise NotIntervalsError
    missing = np.vstack([np.ones((1, slots), bool), ~np.eye(slots, dtype=bool)])
    outputs = np.zeros((len(missing), 3), np.int32)
    computable = component.computable(outputs, missing)[0]
    if not computable[0] or computable[1:].any():
        raise NotIntervalsError
    return [int(offset) for offset in wanted[0, :, 1]]
