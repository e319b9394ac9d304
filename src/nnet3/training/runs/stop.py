"""Remembers requests to stop, SIGTERM and SIGINT, until the minibatch is done."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class StopRequest:
    """`number` is the signal that asks to stop, or 0. When all is saved, `at_once` may be set: then signals end the
    process as if nobody were listening."""

    def __init__(self) -> None:
        self.number = 0
        self.at_once = False

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Remember signals within it; a second one raises KeyboardInterrupt or SystemExit at once.

        Outside the main thread, where Python has no signals, it does nothing.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        previous = {number: signal.signal(number, self._remember) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)

    def _remember(self, number: int, frame: FrameType | None) -> None:
        if self.number or self.at_once:
            if number == signal.SIGINT:
                raise KeyboardInterrupt
            raise SystemExit(128 + number)
        self.number = number
