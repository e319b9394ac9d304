"""The references of a descriptor that is simple enough for a computational network."""

from __future__ import annotations

from dataclasses import dataclass

from nnet3.errors import NetworkError
from nnet3.structure.descriptor import Const, Descriptor, IfDefined, Simple, Sum, SumDescriptor
from nnet3.structure.forwarding import ForwardingDescriptor, NodeReference, Offset


@dataclass(frozen=True)
class OffsetReference:
    """`scale` times the value of a node `offset` frames ahead; an optional one is zero where that is not there."""

    node: str
    offset: int = 0
    scale: float = 1.0
    is_optional: bool = False


def references(descriptor: Descriptor, name: str) -> list[OffsetReference]:
    """All references in order. Raises NetworkError for what has no counterpart, saying in which node."""
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
