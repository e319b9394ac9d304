"""Structure: facts derived from the rules of a graph alone, found once and kept for all requests to the graph.

In h(t) = W (x(t) + h(t-1)) + b the nodes of h need one another: the nodes are one epoch, looking back one frame.

>>> from tests.lowering.examples import loop
>>> source = loop().source
>>> structure = structure_of(source)
>>> [[structure.names[node] for node in nodes] for nodes in structure.components]
[['x'], ['h_input', 'h'], ['output']]
>>> structure.is_recurrent
[False, True, False]
>>> structure.reach(1)
Reach(total_t=1, longest_t=1, total_x=0)
"""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from nnet3.engine.ir.objects import present
from nnet3.engine.lowering.grids import Grid
from nnet3.engine.lowering.slot_shapes import NodeSlots, SlotShape, node_slots, slot_shape
from nnet3.engine.lowering.source import GraphRules
from nnet3.engine.schedule import DirectedGraph, epochs
from nnet3.engine.schedule.directed_graph import Integers

_PROBE_STEP = 128  # slots are asked for on times rounded outwards to multiples of this, to serve later requests too
_MAX_PROBED = 2**16  # rows times slots
_PROBE = Grid(((0, 255),), (0, 1, 2, 3))


@dataclass(frozen=True)
class Reach:
    """The distances at which the slots of a recurrence look within it: the sums, and the longest distance in time."""

    total_t: int
    longest_t: int
    total_x: int


class Structure:
    """`components[k]` are the nodes of epoch k, ascending; they need only nodes of epoch k and of earlier epochs."""

    def __init__(self, source: GraphRules):
        self._source = weakref.ref(source)
        self.nodes = list(source.nodes)
        self.names = [node.name for node in self.nodes]
        self.has_samples = [node.num_rows is None for node in self.nodes]
        sources = [list(source.may_use(number)) for number in range(len(self.nodes))]
        arcs = np.array([(used, number) for number, all_used in enumerate(sources) for used in all_used], int)
        graph = DirectedGraph.from_edges(len(self.nodes), *arcs.reshape(-1, 2).T)
        component_of_node, is_recurrent = epochs(graph)
        self.component_of_node: list[int] = component_of_node.tolist()
        self.is_recurrent: list[bool] = is_recurrent.tolist()
        self.components: list[list[int]] = [[] for _ in self.is_recurrent]
        self.users_inside: list[list[int]] = [[] for _ in self.nodes]  # of each node, those of its own epoch
        for number, component in enumerate(self.component_of_node):
            self.components[component].append(number)
            for used in sources[number]:
                if self.component_of_node[used] == component:
                    self.users_inside[used].append(number)
        self._shapes: dict[int, tuple[SlotShape, Grid | None]] = {}
        self._irregular: set[int] = set()
        self._reach: dict[int, Reach] = {}

    @property
    def source(self) -> GraphRules:
        return present(self._source())

    @cached_property
    def slots(self) -> list[NodeSlots]:
        return [node_slots(self.source, number, node) for number, node in enumerate(self.nodes)]

    def shape(self, node: int, grid: Grid) -> SlotShape:
        """Returns where the slots of a node look, for the rows of a grid."""
        known = self._shapes.get(node)
        if known is not None and (known[1] is None or known[1].covers(grid)):
            return known[0]
        slots = self.slots[node]
        if len(slots.asked) == 0:
            shape = slot_shape(self.source, node, slots, grid, self.has_samples)
            self._shapes[node] = shape, None
            return shape
        wide = grid.widened(_PROBE_STEP) if self.has_samples[node] else grid
        if node not in self._irregular and wide.num_rows * slots.num_slots <= _MAX_PROBED:
            shape = slot_shape(self.source, node, slots, wide, self.has_samples)
            if not shape.scattered:
                self._shapes[node] = shape, wide
                return shape
            self._irregular.add(node)
        return slot_shape(self.source, node, slots, grid, self.has_samples)

    @cached_property
    def lag(self) -> int:
        """The frames that all recurrences can go on at once: 3 if every recurrence looks back or ahead by 3 or more."""
        pairs = zip(self.components, self.is_recurrent, strict=True)
        return math.lcm(1, *(self._lag(nodes) for nodes, is_recurrent in pairs if is_recurrent))

    def _lag(self, nodes: Sequence[int]) -> int:
        """Returns the shortest distance in time round a cycle of a recurrence."""
        shapes = {node: self.shape(node, _PROBE) for node in nodes}
        if any(some.source in shapes for shape in shapes.values() for some in shape.scattered):
            return 1
        position = {node: number for number, node in enumerate(nodes)}
        moves = [
            (position[user], position[s.source], s.dt)
            for user in nodes
            for s in shapes[user].shifts
            if s.source in position
        ]
        return int(shortest_cycle(len(nodes), *np.array(moves, np.int64).reshape(-1, 3).T)) or 1

    def reach(self, component: int) -> Reach:
        """Returns how far the slots of a recurrence look within it."""
        if component not in self._reach:
            moves = [self._moves(node, component) for node in self.components[component]]
            ts, xs = [t for pairs in moves for t, _ in pairs], [x for pairs in moves for _, x in pairs]
            self._reach[component] = Reach(sum(ts), max(ts, default=0), sum(xs))
        return self._reach[component]

    def _moves(self, node: int, component: int) -> list[tuple[int, int]]:
        """Returns the greatest distance (t, x) of each slot of a node within the node's recurrence."""
        shape = self.shape(node, _PROBE)
        found = [(abs(s.dt), abs(s.dx)) for s in shape.shifts if self.component_of_node[s.source] == component]
        own = _PROBE.table().astype(np.int64)
        for some in shape.scattered:
            if self.component_of_node[some.source] != component:
                continue
            dt = np.where(some.valid, abs(some.times - own[:, 1:2]), 0).max(axis=0)
            dx = np.where(some.valid, abs(some.xs - own[:, 2:3]), 0).max(axis=0)
            found += zip(dt.tolist(), dx.tolist(), strict=True)
        return found


def shortest_cycle(num_nodes: int, users: Integers, sources: Integers, times: Integers) -> float:
    """Returns the shortest distance in time round a cycle, 0 unless all lead back or all lead ahead.

    Arcs lead from users to sources, `times` later.
    """
    for sign in (-1.0, 1.0):  # looking back, or ahead
        shortest = np.full((num_nodes, num_nodes), np.inf)
        np.minimum.at(shortest, (users, sources), sign * times)
        for through in range(num_nodes):
            np.minimum(shortest, shortest[:, through, None] + shortest[through], out=shortest)
            if shortest.diagonal().min() <= 0:
                break
        else:
            return float(shortest.diagonal().min())
    return 0.0


_structures: weakref.WeakKeyDictionary[GraphRules, Structure] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def structure_of(source: GraphRules) -> Structure:
    """Returns the structure of a source. It is cached by the identity of the source, which must not change."""
    with _lock:
        if source not in _structures:
            _structures[source] = Structure(source)
        return _structures[source]
