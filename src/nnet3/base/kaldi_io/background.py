"""Makes items ahead in a thread, to save their consumer the wait."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

from nnet3.errors import ArgumentError

T = TypeVar("T")
_SECONDS_TO_END = 5.0
_SECONDS_TO_SIGNALS = 0.5  # after which a wait looks for signals
_SECONDS_BETWEEN_LOOKS = 0.1  # of a thread that has nowhere to put what it has made


class _End:
    """Follows the last item, with the iteration's error, if any."""

    def __init__(self, error: BaseException | None):
        self.error = error


class Background(Generic[T]):
    """Iterates over `items` in a thread, at most `ahead` items in advance, in order.

    An error of the iteration is raised in the place of its item. `close()`, or leaving the `with` block, ends the
    thread. `waited_seconds` is the time the consumer has spent waiting for items, `seconds` the time since it asked for
    the first item.
    """

    def __init__(self, items: Iterable[T], ahead: int = 4):
        if ahead < 1:
            raise ArgumentError(f"at least one item must be made ahead, got {ahead}")
        self.waited_seconds = 0.0
        self.first_seconds = 0.0  # of those, the time for the first item
        self.num_taken = 0
        self._started: float | None = None
        self._items = items
        self._queue: queue.Queue[T | _End] = queue.Queue(ahead)
        self._stop = threading.Event()
        self._ended: _End | None = None
        self._next: T | _End | None = None  # has been looked at
        self._thread = threading.Thread(target=self._work, name="nnet3-background", daemon=True)
        self._thread.start()

    @property
    def seconds(self) -> float:
        return 0.0 if self._started is None else time.perf_counter() - self._started

    @property
    def idle_share(self) -> float:
        """The share of the consumer's time spent waiting, not counting the first item."""
        return (self.waited_seconds - self.first_seconds) / max(1e-9, self.seconds - self.first_seconds)

    def _work(self) -> None:
        error: BaseException | None = None
        try:
            for item in self._items:
                if not self._put(item):
                    break
        except BaseException as raised:
            error = raised
        finally:
            close = getattr(self._items, "close", None)  # a generator lets go of its files in the thread it ran in
            if close is not None:
                close()
        self._put(_End(error))

    def _put(self, item: T | _End) -> bool:
        """Puts an item into the queue; returns false if `close` came first."""
        while not self._stop.is_set():
            try:
                self._queue.put(item, timeout=_SECONDS_BETWEEN_LOOKS)
                return True
            except queue.Full:
                continue
        return False

    def is_ready(self, seconds: float) -> bool:
        """Waits so long for the next item, at most; returns True if the next call of `next` will not wait."""
        if self._next is None and self._ended is None:
            with contextlib.suppress(queue.Empty):
                self._next = self._queue.get(timeout=seconds)
        return self._next is not None or self._ended is not None

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        if self._ended is not None or self._stop.is_set():
            raise StopIteration
        asked = time.perf_counter()
        self._started = asked if self._started is None else self._started
        item, self._next = self._get() if self._next is None else self._next, None
        waited = time.perf_counter() - asked
        if isinstance(item, _End):
            self._ended = item
            self._thread.join()
            if item.error is not None:
                raise item.error
            raise StopIteration
        self.waited_seconds += waited
        self.first_seconds = self.first_seconds if self.num_taken else waited
        self.num_taken += 1
        return item

    def _get(self) -> T | _End:
        """Waits for an item, shortly again and again: a signal that comes just before a wait begins does not end it."""
        while True:
            with contextlib.suppress(queue.Empty):
                return self._queue.get(timeout=_SECONDS_TO_SIGNALS)

    def close(self, seconds: float = _SECONDS_TO_END) -> None:
        """Ends the thread and drops the items made ahead. A thread that hangs for longer is left alone."""
        self._stop.set()
        self._thread.join(seconds)

    def __enter__(self) -> Background[T]:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
