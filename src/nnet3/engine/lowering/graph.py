"""ComputationGraph: the cindexes of a computation and what each of them uses, as arrays.

In h(t) = W (x(t) + h(t-1)) + b, cindexes 0..3 are x, 8..11 are h. The sums use x and the h before, the first x alone:

>>> from tests.lowering.examples import loop
>>> graph = loop().graph
>>> graph.slots[1].tolist()
[[0, -1], [1, 8], [2, 9], [3, 10]]
>>> graph.cindex_ids(2, np.array([(0, 3, 0), (0, 4, 0)], np.int32)).tolist()  # no cindex for t = 4
[11, -1]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from nnet3.base.index import NO_TIME, IndexTable, N, distinct, find_rows, format_indexes

Ids = npt.NDArray[np.int32]

NO_ITEM = -1
"""Stands for a cindex in rows of padding, and where there is none."""


@dataclass(frozen=True, eq=False)
class ComputationGraph:
    """Cindexes are numbered 0, 1, ... by node, then t, x and n; so the cindexes of a node are a range of numbers.

    Sequences alike in all rows given and asked for by a request are *members* of one class. If all classes have equally
    many members, the graph holds one sequence of every class, the representative: the member with the smallest n. Every
    cindex with samples then stands for `multiplicity` sequences, named in `members`. A value without samples is one
    cindex with index (0, NO_TIME, 0).

    `slots[node]` (rows, slots): the cindexes used by every cindex of a node, by slot; -1 where a slot is not used. A
    KERNEL node has one slot for a ROW or WHOLE operand and as many slots as `GraphSource.slots` gives for an INDEXED
    operand, in the order of operands; `slot_operand[node]` (slots,) is the operand of every slot. A VIEW has one slot.
    `all_samples[node, operand]`: the cindexes used by an operand over ALL_SAMPLES.
    """

    node_names: Sequence[str]
    node: Ids  # (cindexes,) node numbers, ascending
    indexes: IndexTable  # (cindexes, 3): n, t, x
    is_input: npt.NDArray[np.bool_]  # (cindexes,): provided by the request, or bound
    first: Ids  # (nodes + 1,): cindexes first[k] .. first[k + 1] - 1 are those of node k
    slots: Sequence[Ids]
    slot_operand: Sequence[Ids]
    multiplicity: int
    members: Ids  # (representatives, multiplicity): values of n, ascending in each row and in the first column
    all_samples: Mapping[tuple[int, int], Ids] = field(default_factory=dict)
    apart: Callable[[], ComputationGraph] | None = None  # see `told_apart`; None for a multiplicity of 1

    def told_apart(self) -> ComputationGraph:
        """Returns the graph with a cindex for each member of a class.

        >>> from tests.lowering.examples import splice
        >>> print(splice(sequences=2).graph)
        17 cindexes, 16 dependencies, 5 provided; each stands for 2 sequences
        0..4: x [ (0, -1:3) ] provided
        5..8: y_input [ (0, 0:3) ] uses x
        9..12: y [ (0, 0:3) ] uses y_input
        13..16: output [ (0, 0:3) ] uses y
        >>> print(splice(sequences=2).graph.told_apart())
        34 cindexes, 32 dependencies, 10 provided
        0..9: x [ (0:1, -1:3) ] provided
        10..17: y_input [ (0:1, 0:3) ] uses x
        18..25: y [ (0:1, 0:3) ] uses y_input
        26..33: output [ (0:1, 0:3) ] uses y
        """
        return self if self.apart is None else self.apart()

    @property
    def num_cindexes(self) -> int:
        return len(self.node)

    @cached_property
    def dependencies(self) -> tuple[npt.NDArray[np.int64], Ids]:
        """The distinct cindexes that each cindex uses, ascending, as compressed sparse rows (indptr, ids)."""
        counts = np.zeros(self.num_cindexes + 1, np.int64)
        ids = [np.empty(0, np.int32)]
        for number, slots in enumerate(self.slots):
            used = self._with_all_samples(number, slots)
            ordered, is_first = sorted_distinct(used)
            counts[self.first[number] + 1 : self.first[number + 1] + 1] = is_first.sum(axis=1)
            ids.append(ordered[is_first])
        return np.cumsum(counts), np.concatenate(ids)

    def _with_all_samples(self, node: int, slots: Ids) -> Ids:
        rows = [ids for (number, _), ids in self.all_samples.items() if number == node]
        return np.concatenate([slots, *(ids[np.newaxis] for ids in rows)], axis=1) if rows else slots

    def cindex_ids(self, node: int, indexes: IndexTable) -> Ids:
        """Returns the cindexes of these indexes (rows, 3) of a node, -1 where there is none; n: of representatives."""
        start, end = self.first[node], self.first[node + 1]
        rows = find_rows(self.indexes[start:end], indexes)
        return np.where(rows >= 0, rows + start, -1).astype(np.int32)

    def expanded_indexes(self, ids: Ids) -> IndexTable:
        """Returns the indexes (rows, multiplicity, 3) that these cindexes, of values with samples, stand for."""
        if self.multiplicity == 1:
            return self.indexes[ids][:, np.newaxis]
        indexes = np.repeat(self.indexes[ids][:, np.newaxis], self.multiplicity, axis=1)
        indexes[:, :, N] = self.members[np.searchsorted(self.members[:, 0], indexes[:, 0, N])]
        return indexes

    def __str__(self) -> str:
        return self.text(max_items=10)

    def text(self, max_items: int | None = None) -> str:
        """Returns a line per node: the numbers of the node's cindexes, the indexes, and the nodes used.

        `max_items`: how many ranges of indexes a line shows.
        """
        edges = len(self.dependencies[1])
        lines = [f"{self.num_cindexes} cindexes, {edges} dependencies, {int(self.is_input.sum())} provided"]
        if self.multiplicity > 1:
            lines[0] += f"; each stands for {self.multiplicity} sequences"
        for number, name in enumerate(self.node_names):
            start, end = int(self.first[number]), int(self.first[number + 1])
            if start == end:
                continue
            line = f"{start}..{end - 1}: {name} {_format(self.indexes[start:end], max_items)}"
            used = self._with_all_samples(number, self.slots[number])
            if (used >= 0).any():
                line += f" uses {', '.join(self.node_names[source] for source in distinct(self.node[used[used >= 0]]))}"
            if self.is_input[start:end].any():
                line += " provided" if self.is_input[start:end].all() else " partly provided"
            lines.append(line)
        return "\n".join(lines)


def _format(indexes: IndexTable, max_items: int | None) -> str:
    return "once" if indexes[0, 1] == NO_TIME else format_indexes(indexes, max_items)


def sorted_distinct(slots: Ids) -> tuple[Ids, npt.NDArray[np.bool_]]:
    """Returns slots (rows, slots) sorted within each row, and the first position of each value but -1 in a row."""
    ordered = np.sort(slots, axis=1)
    is_first = ordered >= 0
    is_first[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
    return ordered, is_first
