"""The two sweeps for one request, on a domain that grows until the sweeps do not depend on its edge.

h(t) = W (x(t) + h(t-1)) + b is asked for at t = 0..3; the domain of h goes further, the needed rows do not:

>>> from tests.lowering.examples import loop
>>> each = loop()
>>> sweeps = Sweeps(each.source, each.request)
>>> sweeps.run()
>>> times = sweeps.ground.domain.grid(2).times
>>> times[[0, -1]].tolist(), times[sweeps.need[2][:, 0, 0]].tolist()
([-32, 35], [0, 1, 2, 3])
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from nnet3.base.index import IndexTable, N, T, X
from nnet3.engine.ir.objects import present
from nnet3.engine.lowering.classes import equal_sequences
from nnet3.engine.lowering.computable import Computability
from nnet3.engine.lowering.domain import Domain, Margin, find_domain
from nnet3.engine.lowering.grids import FARTHEST, Interval
from nnet3.engine.lowering.needed import needed_rows
from nnet3.engine.lowering.slot_table import Mask, SlotTable, SweepGround
from nnet3.engine.lowering.source import GraphRules, LoweringRequest, NodeKind, RequestedRows
from nnet3.engine.lowering.structure import structure_of
from nnet3.errors import RequestError

_FIRST_MARGIN = 32
_TURNS, _MORE_BEYOND = 4, 1000
_FIRST_X_MARGIN, _MORE_X_BEYOND = 2, 16


def finished_sweeps(source: GraphRules, request: LoweringRequest) -> Sweeps:
    """Returns the sweeps for a request after `run`, which says what it raises."""
    sweeps = Sweeps(source, request)
    sweeps.run()
    return sweeps


class Sweeps:
    """Computability and need for a request; after `run` the results are exact.

    `ground`: the arrays under the sweeps. `asked`: the rows (times, xs, classes) asked for by the request, by node.
    `need`: the computable rows of `asked`, and all rows that they use. `at_edge`: the recurrences in which some row
    depends on what is beyond the domain.
    """

    ground: SweepGround
    asked: dict[int, Mask]
    computability: Computability
    need: list[Mask | None]
    at_edge: list[int]
    _best: Computability | None

    def __init__(self, source: GraphRules, request: LoweringRequest):
        self.source, self.structure, self.request = source, structure_of(source), request
        tables = [rows.indexes for rows in (*request.inputs, *request.outputs)]
        if request.samples is not None:
            tables.append(request.samples)
        for table in tables:
            _check_limits(table)
        self.classes = equal_sequences(tables)
        self._hint = _span([rows.indexes[:, T] for rows in request.inputs])
        span, x_span = (_span([table[:, column] for table in tables]) or (0, 0) for column in (T, X))
        self._margins: dict[int, Margin] = {}
        self._last_margins: dict[int, Margin] = {}
        for number, is_recurrent in enumerate(self.structure.is_recurrent):
            if is_recurrent:
                reach = self.structure.reach(number)
                moves_in_x = min(reach.total_x, 1)
                self._margins[number] = Margin(max(_FIRST_MARGIN, 2 * reach.longest_t), _FIRST_X_MARGIN * moves_in_x)
                self._last_margins[number] = Margin(
                    _TURNS * reach.total_t + _MORE_BEYOND + span[1] - span[0],
                    (_TURNS * reach.total_x + _MORE_X_BEYOND + x_span[1] - x_span[0]) * moves_in_x,
                )

    def run(self) -> None:
        """Sweep until the edge does not matter. Raises RequestError for a recurrence that goes on past all inputs."""
        while True:
            self._sweep()
            if not self.at_edge or not self._matters():
                return
            if not self._grow(self.at_edge):
                self._complain_endless(self.at_edge)

    def run_computable(self) -> None:
        """Sweep until the computable outputs are known; what only comes from beyond all inputs is not computable."""
        while True:
            self._sweep()
            if not self.at_edge or not self._outputs_differ(self.best()) or not self._grow(self.at_edge):
                return

    def _grow(self, components: Sequence[int]) -> bool:
        """Widen the domain of these recurrences, in time at once; returns False if all are as wide as is of use."""
        growing = [number for number in components if self._margins[number] != self._last_margins[number]]
        for number in growing:
            margin, last = self._margins[number], self._last_margins[number]
            self._margins[number] = Margin(last.t, min(2 * margin.x, last.x))
        return bool(growing)

    def outputs_computable(self) -> list[npt.NDArray[np.bool_]]:
        """Returns by requested output a mask of the computable rows, (rows,), of one row without samples."""
        result = []
        for rows in self.request.outputs:
            known, grid = self.known(rows.node), self.ground.domain.grid(rows.node)
            if self.structure.has_samples[rows.node]:
                at = grid.find(rows.indexes[:, T].astype(np.int64), rows.indexes[:, X].astype(np.int64))
                result.append(known.reshape(grid.num_rows, -1)[at, self.classes.class_of(rows.indexes[:, N])])
            else:
                result.append(known.reshape(-1))
        return result

    def _sweep(self) -> None:
        structure, request = self.structure, self.request
        domain = find_domain(
            structure,
            _tables_by_node(request.inputs),
            _tables_by_node(request.outputs),
            self._margins,
            request.samples,
            self._hint,
        )
        tables = [None if grid is None else SlotTable(domain, node) for node, grid in enumerate(domain.grids)]
        summed = {source for slots in structure.slots for _, source in slots.all_samples}
        samples = [] if request.samples is None else [RequestedRows(node, "", request.samples) for node in summed]
        summed_rows = self._masks(domain, [rows for rows in samples if tables[rows.node] is not None])
        given = self._masks(domain, request.inputs)
        self.ground = SweepGround(domain, tables, given, summed_rows, self.classes.num_classes)
        self.computability, self._best = Computability(self.ground), None
        self.asked = self._masks(domain, request.outputs)
        wanted = {node: rows & self.known(node) for node, rows in self.asked.items()}
        self.need = needed_rows(self.ground, self.computability.used, wanted)
        components, depends_on_edge = structure.components, self.computability.depends_on_edge
        self.at_edge = [number for number in self._margins if any(map(depends_on_edge, components[number]))]

    def known(self, node: int) -> Mask:
        return present(self.computability.known[node])

    def _masks(self, domain: Domain, requested: Sequence[RequestedRows]) -> dict[int, Mask]:
        """Returns the named rows of each named node, (times, xs, classes)."""
        masks: dict[int, Mask] = {}
        for rows in requested:
            grid = domain.grid(rows.node)
            has_samples = self.structure.has_samples[rows.node]
            copies = self.classes.num_classes if has_samples else 1
            mask = masks.setdefault(rows.node, np.zeros((*grid.shape, copies), bool))
            if not has_samples:
                mask[:] = True
                continue
            position = np.minimum(np.searchsorted(self.classes.smallest, rows.indexes[:, N]), copies - 1)
            chosen = self.classes.smallest[position] == rows.indexes[:, N]
            indexes = rows.indexes[chosen].astype(np.int64)
            mask.reshape(-1, copies)[grid.find(indexes[:, T], indexes[:, X]), position[chosen]] = True
        return masks

    # ---- the edge ----

    def best(self) -> Computability:
        """Returns the computability if all that is beyond the edge were available."""
        self._best = self._best or Computability(self.ground, optimistic=True)
        return self._best

    def _outputs_differ(self, other: Computability) -> bool:
        """True if more rows of the requested outputs are computable there."""
        more = (asked & present(other.known[node]) & ~self.known(node) for node, asked in self.asked.items())
        return any(map(np.any, more))

    def _matters(self) -> bool:
        """True if a needed row or a requested output would change if what is beyond the edge were available."""
        given = self.ground.given
        best = self.best()
        if self._outputs_differ(best):
            return True
        for node, need in enumerate(self.need):
            used, could_use = self.computability.used[node], best.used[node]
            if need is None or used is None or could_use is None:
                continue
            rows = need & ~given[node] if node in given else need
            if ((used != could_use).any(axis=-1) & rows).any():
                return True
        return False

    def _complain_endless(self, components: Sequence[int]) -> None:
        nodes = [node for number in components for node in self.structure.components[number]]
        kernels = [node for node in nodes if self.structure.nodes[node].kind == NodeKind.KERNEL]
        names = [f"'{self.structure.names[node]}'" for node in kernels or nodes]
        listed = ", ".join(sorted(names)[:8]) + (", ..." if len(names) > 8 else "")
        raise RequestError(
            f"the recurrence through {listed} never ends: it goes on past all inputs, however far one looks "
            "(a recurrent node must also need an input)"
        )


def _tables_by_node(requested: Sequence[RequestedRows]) -> dict[int, list[IndexTable]]:
    tables: dict[int, list[IndexTable]] = {}
    for rows in requested:
        tables.setdefault(rows.node, []).append(rows.indexes)
    return tables


def _span(columns: Sequence[npt.NDArray[np.int32]]) -> Interval | None:
    values = np.concatenate([np.empty(0, np.int32), *columns])
    return (int(values.min()), int(values.max())) if len(values) else None


def _check_limits(table: IndexTable) -> None:
    """Raise RequestError for t or x near the limits of int32."""
    if len(table) == 0:
        return
    low, high = int(table[:, T:].min()), int(table[:, T:].max())
    if low < -FARTHEST or high > FARTHEST:
        row = int(np.flatnonzero((np.abs(table[:, T:].astype(np.int64)) > FARTHEST).any(axis=1))[0])
        index = tuple(table[row].tolist())
        raise RequestError(
            f"index (n, t, x) = {index}: t and x must be from {-FARTHEST} to {FARTHEST}, so that offsets can be added"
        )
