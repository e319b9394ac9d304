"""Directed graphs in compressed sparse rows, and walks through graphs."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from nnet3.base.index import distinct

Integers = npt.NDArray[np.integer]
Vertex = TypeVar("Vertex", bound=Hashable)


@dataclass(frozen=True, eq=False)
class DirectedGraph:
    """A graph of nodes 0 .. num_nodes - 1; `successors[indptr[node] : indptr[node + 1]]` are those of `node`."""

    indptr: npt.NDArray[np.int64]  # (num_nodes + 1,)
    successors: npt.NDArray[np.int32]  # (num_arcs,), increasing within each node, no arc twice

    @classmethod
    def from_edges(cls, num_nodes: int, sources: Any, targets: Any) -> DirectedGraph:
        """Returns the graph with an arc from each of `sources` to the target beside it; repeated arcs count once."""
        sources, targets = np.asarray(sources, dtype=np.int64), np.asarray(targets, dtype=np.int64)
        assert sources.shape == targets.shape, "one target for each source"
        for ends in (sources, targets):
            assert ends.size == 0 or (ends.min() >= 0 and ends.max() < num_nodes), "an arc ends outside the graph"
        arcs = distinct(sources * num_nodes + targets)
        sources, targets = np.divmod(arcs, max(num_nodes, 1))
        indptr = np.searchsorted(sources, np.arange(num_nodes + 1)).astype(np.int64)
        return cls(indptr, targets.astype(np.int32))

    @property
    def num_nodes(self) -> int:
        return len(self.indptr) - 1

    @property
    def sources(self) -> npt.NDArray[np.int32]:
        """The node at the tail of each arc, (num_arcs,), in the order of `successors`."""
        return np.repeat(np.arange(self.num_nodes, dtype=np.int32), np.diff(self.indptr))

    def reversed(self) -> DirectedGraph:
        """Returns the graph with every arc turned round."""
        return DirectedGraph.from_edges(self.num_nodes, self.successors, self.sources)


def reached(starts: Iterable[Vertex], following: Callable[[Vertex], Iterable[Vertex]]) -> list[Vertex]:
    """Returns the starts and all nodes reachable from a start, once each, in depth-first order."""
    seen: dict[Vertex, None] = {}
    waiting = list(starts)[::-1]
    while waiting:
        vertex = waiting.pop()
        if vertex not in seen:
            seen[vertex] = None
            waiting += list(following(vertex))[::-1]
    return list(seen)
