"""Objects: allocation of many that live long, and those used last."""

from __future__ import annotations

import gc
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

V = TypeVar("V")


@contextmanager
def many_objects() -> Iterator[None]:
    """Switch the garbage collector off: it would search all new objects again and again and find none to free."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class Recent(dict[Any, V]):
    """A dictionary of the values used last, in the order of their use. Threads that share it may make a value twice.

    >>> recent = Recent[str](most=2)
    >>> [recent.get_or_make(key, key.upper) for key in "abacb"]
    ['A', 'B', 'A', 'C', 'B']
    >>> list(recent)
    ['c', 'b']
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def get_or_make(self, key: Hashable, make: Callable[[], V]) -> V:
        """Returns the value of a key, made if it is missing."""
        known = self.pop(key, None)
        return self.use(key, make() if known is None else known)

    def use(self, key: Hashable, value: V) -> V:
        """Keeps a value as the one used last, and returns it; the value that was not used for longest goes."""
        self.pop(key, None)
        self[key] = value
        while len(self) > self.most:
            with suppress(RuntimeError):  # another thread has changed it between finding the first and taking it
                self.pop(next(iter(self), None), None)
        return value
