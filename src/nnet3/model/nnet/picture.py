"""Draws a network as boxes and arcs: layers, their sources and the times read, delays."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from nnet3.base.drawing import Arc, Box, Graph
from nnet3.engine.schedule import DirectedGraph, strongly_connected_components
from nnet3.errors import DrawingError
from nnet3.model.structure.component_notes import component_notes, format_offsets
from nnet3.model.structure.descriptor import Const, Descriptor, Failover, IfDefined, Simple, Sum, SumDescriptor
from nnet3.model.structure.forwarding import ForwardingDescriptor, NodeReference, Offset, ReplaceIndex, Round, Switch
from nnet3.model.structure.nodes import ComponentNode, DescriptorNode, DimRangeNode, InputNode, NnetNode
from nnet3.model.structure.parts import NetworkParts

_MOST_BOXES = 3000
_LINE, _MOST_LINES = 52, 4  # of a descriptor in a box
_MOST_COMPONENTS = 12  # in a box


@dataclass(frozen=True)
class DrawnReference:
    """A reference to a node: its `time` if a plain offset, else `words`; `extra`: scale, condition."""

    node: str
    time: int | None
    words: str = ""
    extra: str = ""


@dataclass
class NodeGroup:
    """Nodes of a layer in a chain, each feeding only the next: NAME.affine, NAME.relu, NAME.batchnorm."""

    nodes: list[NnetNode]
    descriptor: Descriptor | None = None
    is_whole_layer: bool = True  # there is no other group of several nodes with the same stem

    @property
    def name(self) -> str:
        """The name of the only node, or the common beginning of the names up to a dot."""
        names = [node.name for node in self.nodes]
        stem = _stem(names[0])
        if stem and len(names) > 1 and self.is_whole_layer:
            return stem
        return " + ".join(names) if len(names) < 3 else f"{names[0]} .. {names[-1]}"


@dataclass
class Readings:
    """The references of a group to another group."""

    readings: list[DrawnReference] = field(default_factory=list)

    def label(self) -> str:
        """Returns `t-1, t, t+1`, `scale 0.66`, `t-3 if defined`; empty for the value itself."""
        by_extra: dict[str, list[DrawnReference]] = {}
        for reading in self.readings:
            by_extra.setdefault(reading.extra, []).append(reading)
        return "; ".join(filter(None, (_label(extra, readings) for extra, readings in by_extra.items())))


def _label(extra: str, readings: list[DrawnReference]) -> str:
    offsets = sorted({reading.time for reading in readings if reading.time is not None})
    words = list(dict.fromkeys(reading.words for reading in readings if reading.words))
    times = format_offsets(offsets) if offsets and offsets != [0] else ""
    if offsets == [0] and words:
        times = "t"
    return " ".join(filter(None, (", ".join(filter(None, (times, *words))), extra)))


def network_graph(parts: NetworkParts, title: str = "", *, every_node: bool = False) -> Graph:
    """Draws a network with a box a layer, or a box a node. Raises DrawingError for too many boxes."""
    return groups_graph(parts, group_nodes(parts, merge=not every_node), title)


def groups_graph(parts: NetworkParts, groups: list[NodeGroup], title: str = "") -> Graph:
    """Draws a box for each group, with the group's number as id."""
    if len(groups) > _MOST_BOXES:
        raise DrawingError(f"a picture of {len(groups)} boxes would not be readable: at most {_MOST_BOXES} are drawn")
    arcs = collect_arcs(parts, groups, _numbers(groups))
    cycle_of, in_cycle = _cycles(len(groups), list(arcs))
    boxes = [
        Box(str(number), tuple(_lines(parts, group)), _kind(parts, group, in_cycle[number]), tooltip=_tooltip(group))
        for number, group in enumerate(groups)
    ]
    drawn = []
    for (source, user), arc in arcs.items():
        within = cycle_of[source] == cycle_of[user]
        is_delay = within and any(reading.time != 0 for reading in arc.readings)
        drawn.append(Arc(str(source), str(user), arc.label(), is_delay))
    return Graph(boxes, drawn, title)


