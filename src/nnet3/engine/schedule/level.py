"""Levels of items with needs: the length of the longest chain of needs below an item.

An item is a unit of computation: a cindex, one row of the output of one node. All needs of an item have lower levels,
so items of one level can be computed together. A recurrence has a level for each round of its
nodes: with a delay of 3 frames, three time steps of all sequences share one level.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

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

    Item `needing[i]` needs item `needed[i]`. The work is O(items + needs). Raises CycleError if items need each other
    in a circle.
    """
    order = np.argsort(needed, kind="stable")
    dependents = needing[order].tolist()  # grouped by the item they need
    first = np.searchsorted(needed[order], np.arange(num_items + 1)).tolist()
    num_needs = np.bincount(needing, minlength=num_items)
    ready, missing, level = np.flatnonzero(num_needs == 0).tolist(), num_needs.tolist(), [0] * num_items
    for item in ready:  # grows meanwhile
        above = level[item] + 1
        for dependent in dependents[first[item] : first[item + 1]]:
            if level[dependent] < above:
                level[dependent] = above
            missing[dependent] -= 1
            if not missing[dependent]:
                ready.append(dependent)
    if len(ready) < num_items:
        raise CycleError(_find_cycle(np.array(missing) > 0, needing, needed))
    return np.array(level, dtype=np.int32)


def _find_cycle(has_none: npt.NDArray[np.bool_], needing: Integers, needed: Integers) -> list[int]:
    """Returns a cycle: an item needs the next one, and the last needs the first. `has_none`: items without a level.

    Every item without a level needs another without a level, so that a walk along such items must come back.
    """
    stuck = has_none[needing] & has_none[needed]
    next_item = dict(zip(needing[stuck].tolist(), needed[stuck].tolist(), strict=True))
    item = min(next_item)
    position: dict[int, int] = {}
    while item not in position:
        position[item] = len(position)
        item = next_item[item]
    return list(position)[position[item] :]
