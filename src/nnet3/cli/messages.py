"""Messages on stderr: `nnet3: ...` for the one error, `nnet3: warning: ...` for all kinds of warnings."""

from __future__ import annotations

import contextlib
import logging
import sys
import warnings
from collections.abc import Iterable, Iterator
from typing import TextIO

from nnet3.errors import Nnet3Error

_LOGGER = logging.getLogger("nnet3")


def say(message: str, prefix: str = "nnet3: ") -> None:
    """One message. It may quote a file, and what files hold must not steer the terminal.

    A message that cannot be written is lost: nothing depends on it.
    """
    shown = "".join(char if char.isprintable() or char == "\n" else "\N{REPLACEMENT CHARACTER}" for char in message)
    with contextlib.suppress(OSError):
        print(f"{prefix}{shown}", file=sys.stderr)


def print_warnings(warnings: Iterable[str]) -> None:
    """Warnings that a function has returned."""
    for warning in warnings:
        say(f"warning: {warning}")


class LeftOut:
    """Counts in `failed` the utterances that are left out since something is wrong with them, and warns of each."""

    def __init__(self) -> None:
        self.failed = 0

    @contextlib.contextmanager
    def if_wrong(self, key: str) -> Iterator[None]:
        """Within it, an Nnet3Error leaves the utterance out, and what follows goes on."""
        try:
            yield
        except Nnet3Error as error:
            self.failed += 1
            say(f"warning: utterance '{key}' left out: {error}")


@contextlib.contextmanager
def plain_warnings() -> Iterator[None]:
    """Within it, what the library warns of or logs is said in our way, without source lines."""
    handler = _Handler()
    _LOGGER.addHandler(handler)
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        try:
            yield
        finally:
            _LOGGER.removeHandler(handler)


@contextlib.contextmanager
def verbosity(level: int) -> Iterator[None]:
    """Within it, all that the library logs is said if `level` is positive, else warnings only."""
    before = _LOGGER.level
    _LOGGER.setLevel(logging.DEBUG if level > 0 else before)
    try:
        yield
    finally:
        _LOGGER.setLevel(before)


class _Handler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        say(f"{record.levelname.lower()}: {record.getMessage()}")


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    say(f"warning: {message}")