def group_kinds(parts: NetworkParts, groups: list[NodeGroup]) -> list[str]:
    """Returns the kind of each group's box: input, output, memory (on a cycle), glue, trained, function."""
    _, in_cycle = _cycles(len(groups), list(collect_arcs(parts, groups, _numbers(groups))))
    return [_kind(parts, group, flag) for group, flag in zip(groups, in_cycle, strict=True)]


def _numbers(groups: list[NodeGroup]) -> dict[str, int]:
    return {node.name: number for number, group in enumerate(groups) for node in group.nodes}


# ---- which nodes share a box ----


def group_nodes(parts: NetworkParts, *, merge: bool = True, same_time: bool = False) -> list[NodeGroup]:
    """Groups visible nodes: a component node joins its source node as the only reader of the source.

    With `same_time` a component node joins only if it also reads the source at its own index.
    """
    users: dict[str, int] = {}
    for node in parts.nodes:
        for name in _source_names(node):
            users[name] = users.get(name, 0) + 1
    group_of: dict[str, NodeGroup] = {}
    groups = []
    for number, node in enumerate(parts.nodes):
        if node.is_hidden:
            continue
        descriptor = _descriptor(parts, number)
        before = _plain_source(descriptor) if descriptor is not None else None
        joins = merge and isinstance(node, ComponentNode) and before in group_of and users[before or ""] == 1
        if joins and same_time and isinstance(node, ComponentNode):
            joins = parts.component(node).identity_indexes
        if joins and before is not None and _same_layer(group_of[before], node):
            group = group_of[before]
            group.nodes.append(node)
        else:
            group = NodeGroup([node], descriptor)
            groups.append(group)
        group_of[node.name] = group
    stems = Counter(_stem(group.nodes[0].name) for group in groups if len(group.nodes) > 1)
    for group in groups:
        group.is_whole_layer = stems[_stem(group.nodes[0].name)] < 2
    return groups


def _same_layer(group: NodeGroup, node: NnetNode) -> bool:
    last = group.nodes[-1]
    return isinstance(last, ComponentNode) and _stem(last.name) == _stem(node.name)


def _stem(name: str) -> str:
    """Returns the part of a name before the last dot."""
    return name.rpartition(".")[0]


def _source_names(node: NnetNode) -> list[str]:
    if isinstance(node, DescriptorNode):
        return [reference.node for reference in node.descriptor.node_references()]
    return [node.source] if isinstance(node, DimRangeNode) else []


def _descriptor(parts: NetworkParts, number: int) -> Descriptor | None:
    if isinstance(parts.nodes[number], ComponentNode) and not parts.sources(number):
        return None  # a dropout mask must be given an input, but does not look at it
    return parts.descriptor(number)


def _plain_source(descriptor: Descriptor) -> str | None:
    """Returns the node if the descriptor is a plain node, else None."""
    plain = descriptor.plain()
    return plain.node if plain and plain.scale == 1.0 else None


# ---- what a box says ----


