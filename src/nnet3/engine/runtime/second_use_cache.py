"""SecondUseCache: values kept from their second request on."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from itertools import chain
from typing import Any, Generic, TypeVar

_MOST_SEEN = 1000  # keys of which it is known that they were asked for

V = TypeVar("V")


class SecondUseCache(Generic[V]):
    """Values by key, kept so that ever new keys take no memory.

    Of the values requested once only the last `once` are kept. Of all further values at most
    `most` are kept; the least recently used value goes first.

    >>> kept = SecondUseCache(most=2)
    >>> [kept.find(key) or kept.keep(key, key.upper()) for key in "abcada"]
    ['A', 'B', 'C', 'A', 'D', 'A']
    >>> list(kept)
    ['a', 'd']
    """

    def __init__(self, most: int, once: int = 1) -> None:
        self.most, self.once = most, once
        # Not ordered dictionaries: they do not survive a Ctrl-C that comes while a key compares or hashes itself.
        self._again: dict[Any, V] = {}
        self._once: dict[Any, V] = {}
        self._seen: OrderedDict[int, None] = OrderedDict()  # by hash: two keys of one are kept too early

    def find(self, key: Hashable) -> V | None:
        """Returns the value of a key on a repeated request; None without a value."""
        for values in (self._again, self._once):
            if key in values:
                return self._keep_again(key, values.pop(key))
        return None

    def take_spare(self, key: Hashable, fits: Callable[[Any], bool] = lambda _: True) -> V | None:
        """Forgets a value to make room for the value of a new key, and returns it; None if none must go.

        The forgotten value is the oldest with a key that `fits`, among values requested once, or again if `key` was.
        """
        values, most = (self._again, self.most) if hash(key) in self._seen else (self._once, self.once)
        found = None if len(values) < most else next(filter(fits, values), None)
        return None if found is None else values.pop(found)

    def keep(self, key: Hashable, value: V) -> V:
        """Keeps and returns the value of a key not found before."""
        if hash(key) in self._seen:
            return self._keep_again(key, value)
        self._seen[hash(key)], self._once[key] = None, value
        if len(self._seen) > _MOST_SEEN:
            self._seen.popitem(last=False)
        if len(self._once) > self.once:
            del self._once[next(iter(self._once))]
        return value

    def _keep_again(self, key: Hashable, value: V) -> V:
        self._again[key] = value
        if len(self._again) > self.most:
            del self._again[next(iter(self._again))]
        return value

    def clear(self) -> None:
        for entries in (self._again, self._once, self._seen):
            entries.clear()

    def __len__(self) -> int:
        return len(self._again) + len(self._once)

    def __iter__(self) -> Iterator[Any]:
        """Iterates over the keys."""
        return chain(self._again, self._once)

    def values(self) -> list[V]:
        return [*self._again.values(), *self._once.values()]
