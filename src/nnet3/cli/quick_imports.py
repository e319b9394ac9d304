"""Imports in a process of the command line: without the collection of garbage, and ended at once by Ctrl-C."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import threading
from collections.abc import Iterator
from types import ModuleType

from nnet3.stubs import without_collection

INTERRUPTED = 130  # exit status after Ctrl-C


def import_quickly(name: str) -> ModuleType:
    """Imports a module of the package and its needs."""
    if name in sys.modules:
        return sys.modules[name]
    with ending_at_once():
        module = without_collection(name)
        gc.freeze()  # looking through PyTorch's half a million objects takes 0.1 s each time
    return module


@contextlib.contextmanager
def ending_at_once() -> Iterator[None]:
    """Lets Ctrl-C end the process within it, silently: half-imported modules would turn it into all kinds of errors."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        yield
        return
    previous = signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