def _lines(parts: NetworkParts, group: NodeGroup) -> Iterator[str]:
    yield group.name
    first = group.nodes[0]
    if group.descriptor is not None and _plain_source(group.descriptor) is None:
        wrapped = textwrap.wrap(str(group.descriptor), _LINE, break_long_words=False)
        yield from wrapped[:_MOST_LINES]
        if len(wrapped) > _MOST_LINES:
            yield "..."
    if isinstance(first, InputNode):
        yield f"input, dim {first.dim}"
    elif isinstance(first, DimRangeNode):
        yield first.columns
    elif isinstance(first, DescriptorNode):
        yield f"output, dim {parts.dim(first.name)}, {first.objective}"
    lines = [_component_line(parts, group, node) for node in group.nodes if isinstance(node, ComponentNode)]
    left_out = len(lines) - _MOST_COMPONENTS
    if left_out > 1:
        lines[_MOST_COMPONENTS // 2 : -_MOST_COMPONENTS // 2] = [f"... {left_out} more ..."]
    yield from lines


def _component_line(parts: NetworkParts, group: NodeGroup, node: ComponentNode) -> str:
    component = parts.component(node)
    kind = component.type_name.removesuffix("Component")
    same = component.input_dim == component.output_dim
    dims = f"{component.output_dim}" if same else f"{component.input_dim} -> {component.output_dim}"
    start = "" if len(group.nodes) == 1 else f"{node.name.removeprefix(f'{_stem(node.name)}.')}: "
    shared = f", component {node.component}" if node.component != node.name else ""
    notes = component_notes(component)
    return f"{start}{kind} {dims}{shared}{'; ' if notes else ''}{'; '.join(notes)}"


def _tooltip(group: NodeGroup) -> str:
    return "" if group.descriptor is None else f"input = {group.descriptor}"


def _kind(parts: NetworkParts, group: NodeGroup, in_cycle: bool) -> str:
    first = group.nodes[0]
    if isinstance(first, InputNode):
        return "input"
    if first.is_output:
        return "output"
    if in_cycle:
        return "memory"
    if isinstance(first, DimRangeNode):
        return "glue"
    components = [parts.component(node) for node in group.nodes if isinstance(node, ComponentNode)]
    return "trained" if any(component.num_parameters for component in components) else "function"


# ---- what an arc says ----


def collect_arcs(
    parts: NetworkParts, groups: list[NodeGroup], group_of: dict[str, int]
) -> dict[tuple[int, int], Readings]:
    """Returns the references between groups by the numbers of source and user; `group_of` is by names of nodes."""
    arcs: dict[tuple[int, int], Readings] = {}
    for number, group in enumerate(groups):
        first = group.nodes[0]
        readings = [DrawnReference(first.source, 0)] if isinstance(first, DimRangeNode) else []
        if group.descriptor is not None:
            readings = [reading for part in group.descriptor.parts for reading in _sum_readings(part, "")]
        for reading in readings:
            arcs.setdefault((group_of[reading.node], number), Readings()).readings.append(reading)
    return arcs


def _sum_readings(part: SumDescriptor, extra: str) -> Iterator[DrawnReference]:
    if isinstance(part, Simple):
        yield from _readings(part.source, 0, "", extra)
    elif isinstance(part, Sum):
        for term in part.terms:
            yield from _sum_readings(term, extra)
    elif isinstance(part, Failover):
        yield from _sum_readings(part.left, extra or "if defined")
        yield from _sum_readings(part.right, "else")
    elif isinstance(part, IfDefined):
        yield from _sum_readings(part.source, "if defined")
    else:
        assert isinstance(part, Const)


def _readings(forward: ForwardingDescriptor, offset: int, words: str, extra: str) -> Iterator[DrawnReference]:
    """`offset` is the sum of the offsets so far; `words` describes all further index changes so far."""
    if isinstance(forward, NodeReference):
        scale = f"scale {forward.scale:g}" if forward.scale != 1.0 else ""
        text = words and (words if not offset else f"{words}{offset:+d}")
        yield DrawnReference(forward.node, None if words else offset, text, " ".join(filter(None, (scale, extra))))
    elif isinstance(forward, Offset):
        moved = f"x{forward.x_offset:+d}" if forward.x_offset else ""
        yield from _readings(forward.source, offset + forward.t_offset, " ".join(filter(None, (words, moved))), extra)
    elif isinstance(forward, Round):
        inner = f"t{offset:+d}" if offset else "t"
        yield from _readings(forward.source, 0, f"{inner} rounded to {forward.t_modulus}", extra)
    elif isinstance(forward, ReplaceIndex):
        yield from _readings(forward.source, 0, f"at {forward.variable} = {forward.value}", extra)
    elif isinstance(forward, Switch):
        count = len(forward.sources)
        for number, source in enumerate(forward.sources):
            yield from _readings(source, offset, f"t mod {count} = {number}" if count > 1 else words, extra)


def _cycles(count: int, arcs: list[tuple[int, int]]) -> tuple[list[int], list[bool]]:
    """Returns the number of the strongly connected component of every box, and whether the box is on a cycle."""
    sources = np.array([source for source, _ in arcs], int)
    users = np.array([user for _, user in arcs], int)
    component, _ = strongly_connected_components(DirectedGraph.from_edges(count, sources, users))
    numbers = [int(number) for number in component]
    sizes = np.bincount(component, minlength=count)
    loops = {source for source, user in arcs if source == user}
    return numbers, [bool(sizes[number] > 1) or box in loops for box, number in enumerate(numbers)]
