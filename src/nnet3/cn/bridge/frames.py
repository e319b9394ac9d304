"""Frames in which nodes of an nnet3 network have values, and the frames kept by a computational network.

A node of nnet3 has a value wherever all required operands have values, which may be before the first frame of the input
or after the last: Offset(input, 1) begins at frame -1. A node of a CN has the frames of the input. So a CN keeps frame
k + shift in the place of frame k, with a shift for each node that gets in all frames in use.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce

import numpy as np

from nnet3.base.index import T, X
from nnet3.cn.order import forward_order
from nnet3.errors import NetworkError
from nnet3.model.components.base import Component
from nnet3.model.structure.descriptor import Const, Descriptor, IfDefined, Simple, Sum, SumDescriptor
from nnet3.model.structure.forwarding import ForwardingDescriptor, NodeReference, Offset
from nnet3.model.structure.nodes import ComponentNode, DescriptorNode, InputNode
from nnet3.model.structure.parts import NetworkParts


@dataclass(frozen=True)
class OffsetReference:
    """`scale` times the value of a node `offset` frames ahead; an optional one is zero where the frame is missing."""

    node: str
    offset: int = 0
    scale: float = 1.0
    is_optional: bool = False


def references(descriptor: Descriptor, name: str) -> list[OffsetReference]:
    """Returns all references in order. Raises NetworkError for references without a counterpart, naming the node."""
    return [reference for part in descriptor.parts for reference in _of_part(part, name, False)]


def _of_part(part: SumDescriptor, name: str, optional: bool) -> list[OffsetReference]:
    if isinstance(part, Sum):
        return [reference for term in part.terms for reference in _of_part(term, name, optional)]
    if isinstance(part, IfDefined):
        if optional or not isinstance(part.source, Simple):
            raise NetworkError(f"'{name}': {part} has no counterpart in a computational network")
        return _of_part(part.source, name, True)
    if isinstance(part, Const):
        return []
    if not isinstance(part, Simple):
        raise NetworkError(f"'{name}': {part} has no counterpart in a computational network")
    return [_of_forward(part.source, name, optional)]


def _of_forward(source: ForwardingDescriptor, name: str, optional: bool, offset: int = 0) -> OffsetReference:
    if isinstance(source, NodeReference):
        return OffsetReference(source.node, offset, source.scale, optional)
    if isinstance(source, Offset) and not source.x_offset:
        return _of_forward(source.source, name, optional, offset + source.t_offset)
    raise NetworkError(f"'{name}': {source} has no counterpart in a computational network")


def component_offsets(made: Component, name: str) -> dict[int, bool]:
    """Returns the frames, relative to the output's, at which a component looks, and whether every frame is required.

    Raises NetworkError if the frames depend on t.
    """
    if made.identity_indexes:
        return {0: True}
    moves = made.moves()
    if moves[:, :, X].any() or (moves != moves[0]).any():
        raise NetworkError(f"component of '{name}' ({made.type_name}) looks at frames that depend on t, or at other x")
    one_missing = ~np.eye(moves.shape[1], dtype=bool)
    computable = made.computable(np.zeros((len(one_missing), 3), np.int32), one_missing)[0]
    found: dict[int, bool] = {}
    for offset, is_optional in zip(moves[0, :, T].tolist(), computable.tolist(), strict=True):
        found[offset] = found.get(offset, False) or not is_optional
    return found


@dataclass(frozen=True)
class FrameSpan:
    """FrameSpan `first` to T - 1 + `last` of a sequence of T frames."""

    first: float = 0
    last: float = 0

    def moved(self, offset: int) -> FrameSpan:
        return FrameSpan(self.first + offset, self.last + offset)

    def common(self, other: FrameSpan) -> FrameSpan:
        return FrameSpan(max(self.first, other.first), min(self.last, other.last))

    def around(self, other: FrameSpan) -> FrameSpan:
        """Returns the frames from the first to the last of both."""
        return FrameSpan(min(self.first, other.first), max(self.last, other.last))

    @property
    def fit(self) -> bool:
        """True if the span is no more than T frames, for every T."""
        return self.last <= self.first


ALWAYS = FrameSpan(-math.inf, math.inf)


@dataclass(frozen=True)
class Look:
    """A node looks at the source, `offset` frames ahead. An optional source is zero where it is not there."""

    source: int
    offset: int = 0
    is_required: bool = True


class FramesOfNodes:
    """The frames of each node needed by the outputs. Nodes are numbers in `parts`.

    there: the node's frames in nnet3. shifts: frame k of the CN is frame k + shift of nnet3.
    Raises NetworkError for a node with more frames in use than the input has.
    """

    def __init__(self, parts: NetworkParts):
        self._parts = parts
        outputs = [i for i, node in enumerate(parts.nodes) if node.is_output]
        self.looks: dict[int, list[Look]] = {}
        self.numbers = self._below(outputs)
        self.there: dict[int, FrameSpan] = {}
        for number in forward_order(self.numbers, lambda node: [look.source for look in self._decisive(node)]):
            self.there[number] = self._frames(number)
        self.shifts = {number: self._shift(number, wanted) for number, wanted in self._wanted(outputs).items()}

    def ahead(self, number: int, look: Look) -> int:
        """Returns the number of frames by which a node of the CN looks ahead at the source's node."""
        return self.shifts[number] + look.offset - self.shifts[look.source]

    def missing(self, number: int) -> tuple[int, int]:
        """Returns the numbers of first and of last frames that the CN keeps of a node and nnet3 has no value for."""
        there, shift = self.there[number], self.shifts[number]
        return int(max(there.first - shift, 0)), int(max(shift - there.last, 0))

    def _below(self, outputs: Iterable[int]) -> list[int]:
        waiting = list(outputs)
        while waiting:
            number = waiting.pop()
            if number not in self.looks:
                self.looks[number] = self._looks(number)
                waiting += [look.source for look in self.looks[number]]
        return sorted(self.looks)

    def _looks(self, number: int) -> list[Look]:
        node, sources = self._parts.nodes[number], self._parts.sources(number)
        if isinstance(node, DescriptorNode):
            found = references(node.descriptor, node.name)
            return [Look(self._parts.node_number[r.node], r.offset, not r.is_optional) for r in found]
        if isinstance(node, ComponentNode):
            if not sources:
                raise NetworkError(f"component node '{node.name}' has no input: a CN has no counterpart")
            offsets = component_offsets(self._parts.component(node), node.name)
            return [Look(sources[0], offset, is_required) for offset, is_required in offsets.items()]
        return [Look(source) for source in sources]

    def _decisive(self, number: int) -> list[Look]:
        """Returns the looks that decide where a node has a value: the required ones; all, where any one will do."""
        node, looks = self._parts.nodes[number], self.looks[number]
        required = [look for look in looks if look.is_required]
        if required or not isinstance(node, ComponentNode) or not _needs_a_frame(self._parts.component(node)):
            return required
        return looks

    def _frames(self, number: int) -> FrameSpan:
        if isinstance(self._parts.nodes[number], InputNode):
            return FrameSpan()
        looks = self._decisive(number)
        seen = [self.there[look.source].moved(-look.offset) for look in looks]
        if looks and not looks[0].is_required:
            return reduce(FrameSpan.around, seen)
        return reduce(FrameSpan.common, seen, ALWAYS)

    def _wanted(self, outputs: Iterable[int]) -> dict[int, FrameSpan]:
        """Returns the frames of each node computed for frames 0 to T - 1 of the outputs."""
        wanted = {number: FrameSpan().common(self.there[number]) for number in outputs}
        waiting = list(wanted)
        while waiting:
            user = waiting.pop()
            for look in self.looks[user]:
                seen = self._seen(wanted[user], look)
                before = wanted.get(look.source)
                after = seen if before is None else before.around(seen)
                if not after.fit:
                    raise NetworkError(self._too_many(look.source))
                if after != before:
                    wanted[look.source] = after
                    waiting.append(look.source)
        return wanted

    def _seen(self, frames: FrameSpan, look: Look) -> FrameSpan:
        """Returns the source's frames in view of these frames."""
        return frames.moved(look.offset).common(self.there[look.source])

    def _shift(self, number: int, wanted: FrameSpan) -> int:
        """Returns the shift nearest 0 that brings the wanted frames, and those of a component's offsets, into range."""
        if isinstance(self._parts.nodes[number], ComponentNode) and any(look.offset for look in self.looks[number]):
            wanted = reduce(FrameSpan.around, (self._seen(wanted, look) for look in self.looks[number]), wanted)
            if not wanted.fit:
                raise NetworkError(self._too_many(self.looks[number][0].source))
        return int(min(max(0, wanted.last), wanted.first))

    def _too_many(self, number: int) -> str:
        return (
            f"'{self._parts.visible_name(number)}' is needed before the first frame of the input or after the last, "
            "beside all others: a computational network has no more frames than its input"
        )


def _needs_a_frame(made: Component) -> bool:
    """Returns true if a component has no value where all frames in its reach are missing."""
    nothing = np.zeros((1, made.moves().shape[1]), bool)
    return not made.computable(np.zeros((1, 3), np.int32), nothing)[0].all()
