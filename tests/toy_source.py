"""A graph source made by hand: parameters, two-input kernels, a view, a delay with a default, sums over all samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from nnet3.base.index import NO_TIME, IndexTable, T
from nnet3.engine.lowering.source import GatherPart, NodeKind, Operand, SourceNode, Use

Term = tuple[str, int]  # node, how far it lies in time


@dataclass(eq=False)
class ToySource:
    """Nodes are added one by one; gathered nodes are sums of terms, each of which may be missing (`optional`)."""

    nodes: list[SourceNode] = field(default_factory=list)
    terms: dict[int, list[Term]] = field(default_factory=dict)
    optional: dict[int, bool] = field(default_factory=dict)
    window: dict[int, Sequence[int]] = field(default_factory=dict)  # of kernels with an indexed operand

    def _add(self, node: SourceNode) -> str:
        self.nodes.append(node)
        return node.name

    def number(self, name: str) -> int:
        return next(number for number, node in enumerate(self.nodes) if node.name == name)

    def provided(self, name: str, cols: int) -> str:
        return self._add(SourceNode(name, NodeKind.PROVIDED, cols))

    def parameter(self, name: str, rows: int, cols: int) -> str:
        return self._add(SourceNode(name, NodeKind.PROVIDED, cols, num_rows=rows, memory=name, gradient=f"{name}.grad"))

    def kernel(self, name: str, cols: int, *operands: tuple[str, Use], num_rows: int | None = None) -> str:
        uses = tuple(Operand(self.number(source), use) for source, use in operands)
        return self._add(SourceNode(name, NodeKind.KERNEL, cols, uses, num_rows=num_rows))

    def windowed(self, name: str, cols: int, gathered: str, offsets: Sequence[int], *more: tuple[str, Use]) -> str:
        """A kernel that looks at rows around its own, of which it can do without all but one."""
        self.window[len(self.nodes)] = offsets
        return self.kernel(name, cols, *more[:1], (gathered, Use.INDEXED), *more[1:])

    def view(self, name: str, source: str, cols: int, offset: int) -> str:
        operand = Operand(self.number(source))
        return self._add(SourceNode(name, NodeKind.VIEW, cols, (operand,), col_offset=offset))

    def gathered(self, name: str, cols: int, *terms: Term, optional: bool = False) -> str:
        """A sum; the nodes it names may come later."""
        self.terms[len(self.nodes)], self.optional[len(self.nodes)] = list(terms), optional
        part = GatherPart(cols, 0, len(terms), default=0.5 if optional else 0.0)
        return self._add(SourceNode(name, NodeKind.GATHERED, cols, parts=(part,)))

    # ---- what lowering asks ----

    @property
    def period(self) -> int:
        return 1

    def may_use(self, node: int) -> Sequence[int]:
        if node in self.terms:
            return [self.number(name) for name, _ in self.terms[node]]
        return [operand.node for operand in self.nodes[node].operands]

    def slots(self, node: int, indexes: IndexTable) -> tuple[np.ndarray, IndexTable]:
        if node in self.terms:
            sources = [self.number(name) for name, _ in self.terms[node]]
            offsets = [offset for _, offset in self.terms[node]]
        else:
            indexed = next(operand.node for operand in self.nodes[node].operands if operand.use == Use.INDEXED)
            offsets = list(self.window[node])
            sources = [indexed] * len(offsets)
        found = np.repeat(indexes[:, np.newaxis], len(offsets), axis=1)
        found[:, :, T] += np.array(offsets, np.int32)
        for slot, source in enumerate(sources):
            if self.nodes[source].num_rows is not None:
                found[:, slot] = 0, NO_TIME, 0
        return np.broadcast_to(np.array(sources, np.int32), found.shape[:2]), found

    def computable(self, node: int, indexes: IndexTable, available: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if node in self.window:
            return np.any(available, axis=1), available
        if self.optional[node]:
            return np.ones(len(indexes), bool), available & available.all(axis=1, keepdims=True)
        return np.all(available, axis=1), available


def table(ns: Sequence[int], times: Sequence[int]) -> IndexTable:
    return np.array([(n, t, 0) for t in times for n in ns], np.int32).reshape(-1, 3)
