"""Messages on stderr: `nnet3: ...` for the one error, `nnet3: warning: ...` for all kinds of warnings."""

from __future__ import annotations

import contextlib
import logging
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from nnet3.errors import Nnet3Error

if TYPE_CHECKING:
    from nnet3.base.kaldi_io.symbols import SymbolTable

T = TypeVar("T")
M = TypeVar("M")
_LOGGER = logging.getLogger("nnet3")


def say(message: str, prefix: str = "nnet3: ") -> None:
    """Prints a message. It may quote a file, and contents of files must not steer the terminal.

    A message that cannot be written is lost: nothing depends on it.
    """
    shown = "".join(char if char.isprintable() or char == "\n" else "\N{REPLACEMENT CHARACTER}" for char in message)
    with contextlib.suppress(OSError):
        print(f"{prefix}{shown}", file=sys.stderr)


def say_words(key: str, words: Iterable[int], symbols: SymbolTable) -> None:
    """Prints the words of an utterance, given by number, on one line, as Kaldi's decoders do."""
    say("".join(f"{word} " for word in (key, *(symbols[int(word)] for word in words))), prefix="")


def print_warnings(warnings: Iterable[str]) -> None:
    """Warnings that a function has returned."""
    for warning in warnings:
        say(f"warning: {warning}")


class LeftOut:
    """Counts faulty entries in `failed`, leaves them out, and warns of each."""

    def __init__(self, warning: str = "utterance '{}' left out: {}") -> None:
        """`warning` takes a key and an error."""
        self.failed, self._warning = 0, warning

    def made(self, key: str, make: Callable[..., M], *given: Any) -> M | None:
        """Returns the result of `make`; None, and the entry is left out, if `make` raises Nnet3Error."""
        try:
            return make(*given)
        except Nnet3Error as error:
            self.failed += 1
            say(f"warning: {self._warning.format(key, error)}")
            return None

    def each(self, entries: Iterable[tuple[str, T]], make: Callable[[str, T], M]) -> Iterator[tuple[str, M]]:
        """Yields the results of `make` for keys and entries, without left out entries."""
        for key, entry in entries:
            made = self.made(key, make, key, entry)
            if made is not None:
                yield key, made


@contextlib.contextmanager
def naming(*where: str) -> Iterator[None]:
    """Puts a file, and an entry of it, in front of the message of an Nnet3Error raised within it."""
    try:
        yield
    except Nnet3Error as error:
        raise Nnet3Error(": ".join([*where, str(error)])) from None


@contextlib.contextmanager
def plain_warnings() -> Iterator[None]:
    """Says warnings and log records of the library in our way within it, without source lines."""
    handler = _Handler()
    _LOGGER.addHandler(handler)
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: say(f"warning: {message}")
        try:
            yield
        finally:
            _LOGGER.removeHandler(handler)


@contextlib.contextmanager
def verbosity(level: int) -> Iterator[None]:
    """Says all that the library logs within it if `level` is positive, else warnings only."""
    before = _LOGGER.level
    _LOGGER.setLevel(logging.DEBUG if level > 0 else before)
    try:
        yield
    finally:
        _LOGGER.setLevel(before)


class _Handler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        say(f"{record.levelname.lower()}: {record.getMessage()}")
