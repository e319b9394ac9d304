"""Layout: which matrices there are, who lies where, who writes first; decided before a command is written."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from nnet3.computation.computation import NnetComputation
from nnet3.index import N, distinct
from nnet3.lowering.contributions import Derivatives
from nnet3.lowering.live_rows import LiveRows, live_rows
from nnet3.lowering.needs import deriv_needed
from nnet3.lowering.patterns import GatheredNode, gathered_nodes, identity_shift
from nnet3.lowering.places import Place, Storage, find_places
from nnet3.lowering.schedule import Schedule, Step
from nnet3.lowering.sending import Sending, operand_contributions, slot_contributions
from nnet3.lowering.sharing import share_values, shared_derivs
from nnet3.lowering.source import GraphSource, LoweringRequest, NodeKind, RequestedRows
from nnet3.lowering.updates import Learner, merged_updates


class TakenRows(NamedTuple):
    """Rows of a node that take a derivative from outside; `masked`: but not those that are dead."""

    rows: Step
    masked: bool


@dataclass(eq=False)
class Layout:
    """Decisions about a schedule. `needed` (nodes,): whether a derivative is; `updates`: see `merged_updates`.

    `gathered` says where gathered nodes take their rows from, `sent` to where they send derivatives: the same objects
    unless some rows have no derivatives (see `live`).

    `slot_overwrites[gathered node][slot]` says of each row, `operand_overwrites[kernel node, operand]` of each step,
    `output_overwrites` of each requested output, whether it is the first that writes to the derivative there; what is
    not in them sends nothing. `taken`: by output,
    see `taken_rows`.
    """

    source: GraphSource
    request: LoweringRequest
    schedule: Schedule
    computation: NnetComputation
    gathered: dict[int, GatheredNode]
    live: LiveRows
    sent: dict[int, GatheredNode]
    needed: np.ndarray
    updates: dict[Learner, list[int]]
    values: Storage
    derivs: Storage
    value_aliases: dict[int, tuple[int, int]]
    deriv_aliases: dict[int, tuple[int, int]] = field(default_factory=dict)
    slot_overwrites: dict[int, dict[int, np.ndarray]] = field(default_factory=dict)
    operand_overwrites: dict[tuple[int, int], list[bool]] = field(default_factory=dict)
    output_overwrites: list[bool] = field(default_factory=list)
    taken: list[TakenRows | None] = field(default_factory=list)
    derivatives: Derivatives | None = None
    unread: dict[int, np.ndarray] = field(default_factory=dict)

    def is_copied(self, node: int) -> bool:
        """Whether a gathered node has rows of its own."""
        return node not in self.value_aliases

    def step_number(self, position: int) -> int:
        """Which of its node's steps this one is."""
        return self._step_numbers[position]

    def __post_init__(self) -> None:
        count = [0] * len(self.schedule.nodes)
        self._step_numbers = []
        for step in self.schedule.steps:
            self._step_numbers.append(count[step.node])
            count[step.node] += 1

    # ---- rows of requests ----

    def output_block(self, io: RequestedRows) -> tuple[int, int]:
        """First row and number of rows, in the node's matrix, of the stretch that holds what is asked for."""
        if self.schedule.nodes[io.node].num_rows is not None:
            return 0, 1
        rows = distinct(self._rows(io) // self.schedule.graph.multiplicity)
        return int(rows[0]), int(rows[-1] - rows[0]) + 1

    def taken_rows(self, io: RequestedRows, place: Place) -> TakenRows | None:
        """What of `output_block` takes the derivative that the user gives; None if nothing does.

        `place`: that of the node's derivative. What is given for rows that nobody reads does no harm.
        """
        if not io.has_deriv or not self.needed[io.node]:
            return None
        block = Step(io.node, *self.output_block(io))
        hull = self.live.hull(block)
        if hull is None or self.live.is_whole(block):
            return hull and TakenRows(hull, False)
        if place.root in self.unread:
            first = block.first + place.row_shift
            unread = self.unread[place.root][first : first + block.num_rows]
            if (self.live.rows(io.node)[block.first : block.first + block.num_rows] | unread).all():
                return TakenRows(block, False)
        return TakenRows(hull, not self.live.is_whole(hull))

    def user_rows(self, io: RequestedRows) -> np.ndarray | None:
        """For each of the user's rows the row of the stretch (of `output_block`, or of all provided rows); None if
        they are the same."""
        if self.schedule.nodes[io.node].num_rows is not None:
            return None
        m = self.schedule.graph.multiplicity
        rows = self._rows(io)
        is_input = any(io is each for each in self.request.inputs)
        first, count = (0, self.schedule.num_given[io.node]) if is_input else self.output_block(io)
        rows = rows - first * m
        return None if len(rows) == count * m and (rows == np.arange(len(rows))).all() else rows

    def _rows(self, io: RequestedRows) -> np.ndarray:
        """The row of each of the user's rows in the node's matrix."""
        graph = self.schedule.graph
        if graph.multiplicity == 1:
            return self.schedule.row_of_item[graph.cindex_ids(io.node, io.indexes)].astype(np.int64)
        ns = graph.members.reshape(-1)
        order = np.argsort(ns)
        place = order[np.searchsorted(ns, io.indexes[:, N], sorter=order)]
        representative, member = np.divmod(place, graph.multiplicity)
        table = io.indexes.copy()
        table[:, N] = graph.members[representative, 0]
        first_member = member == 0
        ids = np.empty(len(table), np.int64)
        if first_member.sum() * graph.multiplicity == len(table):
            found = graph.cindex_ids(io.node, table[first_member])
            ids = self._spread(table, first_member, found, io.node)
        else:
            ids = graph.cindex_ids(io.node, table).astype(np.int64)
        return self.schedule.row_of_item[ids] * graph.multiplicity + member

    def _spread(self, table: np.ndarray, first: np.ndarray, found: np.ndarray, node: int) -> np.ndarray:
        m = self.schedule.graph.multiplicity
        if (np.repeat(table[first], m, axis=0) == table).all():
            return np.repeat(found, m).astype(np.int64)  # members side by side
        if len(self.schedule.graph.members) == 1 and (np.tile(table[first], (m, 1)) == table).all():
            return np.tile(found, m).astype(np.int64)  # sequence by sequence
        return self.schedule.graph.cindex_ids(node, table).astype(np.int64)

    # ---- derivatives ----

    def receivers(self, node: int) -> list[int]:
        """The nodes to whose derivatives this one writes."""
        if node in self.deriv_aliases:
            return []
        if node in self.gathered:
            sources = {source for slot in self.sent[node].slots for source in slot.sources}
        else:
            sources = {operand.node for operand in self.schedule.nodes[node].operands}
        return [each for each in sorted(sources) if self.needed[each]]

    def rows_to_clear(self, root: int) -> list[tuple[int, int, int, int]] | None:
        """Blocks (first row, rows, first column, columns) that nobody overwrites; None if it is everything."""
        if self.schedule.nodes[root].gradient:
            return []
        assert self.derivatives is not None
        uncovered = self.derivatives.uncovered.get(root)
        if uncovered is None:
            return None
        if not uncovered.any():
            return []
        cuts = self.derivatives.segments[root].tolist()
        blocks = []
        for segment in range(uncovered.shape[1]):
            edges = np.flatnonzero(np.diff(np.concatenate([[0], uncovered[:, segment].astype(np.int8), [0]])))
            for begin, end in zip(edges[0::2].tolist(), edges[1::2].tolist(), strict=True):
                blocks.append((begin, end - begin, cuts[segment], cuts[segment + 1] - cuts[segment]))
        return blocks


def lay_out(source: GraphSource, request: LoweringRequest, schedule: Schedule, computation: NnetComputation) -> Layout:
    """Decide where everything lies, and declare the matrices in the computation."""
    gathered = gathered_nodes(schedule)
    shifts = {number: shift for number, each in gathered.items() if (shift := identity_shift(each)) is not None}
    value_aliases = {
        number: shift
        for number, shift in shifts.items()
        if schedule.multiplicity(number) == schedule.multiplicity(shift[0])
    }
    live = live_rows(source, schedule, request.deriv_times if request.needs_backward else None)
    sent = {number: live.sent(each) for number, each in gathered.items()}
    needed = deriv_needed(source, request, schedule, sent, live)
    updates = merged_updates(source, request, schedule, needed, live)
    values = Storage(schedule, computation, False, find_places(schedule, value_aliases))
    derivs = Storage(schedule, computation, True, find_places(schedule, {}))
    layout = Layout(
        source, request, schedule, computation, gathered, live, sent, needed, updates, values, derivs, value_aliases
    )
    if request.needs_backward:
        _settle_derivatives(layout, value_aliases)
    for root in share_values(layout):
        values.share_steps(root)
    for root in shared_derivs(layout):
        derivs.share_steps(root)
    _declare(layout)
    return layout


def _settle_derivatives(layout: Layout, shifts: dict[int, tuple[int, int]]) -> None:
    """Find who writes first; gathered nodes that are rows of another and the first to write there share its place."""
    layout.unread = _unread(layout)
    root = [place.root for place in layout.derivs.places]
    possible = {
        node: shift
        for node, shift in shifts.items()
        if layout.needed[node] and layout.needed[shift[0]] and not layout.schedule.nodes[root[shift[0]]].gradient
        if _stays_live(layout.live, node, shift)
    }
    writers = np.bincount([root[node] for node in _written_nodes(layout)], minlength=len(root))
    aliases = {node: shift for node, shift in possible.items() if writers[root[shift[0]]] == 1}
    others = {node: shift for node, shift in possible.items() if node not in aliases}
    if others:
        places = find_places(layout.schedule, aliases)
        _collect(layout, aliases, only={places[source].root for source, _ in others.values()})
        aliases |= {node: shift for node, shift in others.items() if layout.slot_overwrites[node][0].all()}
    _collect(layout, aliases)


def _unread(layout: Layout) -> dict[int, np.ndarray]:
    """Rows whose derivatives nobody reads."""
    merged = {number for numbers in layout.updates.values() for number in numbers}
    unread = {}
    for number in layout.live.live:
        rows = layout.live.unread(number, layout.sent.get(number), number in merged)
        if rows is not None:
            unread[number] = rows
    return unread


def _stays_live(live: LiveRows, node: int, shift: tuple[int, int]) -> bool:
    """Whether a live row of a gathered node is always one of the node whose rows it is."""
    own = live.rows(node)
    return shift[0] not in live.live or bool((live.rows(shift[0])[shift[1] :][: len(own)] | ~own).all())


def _written_nodes(layout: Layout) -> list[int]:
    """The nodes to whose derivatives something is written, once for each that writes there."""
    written = [io.node for io in layout.request.outputs if io.has_deriv]
    for number, node in enumerate(layout.schedule.nodes):
        if not layout.needed[number] or not layout.schedule.steps_of_node[number]:
            continue
        if number in layout.gathered:
            written += [source for slot in layout.sent[number].slots for source in slot.sources]
        else:
            written += [operand.node for operand in node.operands]
    return [node for node in written if layout.needed[node]]


def _collect(layout: Layout, aliases: dict[int, tuple[int, int]], only: set[int] | None = None) -> None:
    """Find the first writers of all derivatives; of these roots `only`, if that is all that is asked."""
    schedule, needed = layout.schedule, layout.needed
    places = find_places(schedule, aliases)
    derivatives = Derivatives(schedule, places, layout.unread)
    slots: list[tuple[int, int, np.ndarray, int]] = []
    operands: list[tuple[tuple[int, int], int, Sending]] = []
    outputs: list[int | None] = []
    all_taken = [layout.taken_rows(io, places[io.node]) for io in layout.request.outputs]
    for term, (io, taken) in enumerate(zip(layout.request.outputs, all_taken, strict=True)):
        outputs.append(None)
        if taken is not None:
            first, count = taken.rows.first, taken.rows.num_rows
            rows, whole = np.arange(first, first + count), np.zeros(1, np.int64)
            bound = bool(schedule.nodes[places[io.node].root].gradient)
            position = np.array(len(schedule.steps))
            outputs[term] = derivatives.add(io.node, rows, position, term, not bound, step_first=whole)
    for number, node in enumerate(schedule.nodes):
        positions = np.array(schedule.steps_of_node[number], np.int64)
        if not needed[number] or len(positions) == 0 or number in aliases:
            continue
        if only is not None and not any(places[target].root in only for target in layout.receivers(number)):
            continue
        if number in layout.gathered:
            slots += slot_contributions(layout, derivatives, number, positions)
        elif node.kind is NodeKind.KERNEL:
            operands += operand_contributions(layout, derivatives, number, positions)
    derivatives.settle()
    layout.derivatives, layout.deriv_aliases, layout.derivs.places = derivatives, aliases, places
    layout.slot_overwrites, layout.operand_overwrites, layout.taken = {}, {}, all_taken
    layout.output_overwrites = [each is not None and bool(derivatives.overwrites(each).all()) for each in outputs]
    for number, slot, rows, contribution in slots:
        by_slot = layout.slot_overwrites.setdefault(number, {})
        known = by_slot.setdefault(slot, np.zeros(schedule.num_rows(number), bool))
        known[rows] = derivatives.overwrites(contribution)
    for key, contribution, sending in operands:
        layout.operand_overwrites[key] = sending.by_step(derivatives.overwrites(contribution))


def _declare(layout: Layout) -> None:
    """A matrix for each root that has rows, and for its derivative where one is needed."""
    schedule = layout.schedule
    for number, node in enumerate(schedule.nodes):
        if node.kind is NodeKind.PROVIDED and node.num_rows is not None:
            _declare_bound(layout, number)
            continue
        if schedule.num_rows(number) == 0:
            continue
        if layout.values.places[number] == Place(number):
            layout.values.declare(number)
        if layout.needed[number] and layout.derivs.places[number] == Place(number):
            layout.derivs.declare(number)


def _declare_bound(layout: Layout, number: int) -> None:
    node = layout.schedule.nodes[number]
    assert node.num_rows is not None
    if layout.schedule.num_rows(number) == 0:
        return
    bind = layout.computation.new_outside
    layout.values.matrix[number] = bind(node.memory, node.num_rows, node.num_cols, writable=False)
    if layout.needed[number]:
        layout.derivs.matrix[number] = bind(node.gradient, node.num_rows, node.num_cols, writable=True)
