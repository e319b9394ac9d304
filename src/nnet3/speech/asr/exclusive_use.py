"""Recognizers that only one thread at a time may use."""

from __future__ import annotations

import abc
import contextlib
import threading
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, TypeVar, cast

from nnet3.errors import ExecutionError

_Method = TypeVar("_Method", bound=Callable[..., Any])
_Own = TypeVar("_Own", bound="ExclusiveUse")


class ExclusiveUse(abc.ABC):
    """A recognizer that lets one thread at a time work, until it is closed."""

    def __init__(self) -> None:
        self._is_closed, self._in_use = False, threading.Lock()

    @abc.abstractmethod
    def _drop_stream(self) -> None:
        """Ends the stream without its last rows."""

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        """Lets one thread at a time work. Raises ExecutionError in another one, and if the recognizer is closed."""
        if not self._in_use.acquire(blocking=False):
            raise ExecutionError("this recognizer is at work already: give each thread a recognizer of its own")
        try:
            if self._is_closed:
                raise ExecutionError("this recognizer is closed")
            yield
        finally:
            if self._is_closed:
                self._drop_stream()
            self._in_use.release()

    def close(self) -> None:
        """Ends the recognizer; it hears nothing any more. If a thread is at work, the stream ends behind the work."""
        self._is_closed = True
        with contextlib.suppress(ExecutionError), self.at_work():
            pass

    def __enter__(self: _Own) -> _Own:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def alone(method: _Method) -> _Method:
    """Decorator: a method that no other thread may disturb."""

    @wraps(method)
    def checked(self: ExclusiveUse, *arguments: Any, **named: Any) -> Any:
        with self.at_work():
            return method(self, *arguments, **named)

    return cast(_Method, checked)
