"""A small third front-end: a graph of matrix operations whose meaning `toy_oracle` knows by itself.

It imports nothing of nnet3 networks or computational networks; a test sees to that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nnet3.base.index import NO_TIME, IndexTable, N, T, X
from nnet3.engine.ir.kernel import KernelInfo
from nnet3.engine.lowering.source import GatherPart, NodeKind, Operand, SourceNode, Use
from tests.lowering.toy_operations import MatMul, Operation, Window


@dataclass(frozen=True)
class Look:
    """At the row of `source` that lies `move` frames later, taken `scale` times."""

    source: int
    move: int = 0
    scale: float = 1.0


@dataclass(frozen=True)
class Term:
    """The first of the alternatives that is there; if none is, nothing (optional) or the row is not computable."""

    alternatives: tuple[Look, ...]
    optional: bool = False


@dataclass(frozen=True)
class Part:
    terms: tuple[Term, ...]
    num_cols: int
    constant: float = 0.0
    default: float = 0.0

    @property
    def looks(self) -> list[Look]:
        return [look for term in self.terms for look in term.alternatives]


@dataclass(frozen=True)
class Gathering:
    """Parts side by side; rows exist only where the node `clock` has some (-1: wherever the terms are)."""

    parts: tuple[Part, ...]
    clock: int = -1

    @property
    def looks(self) -> list[Look]:
        """Of all slots, the clock's last."""
        slots = [look for part in self.parts for look in part.looks]
        return [*slots, Look(self.clock)] if self.clock >= 0 else slots


