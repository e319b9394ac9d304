"""Which cindexes depend on a given one, while the graph is still growing.

Edges come in blocks. Within a block the users of one dependency stand together, as a *run*; the runs of a dependency
form a linked list over the blocks. So finding the users of many cindexes takes as many array operations as the
longest of these lists, which grows with the number of hops, never with the number of rows.
"""

from __future__ import annotations

import numpy as np

from tests.growing import GrowingArray


class ReverseEdges:
    def __init__(self) -> None:
        self._last_run = GrowingArray(np.int32)  # of each cindex; -1: no users yet
        self._user = GrowingArray(np.int32)  # of each edge, runs one after another
        self._start, self._length, self._previous = (GrowingArray(np.int32) for _ in range(3))  # of each run

    def extend(self, count: int) -> None:
        """Make room for `count` more cindexes."""
        self._last_run.extend(count, -1)

    def add(self, user: np.ndarray, dependency: np.ndarray) -> None:
        """Add a block of edges (edges,), (edges,)."""
        if user.size == 0:
            return
        order = np.argsort(dependency, kind="stable")
        sorted_dependency = dependency[order]
        starts = np.flatnonzero(np.concatenate([[True], sorted_dependency[1:] != sorted_dependency[:-1]]))
        distinct = sorted_dependency[starts]
        runs = np.arange(len(self._start), len(self._start) + len(starts), dtype=np.int32)
        self._start.append(starts + len(self._user))
        self._length.append(np.diff(np.append(starts, len(order))))
        self._previous.append(self._last_run.values[distinct])
        self._last_run.values[distinct] = runs
        self._user.append(user[order])

    def users_of(self, ids: np.ndarray) -> np.ndarray:
        """All cindexes with an edge to one of these; may hold repetitions."""
        found = [np.empty(0, np.int32)]
        runs = self._last_run.values[ids]
        runs = runs[runs >= 0]
        while runs.size:
            lengths = self._length.values[runs]
            ends = np.cumsum(lengths)
            positions = np.arange(ends[-1]) + np.repeat(self._start.values[runs] - (ends - lengths), lengths)
            found.append(self._user.values[positions])
            runs = self._previous.values[runs]
            runs = runs[runs >= 0]
        return np.concatenate(found)
