"""Every exception of the package, and `Span`, a place in a text."""

from __future__ import annotations

from typing import NamedTuple

_WINDOW = 110  # widest excerpt of a source line that a message shows
_WIDEST_VALUE = 80  # longest repr of a wrong argument that a message shows


class Span(NamedTuple):
    """A stretch of one line of a text: `column` counts from 1, `length` in characters."""

    source: str
    line: int
    column: int
    length: int
    text: str  # the whole line, without its newline

    def part(self, start: int, length: int) -> Span:
        """The sub-span that begins `start` characters after this one's start."""
        return Span(self.source, self.line, self.column + start, length, self.text)

    @property
    def words(self) -> str:
        """The stretch itself."""
        return self.text[self.column - 1 : self.column - 1 + self.length]

    @property
    def place(self) -> str:
        return f"{self.source}:{self.line}:{self.column}"

    def excerpt(self, note: str = "") -> str:
        """The line with a caret under the span, cut to a window around it when it is long."""
        line = self.text.replace("\t", " ").rstrip()
        start = self.column - 1
        stripped = len(line) - len(line.lstrip())
        first = min(stripped, start)
        if len(line) - first > _WINDOW:
            first = max(first, min(start - 30, len(line) - _WINDOW))
        shown = line[first : first + _WINDOW]
        prefix = "…" if first > stripped else ""
        suffix = "…" if first + _WINDOW < len(line) else ""
        width = max(1, min(self.length, first + _WINDOW - start))
        caret = " " * (start - first + len(prefix)) + "^" * width
        return f"  {prefix}{shown}{suffix}\n  {caret}{' ' + note if note else ''}"


class Nnet3Error(Exception):
    """Base of everything this package raises for a user's mistake or for bad data."""

    option: str = ""  # the name of the option that it is about, if it is about one
    others: tuple[str, ...] = ()  # names of options that its text may have besides


class ConfigError(Nnet3Error):
    """A config text breaks a rule: `file:line:column: message`, the line, a caret and a hint."""

    def __init__(self, message: str, span: Span | None = None, hint: str = ""):
        self.message, self.span, self.hint = message, span, hint
        if span is None:
            text = f"{message} ({hint})" if hint else message
        else:
            text = f"{span.place}: {message}\n{span.excerpt(hint)}"
        super().__init__(text)


class ModelFormatError(Nnet3Error):
    """A model or data file is damaged or not what it should be: file name, place and reason."""

    def __init__(self, message: str, source: str = "", place: str = ""):
        self.message, self.source, self.place = message, source, place
        where = ": ".join(part for part in (source, place) if part)
        super().__init__(f"{where}: {message}" if where else message)


class ArgumentError(Nnet3Error, TypeError, ValueError):
    """A function was given a value of the wrong kind, or one that cannot be meant."""


class ComponentError(Nnet3Error):
    """A component was given a matrix or a value that does not fit it."""


class NetworkError(Nnet3Error):
    """A network cannot do what is asked of it (for instance it has no such node)."""


class ShapeError(NetworkError):
    """Operands do not fit the operation: the message names them, their shapes and the line that made the node."""


class GradientError(NetworkError):
    """A gradient does not exist, for instance that of a count of errors."""


class RequestError(Nnet3Error):
    """A ComputationRequest does not fit the network or is inconsistent in itself."""


class NotComputableError(RequestError):
    """Requested outputs cannot be computed from the inputs provided."""


class ComputationCheckError(Nnet3Error):
    """The checker found a command of a computation that breaks a rule; the message prints it."""


class ProofError(Nnet3Error):
    """A program does not compute what the plain one computes; the message names the pass, the output and its rows."""


class ExecutionError(Nnet3Error):
    """A computation was driven wrongly: missing input, wrong size, wrong order of calls."""


class NumericalError(ExecutionError):
    """A NaN or an infinity appeared; the message names command, node and t-range."""


class TrainingError(Nnet3Error):
    """Training cannot start or go on."""


class LostError(Nnet3Error):
    """Another process of a training run has ended, or does not answer."""


class TableError(Nnet3Error):
    """A Kaldi table (rspecifier or wspecifier) cannot be read or written."""


class DrawingError(Nnet3Error):
    """A picture cannot be made."""


class ExportError(Nnet3Error):
    """A network has no form in the format of another engine, or what was made does not agree with it."""


def check_kind(value: object, kinds: type | tuple[type, ...], what: str, expected: str, hint: str = "") -> None:
    """Raise ArgumentError unless `value` is one of `kinds`; a network or a model in the wrong place gets a hint."""
    if isinstance(value, kinds):
        return
    given = hint or (": give its .nnet" if type(value).__name__ == "AcousticModel" and "network" in expected else "")
    raise ArgumentError(f"{what} must be {expected}, got {shown(value)}{given}")


def shown(value: object) -> str:
    """Returns a value as messages quote it: its repr if that is short and can be made, else its type."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # a number of more digits than Python writes, lists nested deep
        text = " " * _WIDEST_VALUE
    kind = type(value).__name__
    return text if len(text) < _WIDEST_VALUE else f"a{'n' if kind[0] in 'aeio' else ''} {kind}"


def is_out_of_memory(error: Exception) -> bool:
    """Returns true if memory ran out: Python and NumPy say so by type, PyTorch says it in a RuntimeError's text."""
    phrases = ("can't allocate memory", "out of memory", "Storage size calculation overflowed")
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and any(phrase in str(error) for phrase in phrases)
    )
