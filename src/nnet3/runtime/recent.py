"""A cache of computers that are ready to run."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from typing import Any

from nnet3.runtime.computer import NnetComputer


class RecentComputers:
    """Computers by key; the least recently used one goes first.

    Computers that do not run at the same time share their memory, and programs are kept elsewhere (see
    `nnet3.ComputationCache`), so that what is lost with one is only a few milliseconds of linking. Not for several
    threads at once.
    """

    def __init__(self, most: int = 32) -> None:
        self.most = most
        self._computers: OrderedDict[Any, NnetComputer] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], NnetComputer]) -> NnetComputer:
        """Returns the computer of this key, made if there is none."""
        if key not in self._computers:
            self._computers[key] = make()
            if len(self._computers) > self.most:
                self._computers.popitem(last=False)
        self._computers.move_to_end(key)
        return self._computers[key]

    def __iter__(self) -> Iterator[Any]:
        """Iterates over the keys, the one used last at the end."""
        return iter(self._computers)
