"""CindexGraph: which cindexes a request involves, and what each uses, from the rules of a graph's nodes alone.

An oracle for lowering: it knows a grid of all times, x and sequences, and asks each node about the whole of it until
nothing changes. It shares no code with `build_graph` or `schedule`.

In h(t) = W (x(t) + h(t-1)) + b, asked for at t = 0..3, steps go by the longest chain of needs inside the loop:

>>> from tests.lowering.examples import loop
>>> each = loop()
>>> graph = CindexGraph(each.source, each.request)
>>> [(step.node, graph.table(step.node)[step.rows][:, 1].tolist()) for step in graph.steps[:4]]
[(1, [0]), (2, [0]), (1, [1]), (2, [1])]
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nnet3.base.index import NO_TIME, IndexTable, N, T, X
from nnet3.engine.lowering.source import GraphSource, LoweringRequest, NodeKind, SourceNode, Use

_FARTHEST = 200  # frames beyond the request at which anything is looked for
#: Rows of the grid for each node, and their slots, that are looked at.
MOST_CELLS = 2_000_000

Ids = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class TooLargeError(Exception):
    """The grid of a request is too large for a slow oracle."""


class Step(NamedTuple):
    """Rows of the grid of one node that are computed at once."""

    node: int
    rows: Ids


class CindexGraph:
    """Cindexes have numbers: those of a node with samples begin at `first[node]`, in the order of t, x, n.

    `uses[node]` (rows, slots): the cindexes that each row of the grid uses, -1 for none; `operand[node]` (slots,) is
    the operand of each slot of a kernel. `every[node, operand]`: those of an operand over all samples. `needed`,
    `given` (cindexes,) are masks. `steps`: what is computed, in an order that can be.
    """

    def __init__(self, source: GraphSource, request: LoweringRequest, most_cells: int = MOST_CELLS) -> None:
        self.most_cells = most_cells
        self.source, self.request, self.nodes = source, request, list(source.nodes)
        self._make_grid()
        self.available, self.given = np.zeros(self.size, bool), np.zeros(self.size, bool)
        for io in request.inputs:
            self.given[self.ids(io.node, io.indexes)] = True
        self.uses: list[Ids] = []
        self.operand: list[Ids] = []
        self.every: dict[tuple[int, int], Ids] = {}
        for number in range(len(self.nodes)):
            self._look(number)
        self.components = self._components()
        self.available |= self.given
        for nodes in self.components:
            while sum(self._add_computable(node) for node in nodes):
                pass
        self._find_needed()
        self.steps = [step for nodes in self.components for step in self._steps_of(nodes)]

    # ---- the grid ----

    def _make_grid(self) -> None:
        ios = [io.indexes for io in (*self.request.inputs, *self.request.outputs)]
        named = np.concatenate(
            [np.zeros((0, 3), np.int32), *ios, *([] if self.request.samples is None else [self.request.samples])]
        )
        named = named if len(named) else np.zeros((1, 3), np.int32)
        self.ns = np.unique(named[:, N])
        low, high = named.min(axis=0).astype(np.int64), named.max(axis=0).astype(np.int64)
        probe = np.array([(named[0, N], t, x) for t in (low[T], high[T]) for x in (low[X], high[X])], np.int32)
        far = sum((self._farthest(number, probe) for number in range(len(self.nodes))), np.zeros(3, np.int64))
        beyond_t, beyond_x = (min(int(far[axis]) + 2, _FARTHEST) if far[axis] else 0 for axis in (T, X))
        self.low = np.array([low[T] - beyond_t, min(low[X], 0) - beyond_x])
        times = np.arange(self.low[0], high[T] + beyond_t + 1)
        xs = np.arange(self.low[1], max(high[X], 0) + beyond_x + 1)
        self.shape = len(times), len(xs), len(self.ns)
        if np.prod(self.shape) * len(self.nodes) > self.most_cells:
            raise TooLargeError(f"{np.prod(self.shape)} rows of {len(self.nodes)} nodes")
        t, x, n = (axis.reshape(-1) for axis in np.meshgrid(times, xs, self.ns, indexing="ij"))
        self._grid = np.stack([n, t, x], axis=1).astype(np.int32)
        counts = [len(self.table(number)) for number in range(len(self.nodes))]
        self.first, self.size = np.concatenate([[0], np.cumsum(counts)[:-1]]), sum(counts)

    def _farthest(self, number: int, probe: IndexTable) -> Ids:
        """The distances (n, t, x) at which a node looks, but at values without samples."""
        if self.nodes[number].kind is not NodeKind.GATHERED and not self._indexed(number):
            return np.zeros(3, np.int64)
        sources, indexes = self.source.slots(number, probe)
        moves = abs(indexes.astype(np.int64) - probe[:, np.newaxis])
        with_samples = np.array([node.num_rows is None for node in self.nodes])[sources]
        return (moves * with_samples[:, :, np.newaxis]).max(axis=(0, 1), initial=0)

    def _indexed(self, number: int) -> list[int]:
        operands = self.nodes[number].operands if self.nodes[number].kind is NodeKind.KERNEL else ()
        return [place for place, operand in enumerate(operands) if operand.use is Use.INDEXED]

    def table(self, number: int) -> IndexTable:
        """The indexes of a node's rows; a value without samples is one row."""
        return self._grid if self.nodes[number].num_rows is None else np.array([(0, NO_TIME, 0)], np.int32)

    def node_rows(self, number: int, mask: Mask) -> Ids:
        """The rows of a node's grid where a mask of cindexes holds."""
        return np.flatnonzero(mask[self._all(number)])

    def _all(self, number: int) -> slice:
        return slice(int(self.first[number]), int(self.first[number]) + len(self.table(number)))

    def node_of(self, ids: Ids) -> Ids:
        """The node of each cindex, -1 for none."""
        return np.where(ids >= 0, np.searchsorted(self.first, ids, "right") - 1, -1)

    def ids(self, number: int, indexes: IndexTable) -> Ids:
        """The cindexes of indexes (..., 3) of a node, -1 outside the grid; all the same of a value without samples."""
        if self.nodes[number].num_rows is not None:
            return np.full(indexes.shape[:-1], self.first[number])
        place = indexes[..., [T, X]].astype(np.int64) - self.low
        n = np.searchsorted(self.ns, indexes[..., N])
        inside = ((place >= 0) & (place < self.shape[:2])).all(axis=-1)
        found = (place[..., 0] * self.shape[1] + place[..., 1]) * self.shape[2] + n
        return np.where(inside, found + self.first[number], -1)

    # ---- what uses what ----

    def _look(self, number: int) -> None:
        """Fill in the cindexes at which all rows of a node may look."""
        node, table = self.nodes[number], self.table(number)
        columns, operand = [np.empty((len(table), 0), np.int64)], []
        if node.kind is NodeKind.GATHERED:
            columns.append(self._slots(number, table)[1])
        for place, seen in enumerate(node.operands):
            if seen.use is Use.ALL_SAMPLES:
                assert self.request.samples is not None
                self.every[number, place] = self.ids(seen.node, self.request.samples)
            elif seen.use is not Use.INDEXED:
                columns.append(self.ids(seen.node, table)[:, np.newaxis])
                operand.append(place)
            elif place == self._indexed(number)[0]:
                sources, ids = self._slots(number, table)
                columns.append(ids)
                operand += [self._place_of(node, int(slot)) for slot in sources[0]]
        self.uses.append(np.concatenate(columns, axis=1))
        self.operand.append(np.array(operand, np.int64))

    @staticmethod
    def _place_of(node: SourceNode, source: int) -> int:
        return next(p for p, each in enumerate(node.operands) if each.use is Use.INDEXED and each.node == source)

    def _slots(self, number: int, table: IndexTable) -> tuple[Ids, Ids]:
        size = self.source.slots(number, table[:1])[0].size * len(table)
        if size > self.most_cells:
            raise TooLargeError(f"{size} slots")
        sources, indexes = self.source.slots(number, table)
        ids = np.full(sources.shape, -1, np.int64)
        for source in np.unique(sources).tolist():
            here = sources == source
            ids[here] = self.ids(source, indexes[here])
        return sources, ids

    def _rule(self, number: int) -> tuple[Mask, Mask]:
        """Which rows of a node are computable now, and the slots that they use."""
        node, uses = self.nodes[number], self.uses[number]
        available = (uses >= 0) & self.available[uses]
        if node.kind is NodeKind.GATHERED:
            return self.source.computable(number, self.table(number), available)
        if node.kind is NodeKind.PROVIDED:
            return np.full(len(uses), node.num_rows is not None), available
        computable, used = np.ones(len(uses), bool), available.copy()
        by_rule = np.isin(self.operand[number], self._indexed(number))
        if node.kind is NodeKind.KERNEL and by_rule.any():
            computable, used[:, by_rule] = self.source.computable(number, self.table(number), available[:, by_rule])
            available = available[:, ~by_rule]
        computable = computable & available.all(axis=1)
        for (user, _), ids in self.every.items():
            computable = computable & (user != number or ((ids >= 0) & self.available[ids]).all())
        return computable, used & computable[:, np.newaxis]

    def _add_computable(self, number: int) -> bool:
        before = self.available[self._all(number)]
        after = before | self._rule(number)[0]
        is_new = bool((after != before).any())
        self.available[self._all(number)] = after
        return is_new

    def _components(self) -> list[list[int]]:
        """The nodes that need each other, and these groups in an order in which they can be computed."""
        count = len(self.nodes)
        below = np.eye(count, dtype=bool)  # by user and what it uses
        for number in range(count):
            below[number, list(self.source.may_use(number))] = True
            below[number, [operand.node for operand in self.nodes[number].operands]] = True
        while True:
            further = (below.astype(np.float32) @ below.astype(np.float32)) > 0
            if (further == below).all():
                break
            below = further
        together = below & below.T
        first_of_each = [number for number in range(count) if not together[number, :number].any()]
        first_of_each.sort(key=lambda number: (below[number].sum(), number))
        return [np.flatnonzero(together[number]).tolist() for number in first_of_each]

    # ---- what is needed, and when ----

    def _find_needed(self) -> None:
        for number in range(len(self.nodes)):
            used = self._rule(number)[1] & ~self.given[self._all(number), np.newaxis]
            self.uses[number] = np.where(used, self.uses[number], -1)
        self.needed, seen = np.zeros(self.size, bool), np.zeros(self.size, bool)
        for io in self.request.outputs:
            ids = self.ids(io.node, io.indexes if self.nodes[io.node].num_rows is None else np.zeros((1, 3), np.int32))
            assert (ids >= 0).all(), "the grid is too small"
            assert self.available[ids].all(), f"output '{io.name}' is not computable"
            self.needed[ids] = True
        while (self.needed & ~seen).any():
            for number in {
                int(np.searchsorted(self.first, i, "right")) - 1 for i in np.flatnonzero(self.needed & ~seen)
            }:
                rows = self.node_rows(number, self.needed & ~seen)
                seen[self.first[number] + rows] = True
                uses = self.uses[number][rows]
                self.needed[uses[uses >= 0]] = True
                for (user, _), ids in self.every.items():
                    if user == number and len(rows):
                        self.needed[ids] = True

    def _steps_of(self, nodes: list[int]) -> list[Step]:
        """The rows of nodes that need each other by the longest chain of needs among them."""
        level = np.full(self.size + 1, -1)  # the last one stands for none
        rows = {number: self.node_rows(number, self.needed & ~self.given) for number in nodes}
        inside = np.zeros(self.size + 1, bool)
        for number, own in rows.items():
            inside[self.first[number] + own] = True
            given = self.first[number] + self.node_rows(number, self.given)
            inside[given], level[given] = True, 0
        changed, rounds = True, 0
        while changed:
            changed, rounds = False, rounds + 1
            assert rounds <= inside.sum() + 2, f"nodes {nodes} depend on themselves"
            for number, own in rows.items():
                used = self.uses[number][own]
                below = np.where(inside[used], level[used], -1).max(axis=1, initial=-1) + 1
                ids = self.first[number] + own
                changed |= bool((level[ids] != below).any())
                level[ids] = below
        steps = []
        for height in range(level.max() + 1):
            for number, own in rows.items():
                at = own[level[self.first[number] + own] == height]
                steps += [Step(number, at)] if len(at) else []
        return steps
