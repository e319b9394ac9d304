"""A map from int64 keys to int32 ids made of sorted arrays; whole arrays go in and whole arrays are asked for."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Keys = npt.NDArray[np.int64]
Ids = npt.NDArray[np.int32]


class SortedKeys:
    """Sorted runs of keys, each run more than twice as long as the next one, the newest last.

    An insert adds a run and merges it with its neighbours until the lengths fit again, so that a key is moved
    O(log) times in all and a question searches O(log) runs.
    """

    def __init__(self) -> None:
        self._runs: list[tuple[Keys, Ids]] = []

    def lookup(self, keys: Keys) -> Ids:
        """The id of each key, -1 where there is none."""
        found = np.full(len(keys), -1, dtype=np.int32)
        for run_keys, run_ids in self._runs:  # oldest first: a newer id replaces an older one
            place = np.minimum(np.searchsorted(run_keys, keys), len(run_keys) - 1)
            found = np.where(run_keys[place] == keys, run_ids[place], found)
        return found

    def insert(self, keys: Keys, ids: Ids) -> None:
        """Set the ids of these keys; the last one counts where a key occurs more than once."""
        if len(keys) == 0:
            return
        self._runs.append(_sorted_run(keys, ids))
        while len(self._runs) > 1 and len(self._runs[-2][0]) <= 2 * len(self._runs[-1][0]):
            newer, older = self._runs.pop(), self._runs.pop()
            self._runs.append(_sorted_run(np.concatenate([older[0], newer[0]]), np.concatenate([older[1], newer[1]])))

    def rewritten(self, new_key: Callable[[Keys], Keys]) -> SortedKeys:
        """The same ids under other keys; `new_key` must keep the order of the keys."""
        result = SortedKeys()
        result._runs = [(new_key(keys), ids) for keys, ids in self._runs]
        return result


def _sorted_run(keys: Keys, ids: Ids) -> tuple[Keys, Ids]:
    order = np.argsort(keys, kind="stable")
    keys, ids = keys[order], np.asarray(ids, dtype=np.int32)[order]
    last_of_equal = np.append(keys[1:] != keys[:-1], True)
    return keys[last_of_equal], ids[last_of_equal]
