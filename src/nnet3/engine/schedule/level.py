"""Levels of items with needs: the length of the longest chain of needs below an item.

An item is a unit of computation: a cindex, one row of the output of one node. All needs of an item have lower levels,
so items of one level can be computed together. A recurrence has a level for each round of its
nodes: with a delay of 3 frames, three time steps of all sequences share one level.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nnet3.base.index import entries_of_rows
from nnet3.engine.schedule.directed_graph import Integers
from nnet3.errors import RequestError


class CycleError(RequestError):
    """Some items need themselves by way of others: no order can compute them.

    `items[k]` needs `items[k + 1]`, and the last item needs the first.
    """

    def __init__(self, items: list[int]) -> None:
        self.items = items
        shown = [str(item) for item in items[:10]] + (["..."] if len(items) > 10 else [])
        super().__init__(f"a computation cannot be ordered: item {' needs '.join([*shown, str(items[0])])}")


def exact_levels(num_items: int, needing: Integers, needed: Integers) -> npt.NDArray[np.int32]:
    """Returns the level of each item, int32 (num_items,): the length of the longest chain of needs below the item.

    Item `needing[i]` needs item `needed[i]`. Items are followed in waves; a wave costs a fixed number of array
    operations over the wave's items and arcs only, so the work is O(items + needs) and the number of calls depends on
    the number of waves (the longest chain), not on the number of items.

    Raises CycleError if items need each other in a circle.
    """
    level = _levels(num_items, needing, needed)
    if num_items and level.min() < 0:
        raise CycleError(_find_cycle(level, needing, needed))
    return level


def _levels(num_items: int, needing: Integers, needed: Integers) -> npt.NDArray[np.int32]:
    """Returns the levels; -1 for items on a cycle and all items above a cycle."""
    order = np.argsort(needed, kind="stable")
    dependents = needing[order]  # grouped by the item they need
    indptr = np.concatenate([[0], np.cumsum(np.bincount(needed, minlength=num_items))])
    missing = np.bincount(needing, minlength=num_items)
    level = np.full(num_items, -1, dtype=np.int32)
    cell = np.empty(num_items, dtype=np.int64)
    wave, wave_level = np.flatnonzero(missing == 0), 0
    while len(wave):
        level[wave] = wave_level
        reached = dependents[entries_of_rows(indptr, wave)]
        np.subtract.at(missing, reached, 1)
        ready = reached[missing[reached] == 0]
        # An item that was reached several times keeps one of its positions: the last to write its cell.
        cell[ready] = np.arange(len(ready))
        wave = ready[cell[ready] == np.arange(len(ready))]
        wave_level += 1
    return level


def _find_cycle(level: Integers, needing: Integers, needed: Integers) -> list[int]:
    """Returns a cycle: an item needs the next one, and the last needs the first.

    Every item without a level needs another without a level, so that a walk along such items must come back.
    """
    stuck = (level[needing] < 0) & (level[needed] < 0)
    next_item = dict(zip(needing[stuck].tolist(), needed[stuck].tolist(), strict=True))
    item = min(next_item)
    position: dict[int, int] = {}
    while item not in position:
        position[item] = len(position)
        item = next_item[item]
    return list(position)[position[item] :]
