"""Domain: the part of (node, t, x) seen by the sweeps, from the outputs down.

Outside recurrences the domain is all rows that the users of a node may look at. A recurrence might look on for ever, so
its domain is a window round the rows asked of the recurrence, with a margin. The caller widens the margin when the
sweeps turn out to depend on the edge.

With x(t-1) and x(t) side by side, outputs at t = 0..3 look at x from t = -1 on:

>>> from tests.lowering.examples import splice
>>> each = splice()
>>> domain = find_domain(Structure(each.source), {}, {3: [each.request.outputs[0].indexes]}, {})
>>> {node.name: grid.intervals for node, grid in zip(each.source.nodes, domain.grids)}
{'x': ((-1, 3),), 'y_input': ((0, 3),), 'y': ((0, 3),), 'output': ((0, 3),)}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from nnet3.base.index import IndexTable, T, X, distinct
from nnet3.engine.ir.objects import present
from nnet3.engine.lowering.grids import FARTHEST, Grid, Interval, SingleGrid, intervals_of, merged
from nnet3.engine.lowering.slot_shapes import SlotShape
from nnet3.engine.lowering.structure import Structure, shortest_cycle
from nnet3.errors import RequestError

_MAX_TIMES = 2**22  # of one node

SINGLE = SingleGrid()


@dataclass(frozen=True)
class Margin:
    """The distance in t and in x by which the window of a recurrence exceeds the rows asked for."""

    t: int
    x: int


@dataclass(frozen=True, eq=False)
class Domain:
    """The grid of each node, None if nothing looks at the node, and where its slots look."""

    structure: Structure
    grids: Sequence[Grid | None]
    shapes: Sequence[SlotShape | None]

    def grid(self, node: int) -> Grid:
        """Returns the grid of a node that something looks at."""
        return present(self.grids[node])

    def is_one_way(self, nodes: Sequence[int]) -> bool:
        """True if all cycles of a recurrence lead back in time for certain, or all lead ahead."""
        structure, period = self.structure, self.structure.source.period or 1
        looks_at_all = any(source in nodes for node in nodes for _, source in structure.slots[node].all_samples)
        if looks_at_all or not all(structure.has_samples[node] for node in nodes):
            return False
        position = {node: period * number for number, node in enumerate(nodes)}  # then by the time's remainder
        arcs = [np.zeros((3, 0), np.int64)]
        for node in nodes:
            shape, own = present(self.shapes[node]), self.grid(node).table()[:, T].astype(np.int64)
            looks = [(s.source, np.arange(period), np.arange(period) + s.dt) for s in shape.shifts]
            for some in shape.scattered:
                row, slot = np.nonzero(some.valid)
                looks.append((some.source, own[row], some.times[row, slot]))
            for source, from_times, times in looks:
                if source in position:
                    ends = position[node] + from_times % period, position[source] + times % period
                    arcs.append(np.stack([*ends, times - from_times]))
        return shortest_cycle(len(nodes) * period, *np.concatenate(arcs, axis=1)) > 0


@dataclass(eq=False)
class _Asked:
    """The times and x at which the users of a node look."""

    intervals: set[Interval] = field(default_factory=set)
    xs: set[int] = field(default_factory=set)


def find_domain(
    structure: Structure,
    given: Mapping[int, Sequence[IndexTable]],
    wanted: Mapping[int, Sequence[IndexTable]],
    margins: Mapping[int, Margin],
    samples: IndexTable | None = None,
    hint: Interval | None = None,
) -> Domain:
    """Returns the domain for the index tables given and wanted, by node.

    `margins`: of recurrences, by the epoch's number. `samples`: the indexes that operands over all samples look at.
    `hint`: times that a window should cover too if that makes it little larger. Raises RequestError for times or x near
    the limits of int32.
    """
    return _Finder(structure, given, margins, samples, hint).find(wanted)


@dataclass(eq=False)
class _Finder:
    structure: Structure
    given: Mapping[int, Sequence[IndexTable]]
    margins: Mapping[int, Margin]
    samples: IndexTable | None
    hint: Interval | None

    def __post_init__(self) -> None:
        self.asked: list[_Asked | None] = [None for _ in self.structure.nodes]
        self.grids: list[Grid | None] = [None for _ in self.structure.nodes]
        self.shapes: list[SlotShape | None] = [None for _ in self.structure.nodes]
        self._interned: dict[tuple[tuple[Interval, ...], tuple[int, ...]], Grid] = {}

    def find(self, wanted: Mapping[int, Sequence[IndexTable]]) -> Domain:
        for node, tables in wanted.items():
            for table in tables:
                self._ask_rows(node, table)
        components = self.structure.components
        for number in range(len(components) - 1, -1, -1):
            if self.structure.is_recurrent[number]:
                self._look_at_recurrence(number)
            else:
                self._look_at(components[number][0])
        return Domain(self.structure, self.grids, self.shapes)

    def _ask_rows(self, node: int, table: IndexTable) -> None:
        self._ask(node, intervals_of(table[:, T]), distinct(table[:, X]).tolist())

    def _ask(self, node: int, intervals: Sequence[Interval], xs: Sequence[int]) -> None:
        asked = self.asked[node]
        if asked is None:
            asked = self.asked[node] = _Asked()
        asked.intervals.update(intervals)
        asked.xs.update(xs)

    def _ask_given(self, node: int) -> None:
        for table in self.given.get(node, ()):
            self._ask_rows(node, table)

    def _look_at(self, node: int) -> None:
        """Fix the grid of a node outside recurrences, and ask for what its slots look at."""
        self._ask_given(node)
        if self.asked[node] is not None:
            self._settle(node)
            self._ask_sources(node, ())

    def _settle(self, node: int) -> None:
        """Fix the grid of a node and where its slots look."""
        if not self.structure.has_samples[node]:
            grid: Grid = SINGLE
        else:
            asked = present(self.asked[node])
            grid = self._grid(merged(asked.intervals), tuple(sorted(asked.xs)))
        self.grids[node], self.shapes[node] = grid, self.structure.shape(node, grid)

    def _grid(self, intervals: tuple[Interval, ...], xs: tuple[int, ...]) -> Grid:
        key = intervals, xs
        if key not in self._interned:
            if sum(high - low + 1 for low, high in intervals) > _MAX_TIMES:
                raise RequestError(
                    f"times {intervals[0][0]} to {intervals[-1][1]} of one node would be needed: more than {_MAX_TIMES}"
                )
            if xs and max(-xs[0], xs[-1]) > FARTHEST:
                raise RequestError(f"x = {xs[0]} to {xs[-1]} would be needed: too near the limits of int32")
            self._interned[key] = Grid(intervals, xs)
        return self._interned[key]

    def _ask_sources(self, node: int, inside: Sequence[int]) -> None:
        """Ask for what the slots of a node may look at, except of sources `inside` its recurrence."""
        grid, shape = present(self.grids[node]), present(self.shapes[node])
        for shift in shape.shifts:
            if shift.source in inside:
                continue
            if shift.dt == 0 and shift.dx == 0:
                self._ask(shift.source, grid.intervals, grid.x_values)
                continue
            moved = [(low + shift.dt, high + shift.dt) for low, high in grid.intervals]
            self._ask(shift.source, moved, [x + shift.dx for x in grid.x_values] if shift.dx else grid.x_values)
        for some in shape.scattered:
            if some.source not in inside:
                self._ask(some.source, intervals_of(some.times[some.valid]), distinct(some.xs[some.valid]).tolist())
        for _, source in shape.singles:
            if source not in inside:
                self._ask(source, (), ())
        for _, source in self.structure.slots[node].all_samples:
            if self.samples is None:
                name = self.structure.names[node]
                raise RequestError(f"'{name}' runs over all samples, but the request does not say which they are")
            if source not in inside:
                self._ask_rows(source, self.samples)

    def _look_at_recurrence(self, number: int) -> None:
        """Fix one window for all nodes of a recurrence, and ask for the rows outside that the nodes look at."""
        nodes = self.structure.components[number]
        for node in nodes:
            self._ask_given(node)
        everything = [asked for asked in (self.asked[node] for node in nodes) if asked is not None]
        if not everything:
            return
        margin = self.margins[number]
        intervals = {interval for asked in everything for interval in asked.intervals}
        window = self._with_hint(merged((low - margin.t, high + margin.t) for low, high in merged(intervals)), number)
        xs = {x for asked in everything for x in asked.xs}
        if margin.x:
            xs = {x + move for x in xs for move in range(-margin.x, margin.x + 1)}
        for node in nodes:
            self._ask(node, window, tuple(xs))
            self._settle(node)
        if self._ask_fixed_times(nodes, margin):
            for node in nodes:
                self._settle(node)
        for node in nodes:
            self._ask_sources(node, nodes)

    def _with_hint(self, window: tuple[Interval, ...], number: int) -> tuple[Interval, ...]:
        if self.hint is None or len(window) != 1:
            return window
        (low, high), (first, last) = window[0], self.hint
        reach = self.structure.reach(number).longest_t
        wide = min(low, first - reach), max(high, last + reach)
        return (wide,) if wide[1] - wide[0] <= max(4 * (high - low), 2048) else window

    def _ask_fixed_times(self, nodes: Sequence[int], margin: Margin) -> bool:
        """Ask for the surroundings of times at which a recurrence looks at itself for every index."""
        found = False
        for node in nodes:
            for some in present(self.shapes[node]).scattered:
                if some.source not in nodes or not some.valid.any():
                    continue
                times = np.where(some.valid, some.times, some.times[some.valid][0])
                fixed = np.unique(times[0, (times == times[0]).all(axis=0)]).tolist()
                for each in nodes:
                    self._ask(each, [(t - margin.t, t + margin.t) for t in fixed], ())
                found = found or bool(fixed)
        return found
