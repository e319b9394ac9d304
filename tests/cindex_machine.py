"""CindexMachine: what a request asks of a graph, cindex by cindex, on elements of the field of proofs.

An oracle for lowering: it knows no matrices, layouts or commands, and each cindex sends its derivative to the cindexes
that it used. Kernels are the random functions of `nnet3.engine.ir.proof`, which depend on the rows at which they look
and on nothing that a layout decides. What is learned is compared as sums over rows, however many rows learn together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import NamedTuple

import numpy as np

from nnet3.base.index import T
from nnet3.engine.ir.commands import Backprop, Propagate
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.kernel import KernelInfo
from nnet3.engine.ir.program_tables import MatrixInfo
from nnet3.engine.ir.proof import field
from nnet3.engine.ir.proof.columns import Columns, ColumnSpan
from nnet3.engine.ir.proof.field import Elements
from nnet3.engine.ir.proof.machine import Machine
from nnet3.engine.ir.proof.randoms import Randoms, input_span, output_span
from nnet3.engine.lowering.source import GatherPart, NodeKind, RequestedRows, Use
from tests.cindex_graph import CindexGraph, Ids, Step


class Batch(NamedTuple):
    """A step of a kernel: the places of its operands' rows among those that these have, and what forward pass left."""

    step: Step
    operands: list[Ids]
    precomputed: int
    memo: int


