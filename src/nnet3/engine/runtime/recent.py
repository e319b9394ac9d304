"""Caches of computers that are ready to run."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any

from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.runtime.computer import NnetComputer
from nnet3.engine.runtime.second_use_cache import SecondUseCache


class ChangedComputers:
    """Computers for one network, by key. Each repeated key has a computer; a spare computer is changed for new keys.

    So ever new lengths take no memory, and mostly no new link either (see `NnetComputer.change`); repeated lengths
    find a computer bound already. Not for several threads at once.
    """

    def __init__(self, most: int = 32) -> None:
        self._kept = SecondUseCache[NnetComputer](most)

    def get(
        self, key: Hashable, program: Callable[[], NnetComputation], make: Callable[[NnetComputation], NnetComputer]
    ) -> NnetComputer:
        """Returns the computer of a key: known, or a spare computer changed to the key's program, or a new one."""
        found = self._kept.find(key)
        if found is not None:
            return found
        computation = program()
        computer = self._kept.take_spare(key)
        if computer is None:
            computer = make(computation)
        else:
            computer.change(computation)
        return self._kept.keep(key, computer)

    def __iter__(self) -> Iterator[Any]:
        """Iterates over the keys."""
        return iter(self._kept)

    def values(self) -> list[NnetComputer]:
        return self._kept.values()
