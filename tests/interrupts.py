"""Ctrl-C at any moment: where Python looks for signals, functions begin and calls of C functions have ended."""

from __future__ import annotations

import contextlib
import inspect
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest
import torch

_SECONDS_TO_WAIT, _SECONDS_TO_END = 0.1, 10.0


class Moments:
    """Counts moments at which a signal may come; raises KeyboardInterrupt at the one of this number.

    `within`: only in files whose paths have this part.
    """

    def __init__(self, last: int | None = None, *, within: str = "") -> None:
        self.count, self._last, self._within = 0, last, within

    @contextlib.contextmanager
    def passing(self) -> Iterator[None]:
        """PyTorch itself leaves gradients off if a signal comes while `torch.no_grad` begins or ends."""
        is_on = torch.is_grad_enabled()
        sys.setprofile(self._look)
        try:
            yield
        finally:
            sys.setprofile(None)
            torch.set_grad_enabled(is_on)

    def _look(self, frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        dies = code.co_name == "__del__" or (event == "call" and code.co_flags & inspect.CO_GENERATOR)
        if event not in ("call", "c_return") or dies:  # Python prints what is raised while an object dies, and goes on
            return
        if self._within not in code.co_filename:
            return
        self.count += 1
        if self.count == self._last:
            sys.setprofile(None)
            raise KeyboardInterrupt


def interrupted(function: Callable[[], Any], moment: int, *, within: str = "") -> bool:
    """Calls the function, and returns True if it was interrupted at that moment, False if it had ended before."""
    try:
        with Moments(moment, within=within).passing():
            function()
    except KeyboardInterrupt:
        return True
    return False


def num_moments(function: Callable[[], Any], *, within: str = "") -> int:
    moments = Moments(within=within)
    with moments.passing():
        function()
    return moments.count


@contextlib.contextmanager
def interrupt_beside_a_wait(end: Callable[[], object]) -> Iterator[None]:
    """Asserts that the body, which waits for what `end` gives, is interrupted while it waits.

    A thread takes the signal: as one that comes just before a call of the system begins, it leaves the call waiting.
    """
    is_interrupted, is_late = threading.Event(), threading.Event()

    def send() -> None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        is_interrupted.wait(_SECONDS_TO_WAIT)
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        if not is_interrupted.wait(_SECONDS_TO_END):
            is_late.set()
        end()

    sender = threading.Thread(target=send)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        sender.start()
        with pytest.raises(KeyboardInterrupt):
            yield
        assert not is_late.is_set(), "the signal was seen when the wait had ended"
    finally:
        is_interrupted.set()
        sender.join()
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
