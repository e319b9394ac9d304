"""A cache of computers that are ready to run."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from typing import Any

from nnet3.ir.computation import NnetComputation
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
        return self._get(key, lambda _: make())

    def changed(
        self, key: Hashable, program: Callable[[], NnetComputation], make: Callable[[NnetComputation], NnetComputer]
    ) -> NnetComputer:
        """Returns the computer of this key; if there is none, the oldest one is changed to run its program.

        As long as there are fewer than `most`, one is made. All must be for one network.
        """

        def turned(oldest: NnetComputer | None) -> NnetComputer:
            if oldest is None:
                return make(program())
            oldest.change(program())
            return oldest

        return self._get(key, turned)

    def _get(self, key: Hashable, make: Callable[[NnetComputer | None], NnetComputer]) -> NnetComputer:
        """`make` is given the computer that goes, if there is none of this key."""
        if key not in self._computers:
            oldest = next(iter(self._computers)) if len(self._computers) >= self.most else None
            made = make(None if oldest is None else self._computers[oldest])
            if oldest is not None:
                del self._computers[oldest]
            self._computers[key] = made
        self._computers.move_to_end(key)
        return self._computers[key]

    def __iter__(self) -> Iterator[Any]:
        """Iterates over the keys, the one used last at the end."""
        return iter(self._computers)
