"""ComputationGraph: the cindexes of a computation and what each of them uses, as arrays (seeds: nnet3_compilation)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from nnet3.index import find_rows, format_indexes

Int32Array = np.ndarray


@dataclass(frozen=True, eq=False)
class ComputationGraph:
    """Cindexes are numbered 0, 1, ... by node, then t, x and n; so those of one node are a range of numbers.

    `slots[node]` (rows, slots): for each cindex of a node, the cindexes that it uses, by slot of its descriptor or
    component; -1 where a slot is not used.
    """

    node_names: list[str]
    node: Int32Array  # (cindexes,) node numbers, ascending
    indexes: Int32Array  # (cindexes, 3): n, t, x
    is_input: np.ndarray  # (cindexes,) bool: provided by the request
    first: Int32Array  # (nodes + 1,): cindexes first[k] .. first[k + 1] - 1 are those of node k
    slots: list[Int32Array]

    @property
    def num_cindexes(self) -> int:
        return len(self.node)

    @cached_property
    def dependencies(self) -> tuple[Int32Array, Int32Array]:
        """CSR (indptr, ids): the distinct cindexes that each cindex uses, ascending."""
        counts = np.zeros(self.num_cindexes + 1, np.int64)
        ids = []
        for number, slots in enumerate(self.slots):
            ordered, distinct = sorted_distinct(slots)
            counts[self.first[number] + 1 : self.first[number + 1] + 1] = distinct.sum(axis=1)
            ids.append(ordered[distinct])
        return np.cumsum(counts), np.concatenate(ids) if ids else np.empty(0, np.int32)

    def cindex_ids(self, node: int, indexes: np.ndarray) -> Int32Array:
        """Numbers of the given indexes (rows, 3) of a node, -1 where the graph has no such cindex."""
        start, end = self.first[node], self.first[node + 1]
        rows = find_rows(self.indexes[start:end], indexes)
        return np.where(rows >= 0, rows + start, -1).astype(np.int32)

    def __str__(self) -> str:
        """A line for each node: the numbers of its cindexes, their indexes, and the nodes that they use."""
        edges = len(self.dependencies[1])
        lines = [f"{self.num_cindexes} cindexes, {edges} dependencies, {int(self.is_input.sum())} provided"]
        for number, name in enumerate(self.node_names):
            start, end = int(self.first[number]), int(self.first[number + 1])
            if start == end:
                continue
            line = f"{start}..{end - 1}: {name} {format_indexes(self.indexes[start:end], max_items=10)}"
            used = self.slots[number][self.slots[number] >= 0]
            if used.size:
                line += f" uses {', '.join(self.node_names[source] for source in np.unique(self.node[used]))}"
            if self.is_input[start:end].any():
                line += " provided" if self.is_input[start:end].all() else " partly provided"
            lines.append(line)
        return "\n".join(lines)


def sorted_distinct(slots: Int32Array) -> tuple[Int32Array, np.ndarray]:
    """Slots (rows, slots) sorted within each row, and which of them are the first of their value and not -1."""
    ordered = np.sort(slots, axis=1)
    distinct = ordered >= 0
    distinct[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
    return ordered, distinct
