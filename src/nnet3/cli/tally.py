"""Counts utterances and shows the progress."""

from __future__ import annotations

import contextlib
import threading
import time

from rich.console import Console

from nnet3.cli.messages import say

_SECONDS_BETWEEN_LINES = 30.0


class UtteranceTally:
    """Counts utterances: in one line on a terminal, now and then in a new line elsewhere.

    `failed`: left out, unreadable (`damaged`) utterances included; `resumed`: already written by an earlier run.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        """`quiet`: show only warnings and errors, as the results go to the terminal too."""
        self.done = self.failed = self.damaged = self.resumed = self.frames = 0
        self._start = self._said = time.perf_counter()
        self._lock = threading.Lock()
        self._console = Console(stderr=True)
        self._status = self._console.status("") if self._console.is_terminal and not quiet else None

    def shown(self) -> contextlib.AbstractContextManager[object]:
        """Returns a context that shows progress."""
        return self._status or contextlib.nullcontext()

    def add(self, *, done: int = 0, failed: int = 0, damaged: int = 0, resumed: int = 0, frames: int = 0) -> None:
        """Adds to the counts; several threads may do so at once."""
        with self._lock:
            self._add(done, failed, damaged, resumed, frames)

    def _add(self, done: int, failed: int, damaged: int, resumed: int, frames: int) -> None:
        self.done, self.failed, self.frames = self.done + done, self.failed + failed, self.frames + frames
        self.damaged, self.resumed = self.damaged + damaged, self.resumed + resumed
        now = time.perf_counter()
        if self._status is not None:
            self._status.update(str(self))
        elif now - self._said >= _SECONDS_BETWEEN_LINES:
            self._said = now
            say(str(self))

    def __str__(self) -> str:
        seconds = time.perf_counter() - self._start
        there = f"{self.resumed} were there already, " if self.resumed else ""
        text = f"{self.done} utterances computed, {self.failed} left out; {self.frames} frames in {seconds:.2f} s"
        return there + text
