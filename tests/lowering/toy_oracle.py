"""What a toy graph means: values row by row with a dictionary, derivatives by torch.autograd."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from nnet3.engine.lowering.source import NodeKind, RequestedRows, Use
from tests.lowering.toy_front_end import Part, ToyGraph
from tests.lowering.toy_operations import Window

Index = tuple[int, ...]  # n, t, x


class Oracle:
    """`given[node]`: rows by index; `memory`: bound matrices by name; `samples`: what sums of samples run over.

    `times`: the first and the last t of rows that have derivatives, None for all.

    Operands are asked in order: a kernel in a loop must have one that no input makes computable before the loop's.
    """

    def __init__(
        self,
        graph: ToyGraph,
        given: Mapping[int, Mapping[Index, Tensor]],
        memory: Mapping[str, Tensor],
        samples: Sequence[Index],
        times: tuple[int, int] | None = None,
    ):
        self.graph, self.given, self.memory, self.samples, self.times = graph, given, memory, samples, times
        self._rows: dict[tuple[int, Index], Tensor | None] = {}
        self._whole: dict[int, Tensor | None] = {}

    def output(self, rows: RequestedRows) -> Tensor:
        if self.graph.nodes[rows.node].num_rows is not None:
            value = self.whole(rows.node)
            assert value is not None
            return value
        found = [self.row(rows.node, tuple(index)) for index in rows.indexes.tolist()]
        assert all(row is not None for row in found)
        return torch.cat([row for row in found if row is not None])

    def row(self, node: int, index: Index) -> Tensor | None:
        """(1, columns); None if it is not computable."""
        if (node, index) not in self._rows:
            found = self._row(node, index)
            is_dead = self.times is not None and not self.times[0] <= index[1] <= self.times[1]
            self._rows[node, index] = found.detach() if found is not None and is_dead else found
        return self._rows[node, index]

    def whole(self, node: int) -> Tensor | None:
        """A value without samples; None if it is not computable."""
        if node not in self._whole:
            self._whole[node] = self._compute_whole(node)
        return self._whole[node]

    def _row(self, node: int, index: Index) -> Tensor | None:
        spec = self.graph.nodes[node]
        if index in self.given.get(node, {}):
            return self.given[node][index]
        if spec.kind is NodeKind.PROVIDED:
            return None
        if spec.kind is NodeKind.VIEW:
            seen = self.row(spec.operands[0].node, index)
            return None if seen is None else seen[:, spec.col_offset : spec.col_offset + spec.num_cols]
        if spec.kind is NodeKind.GATHERED:
            return self._gathered(node, index)
        operation = self.graph.operations[node]
        inputs: list[Tensor] = []
        for operand in spec.operands:
            moves = operation.offsets if isinstance(operation, Window) else [0]
            for move in moves:
                found = self._operand(operand.node, operand.use, _moved(index, move))
                if found is None:
                    return None
                inputs.append(found)
        return operation.apply([torch.cat(inputs, 1)] if isinstance(operation, Window) else inputs)

    def _operand(self, node: int, use: Use, index: Index) -> Tensor | None:
        if use is Use.WHOLE:
            return self.whole(node)
        if use is Use.ALL_SAMPLES:
            rows = [self.row(node, each) for each in self.samples]
            none = torch.zeros(0, self.graph.nodes[node].num_cols, dtype=torch.float64)
            return None if any(r is None for r in rows) else torch.cat([none, *(r for r in rows if r is not None)])
        return self.row(node, index)

    def _gathered(self, node: int, index: Index) -> Tensor | None:
        gathering = self.graph.gatherings[node]
        if gathering.clock >= 0 and self.row(gathering.clock, index) is None:
            return None
        parts = [self._part(part, index) for part in gathering.parts]
        return None if any(part is None for part in parts) else torch.cat([p for p in parts if p is not None], 1)

    def _part(self, part: Part, index: Index) -> Tensor | None:
        total = torch.full((1, part.num_cols), part.constant, dtype=torch.float64)
        any_used = False
        for term in part.terms:
            for look in term.alternatives:
                row = self.row(look.source, _moved(index, look.move))
                if row is not None:
                    total, any_used = total + look.scale * row, True
                    break
            else:
                if not term.optional:
                    return None
        return total if any_used else total + part.default

    def _compute_whole(self, node: int) -> Tensor | None:
        spec = self.graph.nodes[node]
        if spec.kind is NodeKind.PROVIDED:
            return self.memory[spec.memory]
        if spec.kind is NodeKind.VIEW:
            seen = self.whole(spec.operands[0].node)
            return None if seen is None else seen[:, spec.col_offset : spec.col_offset + spec.num_cols]
        inputs = [self._operand(operand.node, operand.use, ()) for operand in spec.operands]
        if any(each is None for each in inputs):
            return None
        return self.graph.operations[node].apply([each for each in inputs if each is not None])


def _moved(index: Index, move: int) -> Index:
    n, t, x = index
    return n, t + move, x