class CindexMachine:
    """`outputs` and `effects` are those of `Machine`."""

    def __init__(self, graph: CindexGraph, columns: Columns) -> None:
        self.graph, self.columns = graph, columns
        self.source, self.request, self.nodes = graph.source, graph.request, graph.nodes
        has_value = graph.needed | graph.given
        self.rows = [graph.node_rows(number, has_value) for number in range(len(self.nodes))]
        self.place = np.full(graph.size + 1, -1)  # of each cindex among those of its node that have values
        for number, rows in enumerate(self.rows):
            self.place[graph.first[number] + rows] = np.arange(len(rows))
        computed = [node for node, _ in graph.steps if self.nodes[node].kind is NodeKind.KERNEL]
        self.info = {number: self.source.kernel(number) for number in sorted(set(computed))}
        self.uses = [graph.uses[number][rows] for number, rows in enumerate(self.rows)]
        self.needed = self._needed()
        self._link_columns()
        self.outputs: dict[tuple[str, str, int], Elements] = {}
        self._times: Counter[Hashable] = Counter()

    def _needed(self) -> list[bool]:
        """Which nodes have a derivative: those above what is asked for, and below outputs that have one.

        Derivatives go from rows that have one to rows that have one.
        """
        request, numbers = self.request, range(len(self.nodes))
        asked = [io.node for io in request.inputs if io.has_deriv]
        if not request.needs_backward:
            return [False for _ in numbers]
        live = np.zeros(self.graph.size + 1, bool)
        for number in numbers:
            live[self.graph.first[number] + self.rows[number]] = self._live(number)[: len(self.rows[number])]
        is_dead = [not (len(self.rows[number]) and self._live(number).any()) for number in numbers]
        used = [[] if is_dead[number] else self._used_nodes(number, live) for number in numbers]
        users = [[user for user in numbers if number in used[user]] for number in numbers]
        begin = {
            number
            for number, node in enumerate(self.nodes)
            if (node.gradient or (number in self.info and request.trains(self.info[number])))
        }
        found = _reached({number for number in (*begin, *asked) if not is_dead[number]}, users)
        if request.watches_others:
            found &= _reached({io.node for io in request.outputs if io.has_deriv}, used)
        return [number in found or number in asked for number in numbers]

    def _live(self, number: int) -> np.ndarray:
        """Which rows of a node with values have derivatives."""
        times, num_rows = self.request.deriv_times if self.request.needs_backward else None, self.nodes[number].num_rows
        if times is None or num_rows is not None:
            return np.ones(len(self.rows[number]) if num_rows is None else num_rows, bool)
        t = self.graph.table(number)[self.rows[number]][:, T]
        return (t >= times[0]) & (t <= times[1])

    def _used_nodes(self, number: int, live: np.ndarray | None = None) -> list[int]:
        """The nodes of which a node uses rows; for a gathered one among `live` cindexes, from one to the other."""
        uses = self.uses[number]
        if live is not None and self.nodes[number].kind is NodeKind.GATHERED:
            uses = np.where(live[uses], uses, -1)[self._live(number)]
        ids = [uses, *(ids for (user, _), ids in self.graph.every.items() if user == number and len(uses))]
        found = np.concatenate([each.reshape(-1) for each in ids])
        return np.unique(self.graph.node_of(found[found >= 0])).tolist()

    # ---- columns ----

    def _link_columns(self) -> None:
        width = [node.num_cols for node in self.nodes]
        for number, node in enumerate(self.nodes):
            own, link = self.span(number), self.columns.link
            self.columns.use(own)
            for name in filter(None, (node.memory, node.gradient)):
                link(own, ColumnSpan(("outside", name), 0, own.width))
            if node.kind is NodeKind.VIEW:
                link(own, ColumnSpan(("node", node.operands[0].node), node.col_offset, own.width))
            if number in self.info:
                info = self.info[number]
                link(own, output_span(info, len(node.operands), own.width))
                for place, operand in enumerate(node.operands):
                    link(self.span(operand.node), input_span(info, place, width[operand.node]))
            for part, first in self._parts(number):
                for source in self._used_nodes(number):
                    if self._uses_of(number, part, source).any():
                        link(ColumnSpan(own.space, first, part.num_cols), self.span(source))
        for io in (*self.request.inputs, *self.request.outputs):
            self.columns.link(self.span(io.node), ColumnSpan(("name", io.name), 0, width[io.node]))

    def span(self, number: int) -> ColumnSpan:
        return ColumnSpan(("node", number), 0, self.nodes[number].num_cols)

    def _parts(self, number: int) -> list[tuple[GatherPart, int]]:
        widths = [part.num_cols for part in self.nodes[number].parts]
        return list(zip(self.nodes[number].parts, np.cumsum([0, *widths]).tolist(), strict=False))

    def _uses_of(self, number: int, part: GatherPart, source: int) -> np.ndarray:
        """Which slots of a part (rows, slots) use a node."""
        uses = self.uses[number][:, part.first_slot : part.first_slot + part.num_slots]
        return self.graph.node_of(uses) == source

    # ---- the run ----

    def run(self, randoms: Randoms) -> None:
        """Compute all values, then all derivatives."""
        self.bench = _Bench(randoms)
        self.kernels = self.bench.computation.kernels
        self.values = [self._first_value(number) for number in range(len(self.nodes))]
        for io in self.request.inputs:
            self.values[io.node][self._io_places(io)] = self._accepted(io)
        batches: list[Batch | None] = []
        for step in self.graph.steps:
            batches.append(self._forward(step))
        for io in self.request.outputs:
            self._provide(io, self.values[io.node])
        if self.request.needs_backward:
            self._run_backward(batches)
        self.effects = self.bench.effects

    def _run_backward(self, batches: list[Batch | None]) -> None:
        self.derivs = [np.zeros_like(value) for value in self.values]
        for io in self.request.outputs:
            if io.has_deriv:
                np.add.at(self.derivs[io.node], self._io_places(io), self._accepted(io))
        for step, batch in zip(reversed(self.graph.steps), reversed(batches), strict=True):
            self._backward(step, batch)
        for io in self.request.inputs:
            if io.has_deriv:
                self.derivs[io.node][~self._live(io.node)] = 0
                self._provide(io, self.derivs[io.node])
        for number, node in enumerate(self.nodes):
            if node.gradient and self.needed[number]:
                before = self._outside(number, node.gradient) if node.adds_to_memory else field.ZERO
                self.outputs["memory", node.gradient, 0] = field.reduced(before + self.derivs[number])

    def _first_value(self, number: int) -> Elements:
        node = self.nodes[number]
        if node.kind is NodeKind.PROVIDED and node.num_rows is not None:
            return self._outside(number, node.memory)
        rows = len(self.rows[number]) if node.num_rows is None else node.num_rows
        return np.zeros((rows, self.columns.num_blocks(("node", number)), 2), np.uint64)

    def _outside(self, number: int, name: str) -> Elements:
        return self._drawn(("outside", name), self.nodes[number].num_rows or 0, self.span(number))

    def _accepted(self, io: RequestedRows) -> Elements:
        what = "accepted", io.name, self._count("accepted", io.name)
        return self._drawn(what, len(self._io_places(io)), self.span(io.node))

    def _drawn(self, what: tuple[Hashable, ...], count: int, span: ColumnSpan) -> Elements:
        return field.drawn(self.bench.randoms.key(*what), np.arange(count)[:, None], self.columns.cuts(span))

    def _provide(self, io: RequestedRows, elements: Elements) -> None:
        number = self._count("provided", io.name)
        self.outputs["output", io.name, number] = elements[self._io_places(io)]

    def _io_places(self, io: RequestedRows) -> Ids:
        """The places of the user's rows, in the user's order."""
        num_rows = self.nodes[io.node].num_rows
        return self.place[self.graph.ids(io.node, io.indexes)] if num_rows is None else np.arange(num_rows)

    def _count(self, *what: Hashable) -> int:
        self._times[what] += 1
        return self._times[what] - 1

    def _places(self, step: Step) -> Ids:
        """The places of a step's rows among those of the node that have values."""
        num_rows = self.nodes[step.node].num_rows
        return self.place[self.graph.first[step.node] + step.rows] if num_rows is None else np.arange(num_rows)

    # ---- steps ----

    def _forward(self, step: Step) -> Batch | None:
        node, places = self.nodes[step.node], self._places(step)
        if node.kind is NodeKind.KERNEL:
            return self._propagate(step)
        if node.kind is NodeKind.VIEW:
            seen = self.values[node.operands[0].node][:, self._viewed(step.node)]
            self.values[step.node][places] = seen if node.num_rows is not None else seen[self._used(step)[:, 0]]
        for part, first in self._parts(step.node):
            blocks = self._blocks(step.node, first, part)
            self.values[step.node][places, blocks] = self._gathered(step, part, self.values[step.node][places, blocks])
        return None

    def _viewed(self, number: int) -> slice:
        node = self.nodes[number]
        return self.columns.blocks(ColumnSpan(("node", node.operands[0].node), node.col_offset, node.num_cols))

    def _blocks(self, number: int, first: int, part: GatherPart) -> slice:
        return self.columns.blocks(ColumnSpan(("node", number), first, part.num_cols))

    def _used(self, step: Step) -> Ids:
        """The places of the rows that the slots of a step use, among those of their nodes."""
        return self.place[self.graph.uses[step.node][step.rows]]

    def _gathered(self, step: Step, part: GatherPart, like: Elements) -> Elements:
        result, is_used = np.zeros_like(like), np.zeros(len(like), bool)
        for source, rows, taken in self._terms(step, part):
            scale = field.element(part.scale_of_source.get(source, 1.0))
            result[rows] = field.reduced(result[rows] + field.product(self.values[source][taken], scale))
            is_used[rows] = True
        default = np.where(is_used[:, None], field.ZERO, field.element(part.default))[:, None]
        return field.reduced(result + default + field.element(part.constant))

    def _terms(self, step: Step, part: GatherPart) -> list[tuple[int, Ids, Ids]]:
        """What a part of a step adds up: a node, rows of the step, and the places of the node's rows that they take."""
        found = []
        uses = self.graph.uses[step.node][step.rows, part.first_slot : part.first_slot + part.num_slots]
        nodes = self.graph.node_of(uses)
        for slot in range(part.num_slots):
            for source in np.unique(nodes[:, slot][nodes[:, slot] >= 0]).tolist():
                rows = np.flatnonzero(nodes[:, slot] == source)
                found.append((source, rows, self.place[uses[rows, slot]]))
        return found

    def _operands(self, step: Step) -> list[Ids]:
        """The places of the rows of each operand of a kernel's step."""
        graph, result = self.graph, []
        for place, operand in enumerate(self.nodes[step.node].operands):
            num_rows = self.nodes[operand.node].num_rows
            if num_rows is not None:
                result.append(np.arange(num_rows))
            elif operand.use is Use.ALL_SAMPLES:
                result.append(self.place[graph.every[step.node, place]])
            else:
                used = graph.uses[step.node][step.rows][:, graph.operand[step.node] == place]
                result.append(self.place[used[:, 0] if operand.use is Use.ROW else np.unique(used[used >= 0])])
        return result

    def _propagate(self, step: Step) -> Batch:
        node, info = self.nodes[step.node], self.info[step.node]
        operands, own = self._operands(step), self._places(step)
        matrices = [
            self._matrix(operand.node, places, self.values[operand.node][places])
            for operand, places in zip(node.operands, operands, strict=True)
        ]
        output = self._matrix(step.node, own, np.zeros_like(self.values[step.node][own]))
        memo = -1
        if info.uses_memo and self.needed[step.node] and self._live(step.node)[own].any():
            memo = self._count("memo")
        batch = Batch(step, operands, self._precomputed(step), memo)
        stores = self.request.store_component_stats and info.stores_stats and bool(self._live(step.node)[own].any())
        Propagate(
            self._kernel(info), node.name, tuple(matrices), output, batch.precomputed, batch.memo, stores
        ).evaluate(self.bench)
        self.values[step.node][own] = self.bench.arrays[output]
        return batch

    def _precomputed(self, step: Step) -> int:
        node, table = self.nodes[step.node], self.graph.table(step.node)[step.rows]
        if not self.info[step.node].needs_indexes or (node.operands and node.operands[0].use is Use.INDEXED):
            return 0
        backward = self.needed[step.node]
        made = self.source.precompute(step.node, table if node.operands else table[:0], table, need_backprop=backward)
        self.bench.computation.precomputed.append(made)
        return len(self.bench.computation.precomputed) - 1

    def _kernel(self, info: KernelInfo) -> int:
        if info not in self.kernels:
            self.kernels.append(info)
        return self.kernels.index(info)

    def _matrix(self, number: int, places: Ids, elements: Elements) -> int:
        """A matrix with these elements, for the rows of a node at these places."""
        node = self.nodes[number]
        indexes = None if node.num_rows is not None else self.graph.table(number)[self.rows[number]][places]
        info = MatrixInfo(node.name, False, indexes)
        made = self.bench.computation.new_matrix(len(elements), node.num_cols, info)
        self.bench.arrays[made] = elements
        return made

    def _backward(self, step: Step, batch: Batch | None) -> None:
        node = self.nodes[step.node]
        if not self.needed[step.node]:
            return
        own = self._places(step)
        deriv = np.where(self._live(step.node)[own][:, None, None], self.derivs[step.node][own], np.uint64(0))
        if batch is not None:
            self._backprop(batch, deriv)
        if node.kind is NodeKind.VIEW:
            source = node.operands[0].node
            places = np.arange(len(own)) if node.num_rows is not None else self._used(step)[:, 0]
            self._add(source, places, deriv, self._viewed(step.node))
        for part, first in self._parts(step.node):
            sent = deriv[:, self._blocks(step.node, first, part)]
            for source, rows, taken in self._terms(step, part):
                scale = field.element(part.scale_of_source.get(source, 1.0))
                self._add(source, taken, field.product(sent[rows], scale))

    def _add(self, number: int, places: Ids, elements: Elements, blocks: slice = slice(None)) -> None:
        deriv = self.derivs[number][:, blocks]
        np.add.at(deriv, places, elements)
        self.derivs[number][:, blocks] = field.reduced(deriv)

    def _backprop(self, batch: Batch, deriv: Elements) -> None:
        """Run a kernel backward, on the rows that have derivatives alone if each row is by itself."""
        node, info = self.nodes[batch.step.node], self.info[batch.step.node]
        own = self._places(batch.step)
        kept = np.ones(len(own), bool)
        if info.row_by_row and not (info.uses_memo or info.needs_indexes):
            kept = self._live(batch.step.node)[own]
        if not kept.any():
            return
        places = [
            place[kept] if operand.use is Use.ROW and self.nodes[operand.node].num_rows is None else place
            for operand, place in zip(node.operands, batch.operands, strict=True)
        ]
        values, derivs = [], []
        for operand, place, promises in zip(node.operands, places, info.inputs, strict=True):
            value = self.values[operand.node][place]
            values.append(self._matrix(operand.node, place, value) if promises.backprop_needs_value else 0)
            wanted = self.needed[operand.node]
            derivs.append(self._matrix(operand.node, place, np.zeros_like(value)) if wanted else 0)
        output = self._matrix(batch.step.node, own[kept], self.values[batch.step.node][own[kept]])
        Backprop(
            self._kernel(info),
            node.name,
            tuple(values),
            output if info.backprop_needs_output else 0,
            self._matrix(batch.step.node, own[kept], deriv[kept]),
            tuple(derivs),
            (0,) * len(derivs),
            not info.updatable or self.request.updates(info),
            batch.precomputed,
            batch.memo,
        ).evaluate(self.bench)
        for number, operand, place in zip(derivs, node.operands, places, strict=True):
            if number:
                self._add(operand.node, place, self.bench.arrays[number])


def _reached(begin: set[int], onward: list[list[int]]) -> set[int]:
    found, new = set(begin), set(begin)
    while new:
        new = {each for number in new for each in onward[number]} - found
        found |= new
    return found


class _Bench(Machine):
    """Kernels by themselves, each on matrices of its own."""

    def __init__(self, randoms: Randoms) -> None:
        super().__init__(NnetComputation(need_model_derivative=True), -1, randoms)
        self.arrays: dict[int, Elements] = {0: np.zeros((0, 0, 2), np.uint64)}

    def read(self, submatrix: int) -> Elements:
        return self.arrays[submatrix]
