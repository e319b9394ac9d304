"""The computation graph hop by hop, as an oracle: slower than the two sweeps of lowering, and quite another way.

The exploration goes backwards from the outputs, hop by hop, all cindexes of a hop at once. It ends in
recurrent networks because it goes on from a cindex only while something usable wants it: its *usable count* is the
number of usable cindexes, not known to be not computable, that depend on it (plus one for a requested output).
What is known of computability is brought up to date after every hop.

A cindex that was given up because nothing usable wanted it (WILL_NOT_COMPUTE) comes back if something usable wants it
later, and until then counts as unknown, not as not computable. So the outcome is always the least fixed point, whatever
the order.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

import nnet3
from nnet3.base.index import IndexTable, unique_rows
from nnet3.engine.lowering.graph import sorted_distinct
from nnet3.engine.schedule import DirectedGraph, epochs
from nnet3.errors import RequestError
from nnet3.model.structure.node_rules import NodeRules
from nnet3.model.structure.nodes import ComponentNode, DescriptorNode, DimRangeNode, InputNode
from nnet3.model.structure.parts import NetworkParts
from tests.cindex_lookup import CindexLookup
from tests.growing import GrowingArray
from tests.reverse_edges import ReverseEdges

_MAX_BEYOND = 10_000  # how far past the request's t and x a recursion may run that its inputs never stop

_FIRST_HOPS_AHEAD = 16  # of a recurrence, before it waits for what it needs


class Computable(IntEnum):
    """What is known of a cindex (the seed's four states)."""

    UNKNOWN = 0
    COMPUTABLE = 1
    NOT_COMPUTABLE = 2
    WILL_NOT_COMPUTE = 3


_UNKNOWN, _COMPUTABLE, _NOT_COMPUTABLE, _WILL_NOT_COMPUTE = (int(state) for state in Computable)


@dataclass(frozen=True, eq=False)
class HopGraph:
    """As nnet3.engine.lowering.ComputationGraph, with every sequence its own representative."""

    node: np.ndarray
    indexes: np.ndarray
    is_input: np.ndarray
    slots: list[np.ndarray]


class _Rules(NodeRules):
    """The rules of nodes, and shortcuts that follow from them."""

    def __init__(self, parts: NetworkParts):
        super().__init__(parts)
        self.names = [node.name for node in parts.nodes]
        numbers = range(len(parts.nodes))
        #: Whether a node's rule looks at its slots alone (and needs some), not at the index.
        self.depends_on_slots_only = [self._looks_at_slots_only(number) for number in numbers]
        #: Whether a row is computable with none of its slots.
        self.needs_nothing = [self._needs_nothing(number) for number in numbers]

    def _looks_at_slots_only(self, number: int) -> bool:
        node = self.parts.nodes[number]
        if isinstance(node, DescriptorNode):
            return bool(node.descriptor.slots())
        if isinstance(node, ComponentNode):
            return self.component(number).identity_indexes and bool(self.may_use(number))
        return isinstance(node, DimRangeNode)

    def _needs_nothing(self, number: int) -> bool:
        probe = np.zeros((1, 3), np.int32)
        none = np.zeros(self.slots(number, probe)[0].shape, bool)
        return bool(self.computable(number, probe, none)[0][0])

    def computable(self, node: int, indexes: IndexTable, available: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        own = self.parts.nodes[node]
        if isinstance(own, DimRangeNode):
            return available[:, 0], available
        if isinstance(own, InputNode):
            return np.zeros(len(indexes), bool), available  # a row that was not provided
        return super().computable(node, indexes, available)

    def directed_graph(self) -> DirectedGraph:
        arcs = [(source, user) for user in range(len(self.names)) for source in self.may_use(user)]
        return DirectedGraph.from_edges(len(self.names), *np.array(arcs, int).reshape(-1, 2).T)


class GraphBuilder:
    """Arrays indexed by cindex number grow as cindexes are found; `slots` of a cindex exist once it is expanded."""

    def __init__(self, nnet: nnet3.Nnet, request: nnet3.ComputationRequest):
        self.rules = _Rules(nnet.parts)
        self.request = request
        ios = (*request.inputs, *request.outputs)
        n_values = np.unique(np.concatenate([io.indexes[:, 0] for io in ios]))
        low = np.min([io.indexes.min(axis=0) for io in ios], axis=0).astype(np.int64)
        high = np.max([io.indexes.max(axis=0) for io in ios], axis=0).astype(np.int64)
        beyond = high - low + _MAX_BEYOND
        self._limits = low - beyond, high + beyond  # of n, t and x
        self._lookup = [CindexLookup(n_values) for _ in nnet.nodes]
        self._node, self._indexes = GrowingArray(np.int32), GrowingArray(np.int32, width=3)
        self._state, self._is_input = GrowingArray(np.int8), GrowingArray(np.bool_)
        self._usable_count = GrowingArray(np.int32)
        self._row = GrowingArray(np.int32)  # row in the node's slots, -1 until expanded
        self._slots: list[GrowingArray | None] = [None for _ in nnet.nodes]
        self._expanded = [GrowingArray(np.int32, capacity=64) for _ in nnet.nodes]  # the cindex of each row of slots
        self._users = ReverseEdges()
        self._epoch_of_node, self._is_recurrent = epochs(self.rules.directed_graph())
        self._hops_ahead = np.zeros(len(self._is_recurrent), np.int64)
        self._max_hops_ahead = np.full(len(self._is_recurrent), _FIRST_HOPS_AHEAD)
        self.output_ids: list[np.ndarray] = []
        self.num_hops = 0

    # ---- the algorithm ----

    def compute(self) -> None:
        """Find all cindexes and their states."""
        for io in self.request.inputs:
            ids = self._add(self._number(io.name), io.indexes)
            self._state.values[ids] = _COMPUTABLE
            self._is_input.values[ids] = True
        queue = []
        for io in self.request.outputs:
            ids = self._add(self._number(io.name), io.indexes)
            self._usable_count.values[ids] = 1
            self.output_ids.append(ids)
            queue.append(ids)
        frontier = np.concatenate(queue)
        while frontier.size:
            now, later = self._next_hop(frontier)
            expanded, found = self._expand(now)
            self._update_computable(expanded)
            frontier = np.concatenate([later, found])
            self.num_hops += 1

    def outputs_computable(self) -> list[np.ndarray]:
        """For each requested output, which of its rows are computable."""
        return [self._state.values[ids] == _COMPUTABLE for ids in self.output_ids]

    def prune(self) -> HopGraph:
        """The graph of what the computable outputs use, and of all that the request provides."""
        used = [self._used_slots(node) for node in range(len(self._lookup))]
        keep = self._is_input.values.copy()
        frontier = np.concatenate(self.output_ids)
        frontier = frontier[self._state.values[frontier] == _COMPUTABLE]
        keep[frontier] = True
        while frontier.size:
            found = np.concatenate([used[node][self._row.values[ids]].ravel() for node, ids in self._by_node(frontier)])
            found = np.unique(found[found >= 0])
            frontier = found[~keep[found]]
            keep[frontier] = True
            frontier = frontier[self._row.values[frontier] >= 0]
        return self._renumber(keep, used)

    # ---- cindexes ----

    def _number(self, name: str) -> int:
        return self.rules.parts.node_number[name]

    def _add(self, node: int, indexes: np.ndarray) -> np.ndarray:
        """Numbers of the cindexes, those not met before being added as unknown."""
        lookup = self._lookup[node]
        ids = lookup.lookup(indexes)
        missing = ids < 0
        if not missing.any():
            return ids
        new, position = unique_rows(indexes[missing])
        new_ids = np.arange(len(self._node), len(self._node) + len(new), dtype=np.int32)
        lookup.insert(new, new_ids)
        ids[missing] = new_ids[position]
        self._node.extend(len(new), node)
        self._indexes.append(new)
        for array, value in (
            (self._state, _UNKNOWN),
            (self._is_input, 0),
            (self._usable_count, 0),
            (self._row, -1),
        ):
            array.extend(len(new), value)
        self._users.extend(len(new))
        return ids

    def _by_node(self, ids: np.ndarray) -> list[tuple[int, np.ndarray]]:
        """The cindexes grouped by node."""
        if ids.size == 0:
            return []
        nodes = self._node.values[ids]
        if (nodes == nodes[0]).all():
            return [(int(nodes[0]), ids)]
        order = np.argsort(nodes, kind="stable")
        ids, nodes = ids[order], nodes[order]
        starts = np.flatnonzero(np.concatenate([[True], nodes[1:] != nodes[:-1]]))
        return list(zip(nodes[starts].tolist(), np.split(ids, starts[1:]), strict=True))

    # ---- one hop ----

    def _next_hop(self, frontier: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The part of the frontier to expand now, all of one epoch, and the rest.

        What is nearest to the outputs comes first, so that outside recurrences the cindexes of a node are expanded all
        at once. A recurrence, though, must not run away from what it needs, which may end it: after some hops it waits
        until all below it has caught up, then goes on for twice as many.
        """
        epoch = self._epoch_of_node[self._node.values[frontier]]
        waiting = np.unique(epoch)[::-1]
        free = waiting[~self._is_recurrent[waiting] | (self._hops_ahead[waiting] < self._max_hops_ahead[waiting])]
        if free.size:
            chosen = free[0]
        else:
            chosen = waiting[-1]
            self._hops_ahead[chosen] = 0
            self._max_hops_ahead[chosen] *= 2
        self._hops_ahead[chosen] += 1
        return frontier[epoch == chosen], frontier[epoch != chosen]

    def _expand(self, frontier: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Add the dependencies of the usable cindexes of the frontier: (those expanded, the cindexes to do next)."""
        frontier = np.unique(frontier)
        usable = self._usable_count.values[frontier] > 0
        self._state.values[frontier[~usable]] = _WILL_NOT_COMPUTE
        frontier = frontier[usable]
        indexes = self._indexes.values[frontier]
        if ((indexes < self._limits[0]) | (indexes > self._limits[1])).any():
            self._complain_endless(frontier)
        before = len(self._node)
        users, used = [], []
        for node, ids in self._by_node(frontier):
            slots = self._add_slots(node, ids)
            ordered, distinct = sorted_distinct(slots)
            users.append(np.repeat(ids, distinct.sum(axis=1)))
            used.append(ordered[distinct])
        if not users:
            return frontier, frontier
        user, dependency = np.concatenate(users), np.concatenate(used)
        self._users.add(user, dependency)
        revived = self._increase_usable(dependency)
        new = np.arange(before, len(self._node), dtype=np.int32)
        return frontier, np.concatenate([new[self._state.values[new] == _UNKNOWN], *revived])

    def _add_slots(self, node: int, ids: np.ndarray) -> np.ndarray:
        """The cindexes that each slot of these cindexes refers to, (rows, slots), remembered for the node."""
        nodes, indexes = self.rules.slots(node, self._indexes.values[ids])
        slots = np.empty(nodes.shape, np.int32)
        if nodes.size and (nodes == nodes[0, 0]).all():
            slots[:] = self._add(int(nodes[0, 0]), indexes.reshape(-1, 3)).reshape(slots.shape)
        else:
            for source in np.unique(nodes).tolist():
                here = nodes == source
                slots[here] = self._add(source, indexes[here])
        store = self._slots[node] or GrowingArray(np.int32, width=nodes.shape[1])
        self._slots[node] = store
        self._row.values[ids] = np.arange(len(store), len(store) + len(ids))
        store.append(slots)
        self._expanded[node].append(ids)
        return slots

    def _complain_endless(self, frontier: np.ndarray) -> None:
        names = sorted({self.rules.names[node] for node in self._node.values[frontier].tolist()})
        raise RequestError(
            f"the recurrence through {', '.join(repr(name) for name in names)} never ends: it goes on "
            f"{_MAX_BEYOND} steps of t or x past all inputs (a recurrent node must also need an input)"
        )

    # ---- usable counts ----

    def _increase_usable(self, dependency: np.ndarray) -> list[np.ndarray]:
        """Count one more usable user of each; returns cindexes given up before that must be expanded after all."""
        revived = []
        while dependency.size:
            before = self._usable_count.values[dependency] == 0
            became_usable = np.unique(dependency[before])
            np.add.at(self._usable_count.values, dependency, 1)
            state = self._state.values[became_usable]
            given_up = became_usable[state == _WILL_NOT_COMPUTE]
            self._state.values[given_up] = _UNKNOWN
            revived.append(given_up)
            dependency = self._dependencies_of(became_usable[state != _NOT_COMPUTABLE])
        return revived

    def _decrease_usable(self, dependency: np.ndarray) -> None:
        """Count one usable user less of each, and so on below those that lose their last."""
        while dependency.size:
            np.subtract.at(self._usable_count.values, dependency, 1)
            touched = np.unique(dependency)
            lost = touched[self._usable_count.values[touched] == 0]
            dependency = self._dependencies_of(lost[self._state.values[lost] != _NOT_COMPUTABLE])

    def _dependencies_of(self, ids: np.ndarray) -> np.ndarray:
        """The distinct dependencies of each of the expanded ones among these cindexes, one after another."""
        ids = ids[self._row.values[ids] >= 0]
        parts = []
        for node, group in self._by_node(ids):
            ordered, distinct = sorted_distinct(self._node_slots(node)[self._row.values[group]])
            parts.append(ordered[distinct])
        return np.concatenate(parts) if parts else np.empty(0, np.int32)

    def _node_slots(self, node: int) -> np.ndarray:
        store = self._slots[node]
        return np.empty((0, 0), np.int32) if store is None else store.values

    # ---- computability ----

    def _update_computable(self, pending: np.ndarray) -> None:
        """Re-evaluate these cindexes, then all that depend on what changed, until nothing changes."""
        while pending.size:
            changed = []
            for node, ids in self._by_node(pending):
                computable, impossible = self._evaluate(node, ids)
                self._state.values[computable] = _COMPUTABLE
                usable = impossible[self._usable_count.values[impossible] > 0]
                self._state.values[impossible] = _NOT_COMPUTABLE
                self._decrease_usable(self._dependencies_of(usable))
                changed += [computable, impossible]
            users = np.unique(self._users.users_of(np.concatenate(changed)))
            pending = users[self._state.values[users] == _UNKNOWN]

    def _evaluate(self, node: int, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Which of these expanded cindexes of a node are now known to be computable, and not to be."""
        slot_state = self._slot_states(node, ids)
        known, refused = slot_state == _COMPUTABLE, slot_state == _NOT_COMPUTABLE
        depends_on_slots = self.rules.depends_on_slots_only[node]
        computable = impossible = ids[:0]
        indexes = self._indexes.values[ids]
        if not depends_on_slots or self.rules.needs_nothing[node] or known.any():
            computable = ids[self.rules.computable(node, indexes, known)[0]]
        if not depends_on_slots or refused.any():
            impossible = ids[~self.rules.computable(node, indexes, (slot_state >= 0) & ~refused)[0]]
        return computable, impossible

    def _slot_states(self, node: int, ids: np.ndarray) -> np.ndarray:
        slots = self._node_slots(node)[self._row.values[ids]]
        return np.where(slots >= 0, self._state.values[slots], -1)

    # ---- the result ----

    def _used_slots(self, node: int) -> np.ndarray:
        """The node's slots (expanded rows, slots) with -1 where a slot is not used in the end."""
        slots = self._node_slots(node)
        if len(slots) == 0:
            return slots
        ids = self._expanded[node].values
        available = self._slot_states(node, ids) == _COMPUTABLE
        computable, used = self.rules.computable(node, self._indexes.values[ids], available)
        return np.where(used & computable[:, np.newaxis], slots, -1)

    def _renumber(self, keep: np.ndarray, used: list[np.ndarray]) -> HopGraph:
        ids = np.flatnonzero(keep)
        node, indexes = self._node.values[ids], self._indexes.values[ids]
        order = np.lexsort((indexes[:, 0], indexes[:, 2], indexes[:, 1], node))
        ids, node, indexes = ids[order], node[order], indexes[order]
        new_id = np.full(len(keep) + 1, -1, np.int32)  # the last entry serves -1
        new_id[ids] = np.arange(len(ids))
        first = np.searchsorted(node, np.arange(len(self._lookup) + 1))
        rows = self._row.values[ids]
        is_input = self._is_input.values[ids]
        slots = []
        for number, table in enumerate(used):
            own = slice(first[number], first[number + 1])
            if table.shape[1] == 0 or len(table) == 0:
                slots.append(np.full((int(first[number + 1] - first[number]), table.shape[1]), -1, np.int32))
                continue
            mapped = new_id[table[rows[own]]]
            mapped[is_input[own]] = -1
            slots.append(mapped)
        return HopGraph(node, indexes, is_input, slots)