class ToyGraph:
    """A GraphSource. Methods add nodes and give their numbers; `set_gathering` closes loops."""

    def __init__(self) -> None:
        self.nodes: list[SourceNode] = []
        self.gatherings: dict[int, Gathering] = {}
        self.operations: dict[int, Operation] = {}
        self.order = "as it is"  # of the rows of windows; see `arrange`

    # ---- making nodes ----

    def _add(self, node: SourceNode) -> int:
        self.nodes.append(node)
        return len(self.nodes) - 1

    def input(self, num_cols: int) -> int:
        return self._add(SourceNode(f"input{len(self.nodes)}", NodeKind.PROVIDED, num_cols))

    def parameter(self, num_rows: int, num_cols: int, trained: bool = True) -> int:
        name = f"parameter{len(self.nodes)}"
        gradient = f"{name}.gradient" if trained else ""
        return self._add(
            SourceNode(name, NodeKind.PROVIDED, num_cols, num_rows=num_rows, memory=name, gradient=gradient)
        )

    def compute(self, operation: Operation, *operands: Operand, num_cols: int, num_rows: int | None = None) -> int:
        name = f"{type(operation).__name__.lower()}{len(self.nodes)}"
        number = self._add(SourceNode(name, NodeKind.KERNEL, num_cols, operands, num_rows=num_rows))
        self.operations[number] = operation
        return number

    def multiply(self, rows: int, matrix: int, operation: MatMul) -> int:
        cols = self.nodes[matrix].num_cols
        return self.compute(operation, Operand(rows), Operand(matrix, Use.WHOLE), num_cols=cols)

    def view(self, source: int, first: int, num_cols: int) -> int:
        seen = self.nodes[source]
        name = f"view{len(self.nodes)}"
        return self._add(
            SourceNode(name, NodeKind.VIEW, num_cols, (Operand(source),), col_offset=first, num_rows=seen.num_rows)
        )

    def gather(self, *parts: Part, clock: int = -1) -> int:
        number = self._add(SourceNode(f"gather{len(self.nodes)}", NodeKind.GATHERED, 0))
        self.set_gathering(number, Gathering(parts, clock))
        return number

    def set_gathering(self, number: int, gathering: Gathering) -> None:
        self.gatherings[number] = gathering
        parts, first = [], 0
        for part in gathering.parts:
            scales = {look.source: look.scale for look in part.looks}
            parts.append(GatherPart(part.num_cols, first, len(part.looks), part.constant, part.default, scales))
            first += len(part.looks)
        num_cols = sum(part.num_cols for part in gathering.parts)
        self.nodes[number] = SourceNode(self.nodes[number].name, NodeKind.GATHERED, num_cols, parts=tuple(parts))

    def rows_of(self, source: int) -> int:
        """A gathered node that is the rows of another one."""
        return self.gather(Part((Term((Look(source),)),), self.nodes[source].num_cols))

    def window(self, source: int, operation: Window, num_cols: int) -> int:
        return self.compute(operation, Operand(self.rows_of(source), Use.INDEXED), num_cols=num_cols)

    # ---- GraphSource ----

    @property
    def period(self) -> int:
        return 1

    def may_use(self, node: int) -> Sequence[int]:
        if node in self.gatherings:
            return sorted({look.source for look in self.gatherings[node].looks})
        return [operand.node for operand in self.nodes[node].operands]

    def slots(self, node: int, indexes: IndexTable) -> tuple[np.ndarray, IndexTable]:
        looks = self._looks(node)
        nodes = np.tile(np.array([look.source for look in looks], np.int32), (len(indexes), 1))
        looked_at = np.repeat(indexes[:, np.newaxis], len(looks), axis=1)
        looked_at[:, :, T] += np.array([look.move for look in looks], np.int32)
        return nodes, looked_at

    def _looks(self, node: int) -> list[Look]:
        if node in self.gatherings:
            return self.gatherings[node].looks
        operation = self.operations[node]
        assert isinstance(operation, Window)
        return [Look(self.nodes[node].operands[0].node, offset) for offset in operation.offsets]

    def computable(self, node: int, indexes: IndexTable, available: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if node not in self.gatherings:
            whole = np.all(available, axis=1)
            return whole, available & whole[:, np.newaxis]
        gathering = self.gatherings[node]
        used = np.zeros_like(available)
        computable = available[:, -1].copy() if gathering.clock >= 0 else np.ones(len(available), bool)
        slot = 0
        for part in gathering.parts:
            for term in part.terms:
                found = np.zeros(len(available), bool)
                for _ in term.alternatives:
                    used[:, slot] = available[:, slot] & ~found
                    found |= available[:, slot]
                    slot += 1
                computable &= found | term.optional
        return computable, used & computable[:, np.newaxis]

    def kernel(self, node: int) -> KernelInfo:
        return self.operations[node].info()

    def arrange(self, node: int, inputs: IndexTable, outputs: IndexTable) -> tuple[IndexTable, IndexTable]:
        """`as it is`; `blocks`: the latest times first and a row of padding for all n at the end; `sequences`: by n,
        which does not keep the members of a class together."""
        if self.order == "as it is":
            return inputs, outputs
        if self.order == "sequences":
            return inputs[np.lexsort((inputs[:, T], inputs[:, N]))], outputs[np.lexsort((outputs[:, T], outputs[:, N]))]
        return _latest_first(inputs), _latest_first(outputs)

    def precompute(
        self, node: int, inputs: IndexTable, outputs: IndexTable, *, need_backprop: bool
    ) -> dict[str, np.ndarray] | None:
        operation = self.operations[node]
        assert isinstance(operation, Window)
        position = {tuple(index): row for row, index in enumerate(inputs.tolist()) if index[1] != NO_TIME}
        rows = np.zeros((len(outputs), len(operation.offsets)), np.int64)
        real = outputs[:, T] != NO_TIME
        for i in np.flatnonzero(real).tolist():
            n, t, x = outputs[i].tolist()
            rows[i] = [position[n, t + offset, x] for offset in operation.offsets]
        return {"rows": rows, "real": real.astype(np.int64)}


def _latest_first(table: IndexTable) -> IndexTable:
    padding = np.unique(table, axis=0)
    padding = padding[padding[:, T] == padding[0, T]] if len(padding) else padding
    padding = np.unique(np.stack([padding[:, N], 0 * padding[:, T], 0 * padding[:, X]], axis=1), axis=0)
    padding[:, T] = NO_TIME
    ordered = table[np.lexsort((table[:, N], table[:, X], -table[:, T].astype(np.int64)))]
    return np.concatenate([ordered, padding]).astype(np.int32)
