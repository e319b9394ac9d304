"""Objects: allocation of many that live long, values but None, lists without repetition, values used last."""

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


def present(value: V | None) -> V:
    """Returns a value, never None: the caller knows it, type checkers do not."""
    assert value is not None
    return value


class Distinct(list[V]):
    """A list without repetition, whose entries have numbers.

    >>> words = Distinct[str]()
    >>> [words.number_of(word) for word in ("one", "two", "one")], words
    ([0, 1, 0], ['one', 'two'])
    """

    def __init__(self) -> None:
        super().__init__()
        self._numbers: dict[Any, int] = {}

    def number_of(self, entry: V, key: Hashable = None) -> int:
        """Returns the number of an entry. An entry with an unknown key, by default the entry itself, is appended."""
        number = self._numbers.setdefault(entry if key is None else key, len(self))
        if number == len(self):
            self.append(entry)
        return number


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
