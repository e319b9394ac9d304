"""A network unrolled in time: one box for each layer and frame, and which value needs which."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nnet3.drawing import Arc, Box, Graph
from nnet3.drawing.ranks import rank_boxes
from nnet3.errors import DrawingError
from nnet3.index import T, X
from nnet3.nnet.context_trials import Computability
from nnet3.nnet.network import Nnet
from nnet3.nnet.nodes import ComponentNode, DescriptorNode, DimRangeNode, InputNode
from nnet3.nnet.picture import group_nodes, groups_graph

_MOST_CELLS = 20_000
_MOST_BOXES, _MOST_FRAMES = 1500, 5000

Cell = tuple[int, int, int]  # node number, t, x


@dataclass(frozen=True)
class Frames:
    """Output is wanted at the frames `first` to `last`, and input is given from `first_input` to `last_input`."""

    first: int
    last: int
    first_input: int
    last_input: int


def unrolled_graph(nnet: Nnet, frames: Frames, title: str = "") -> Graph:
    """The values that the output frames need, times from left to right, with arcs from what each is computed from.

    Raises DrawingError if none of the frames can be computed, or if there would be too many boxes.
    """
    uses = _without_hidden_inputs(nnet, _uses(nnet, frames))
    groups = group_nodes(nnet, same_time=True)
    static = groups_graph(nnet, groups)
    ranks, _ = rank_boxes(static)
    owner = {node.name: number for number, group in enumerate(groups) for node in group.nodes}
    places = {cell: (owner[nnet.nodes[cell[0]].name], *cell[1:]) for cell in uses}
    shown = sorted(set(places.values()))
    if len(shown) > _MOST_BOXES:
        raise DrawingError(f"{len(shown)} boxes would not be readable: ask for fewer frames or a smaller network")
    columns = {time: position for position, time in enumerate(sorted({(t, x) for _, t, x in shown}))}
    used_ranks = sorted({ranks[str(group)] for group, _, _ in shown})
    delays = {(arc.a, arc.b) for arc in static.arcs if arc.is_delay}
    boxes = [
        Box(
            f"{group},{t},{x}",
            (groups[group].name, f"t = {t}" + (f", x = {x}" if x else "")),
            static.nodes[group].kind,
            used_ranks.index(ranks[str(group)]),
            float(columns[t, x]),
        )
        for group, t, x in shown
    ]
    pairs = {(places[source], places[cell]) for cell, sources in uses.items() for source in sources}
    arcs = [
        Arc(f"{a[0]},{a[1]},{a[2]}", f"{b[0]},{b[1]},{b[2]}", "", a[1:] != b[1:] and (str(a[0]), str(b[0])) in delays)
        for a, b in sorted(pairs)
        if a != b
    ]
    return Graph(_side_by_side(boxes), arcs, title)


def _without_hidden_inputs(nnet: Nnet, uses: dict[Cell, list[Cell]]) -> dict[Cell, list[Cell]]:
    """The same with components using directly what their hidden inputs are made of."""
    nodes = {cell: nnet.nodes[cell[0]] for cell in uses}
    hidden = {cell for cell, node in nodes.items() if isinstance(node, DescriptorNode) and not node.is_output}
    return {
        cell: [inner for source in sources for inner in (uses[source] if source in hidden else [source])]
        for cell, sources in uses.items()
        if cell not in hidden
    }


def _side_by_side(boxes: list[Box]) -> list[Box]:
    """Boxes of one row and time next to each other, within the width of the column."""
    at_place: dict[tuple[int | None, float | None], list[Box]] = {}
    for box in boxes:
        at_place.setdefault((box.rank, box.column), []).append(box)
    widest = max((len(group) for group in at_place.values()), default=1)
    return [
        Box(box.id, box.lines, box.kind, box.rank, (column or 0.0) * widest + position + (widest - len(group)) / 2)
        for (_, column), group in at_place.items()
        for position, box in enumerate(group)
    ]


def _uses(nnet: Nnet, frames: Frames) -> dict[Cell, list[Cell]]:
    """For each value that is needed, hidden inputs included, the values that it is computed from."""
    parts = nnet.parts
    given = (frames.first_input, frames.last_input)
    low, high = min(given[0], frames.first, 0), max(given[1], frames.last, 0)
    span = range(low - parts.modulus, high + parts.modulus + 1)
    if len(span) > _MOST_FRAMES:
        raise DrawingError(f"a picture of {len(span)} frames would not be readable: ask for fewer")
    times = np.arange(span.start, span.stop, dtype=np.int32)
    waiting: list[Cell] = []
    uses: dict[Cell, list[Cell]] = {}
    state = Computability(parts, times)
    for node in nnet.nodes:
        if isinstance(node, InputNode):
            everywhere = node.name != "input"
            state.supply(node.name, (times >= given[0]) & (times <= given[1]) | everywhere)
    for name in nnet.output_names:
        number = parts.node_number[name]
        computable = state.solve(number)
        wanted = range(frames.first, frames.last + 1)
        waiting += [(number, t, 0) for t in wanted if t in span and computable[t - span.start]]
    if not waiting:
        raise DrawingError(
            f"no output can be computed at t = {frames.first} to {frames.last} from input at {given[0]} to {given[1]}"
        )
    while waiting:
        cell = waiting.pop()
        if cell not in uses:
            uses[cell] = _sources(nnet, state, span, cell)
            waiting += uses[cell]
        if len(uses) > _MOST_CELLS:
            raise DrawingError(f"more than {_MOST_CELLS} values are needed: ask for fewer frames or a smaller network")
    return uses


def _sources(nnet: Nnet, state: Computability, span: range, cell: Cell) -> list[Cell]:
    number, t, x = cell
    node = nnet.nodes[number]
    index = np.array([[0, t, x]], np.int32)
    if isinstance(node, DimRangeNode):
        return [(nnet.node_number[node.source], t, x)]
    if isinstance(node, InputNode):
        return []
    if isinstance(node, DescriptorNode):
        nodes, mapped = node.descriptor.get_dependencies(index, nnet.node_number)
        cells = [(int(n), int(i[T]), int(i[X])) for n, i in zip(nodes[0], mapped[0], strict=True)]
    else:
        assert isinstance(node, ComponentNode)
        wanted = nnet.component_of(node).wanted_inputs(index)[0]
        cells = [(number - 1, int(i[T]), int(i[X])) for i in wanted]
    available = np.array([[_is_known(state, span, source) for source in cells]], bool).reshape(1, len(cells))
    if isinstance(node, DescriptorNode):
        used = node.descriptor.is_computable(available)[1][0]
    else:
        assert isinstance(node, ComponentNode)
        used = nnet.component_of(node).computable(index, available)[1][0]
    return [source for source, is_used in zip(cells, used, strict=True) if is_used]


def _is_known(state: Computability, span: range, cell: Cell) -> bool:
    number, t, x = cell
    known = state.known.get((number, x))
    return known is not None and t in span and bool(known[t - span.start])
