"""Draws a network unrolled in time: a box for a layer and frame, an arc from a value to every user."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nnet3.base.drawing import Arc, Box, Graph
from nnet3.base.drawing.dot import rank_boxes
from nnet3.base.index import T, X, distinct, indexes_at
from nnet3.engine.lowering.build_graph import build_graph, computable_outputs
from nnet3.engine.lowering.source import LoweringRequest, RequestedRows
from nnet3.errors import DrawingError
from nnet3.model.nnet.network import Nnet
from nnet3.model.nnet.picture import group_nodes, groups_graph
from nnet3.model.structure.node_rules import NodeRules

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
    """Draws the values needed by the output frames, times from left to right, with arcs from operands.

    Raises DrawingError if none of the frames can be computed, and for too many boxes.
    """
    uses = _without_hidden_inputs(nnet, _uses(nnet, frames))
    groups = group_nodes(nnet.parts, same_time=True)
    static = groups_graph(nnet.parts, groups)
    ranks, _ = rank_boxes(static)
    owner = {node.name: number for number, group in enumerate(groups) for node in group.nodes}
    drawn_at = {cell: (owner[nnet.nodes[cell[0]].name], *cell[1:]) for cell in uses}
    shown = sorted(set(drawn_at.values()))
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
    pairs = {(drawn_at[source], drawn_at[cell]) for cell, sources in uses.items() for source in sources}
    arcs = [
        Arc(f"{a[0]},{a[1]},{a[2]}", f"{b[0]},{b[1]},{b[2]}", "", a[1:] != b[1:] and (str(a[0]), str(b[0])) in delays)
        for a, b in sorted(pairs)
        if a != b
    ]
    return Graph(_side_by_side(boxes), arcs, title)


def _without_hidden_inputs(nnet: Nnet, uses: dict[Cell, list[Cell]]) -> dict[Cell, list[Cell]]:
    """Replaces hidden inputs by the sources of the inputs."""
    nodes = {cell: nnet.nodes[cell[0]] for cell in uses}
    hidden = {cell for cell, node in nodes.items() if node.is_hidden}
    return {
        cell: [inner for source in sources for inner in (uses[source] if source in hidden else [source])]
        for cell, sources in uses.items()
        if cell not in hidden
    }


def _side_by_side(boxes: list[Box]) -> list[Box]:
    """Puts boxes of one row and time side by side within the width of the column."""
    boxes_at: dict[tuple[int | None, float | None], list[Box]] = {}
    for box in boxes:
        boxes_at.setdefault((box.rank, box.column), []).append(box)
    widest = max((len(group) for group in boxes_at.values()), default=1)
    return [
        Box(box.id, box.lines, box.kind, box.rank, (column or 0.0) * widest + position + (widest - len(group)) / 2)
        for (_, column), group in boxes_at.items()
        for position, box in enumerate(group)
    ]


def _uses(nnet: Nnet, frames: Frames) -> dict[Cell, list[Cell]]:
    """Returns the operands of each needed value, hidden inputs included."""
    given = (frames.first_input, frames.last_input)
    low, high = min(given[0], frames.first, 0) - nnet.modulus, max(given[1], frames.last, 0) + nnet.modulus
    if high - low >= _MOST_FRAMES:
        raise DrawingError(f"a picture of {high - low + 1} frames would not be readable: ask for fewer")
    spans = {name: given if name == "input" else (low, high) for name in nnet.input_names}
    tables = {name: indexes_at(np.arange(first, last + 1)) for name, (first, last) in spans.items()}
    inputs = [RequestedRows(nnet.node_number[name], name, table) for name, table in tables.items()]
    times = indexes_at(np.arange(frames.first, frames.last + 1))
    wanted = [RequestedRows(nnet.node_number[name], name, times) for name in nnet.output_names]
    rules = NodeRules(nnet.parts)
    computable = computable_outputs(rules, LoweringRequest(inputs, wanted))
    outputs = [
        RequestedRows(rows.node, rows.name, times[which])
        for rows, which in zip(wanted, computable, strict=True)
        if which.any()
    ]
    if not outputs:
        raise DrawingError(
            f"no output can be computed at t = {frames.first} to {frames.last} from input at {given[0]} to {given[1]}"
        )
    graph = build_graph(rules, LoweringRequest(inputs, outputs))
    needed = [number for slots in graph.slots for number in distinct(slots[slots >= 0]).tolist()]
    shown = set(needed) | set(np.flatnonzero(~graph.is_input).tolist())
    if len(shown) > _MOST_CELLS:
        raise DrawingError(f"more than {_MOST_CELLS} values are needed: ask for fewer frames or a smaller network")
    cell = list(zip(graph.node.tolist(), graph.indexes[:, T].tolist(), graph.indexes[:, X].tolist(), strict=True))
    rows = (row.tolist() for slots in graph.slots for row in slots)
    return {
        cell[number]: [cell[source] for source in row if source >= 0]
        for number, row in enumerate(rows)
        if number in shown
    }
