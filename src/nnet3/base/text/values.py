"""Kinds of values and rules for values: options, config keys and settings declare their values by them.

A kind reads text, and checks values from Python or a settings file. A rule is a bound on values, in words
and as a test. `Integer(at_least(1))` is "an integer >= 1".
"""

from __future__ import annotations

import abc
import math
import numbers
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

_INTEGER = re.compile(r"[+-]?[0-9]+")
_MOST_DIGITS = 19  # of 64 bits; Python takes long over texts of a million digits
_BITS = 32
_MOST_FLOAT32 = (2 - 2**-23) * 2.0**127
_BOOLEANS = {"t": True, "T": True, "f": False, "F": False}


@dataclass(frozen=True)
class Rule:
    """A bound of values. `words`: end of a message, after "must be"; `minimum`, `maximum`: allowed bounds, if any."""

    words: str
    holds: Callable[[Any], bool]
    minimum: float | None = None
    maximum: float | None = None


def bounds(
    *,
    minimum: float | None = None,
    above: float | None = None,
    maximum: float | None = None,
    below: float | None = None,
) -> Rule:
    """Returns the rule of such bounds as are given. NaN keeps none."""
    if minimum is not None and maximum is not None:
        words = f"within [{_shown(minimum)}, {_shown(maximum)}]"
    else:
        signs = ((">=", minimum), (">", above), ("<=", maximum), ("<", below))
        words = " and ".join(f"{sign} {_shown(bound)}" for sign, bound in signs if bound is not None)

    def holds(value: Any) -> bool:
        return (
            (minimum is None or value >= minimum)
            and (above is None or value > above)
            and (maximum is None or value <= maximum)
            and (below is None or value < below)
        )

    return Rule(words, holds, minimum, maximum)


def _shown(bound: float) -> str:
    return str(int(bound)) if bound == int(bound) else f"{bound:g}"


def at_least(bound: float) -> Rule:
    return bounds(minimum=bound)


def above(bound: float) -> Rule:
    return bounds(above=bound)


def within(low: float, high: float) -> Rule:
    return bounds(minimum=low, maximum=high)


def between(low: float, high: float) -> Rule:
    return bounds(above=low, below=high)


def nonzero() -> Rule:
    return Rule("not 0", lambda value: value != 0)


def one_of(*words: str) -> Rule:
    return Rule("one of " + ", ".join(words), lambda value: value in words)


def either(special: float, rule: Rule) -> Rule:
    """Returns a value that stands for "none", or a value by another rule."""
    return Rule(f"{special:g} (none) or {rule.words}", lambda value: value == special or rule.holds(value))


ANY = bounds()


@dataclass(frozen=True)
class Value(abc.ABC):
    """A kind of values with a rule."""

    kind: ClassVar[str]
    rule: Rule = ANY

    @property
    def expected(self) -> str:
        """The requirement in words, such as "an integer >= 1"."""
        return f"{self.kind} {self.rule.words}".rstrip()

    @abc.abstractmethod
    def read(self, text: str) -> Any:
        """Returns the value of a text, rule or not. Raises ValueError with the requirement on a text."""

    @abc.abstractmethod
    def take(self, value: Any) -> Any:
        """Returns the value of a Python object, rule or not. Raises ValueError with the requirement."""

    def checked(self, value: Any) -> Any:
        """Returns the value of a Python object. Raises ValueError with the requirement."""
        taken = self.take(value)
        if not self.rule.holds(taken):
            raise ValueError(self.rule.words)
        return taken


@dataclass(frozen=True)
class Integer(Value):
    """An integer of 32 bits, or of another number of them."""

    kind: ClassVar[str] = "an integer"
    bits: int = _BITS

    def read(self, text: str) -> int:
        if not _INTEGER.fullmatch(text.strip()):
            raise ValueError(self.kind)
        return self._fitting(int(text) if len(text.strip().lstrip("+-0")) <= _MOST_DIGITS else 2**self.bits)

    def take(self, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, numbers.Integral):
            raise ValueError(self.kind)
        return self._fitting(int(value))

    def _fitting(self, value: int) -> int:
        if not -(2 ** (self.bits - 1)) <= value < 2 ** (self.bits - 1):
            raise ValueError(f"{self.kind} that fits {self.bits} bits")
        return value


@dataclass(frozen=True)
class Number(Value):
    """A number, which is finite, also as float32, unless `finite` is false."""

    kind: ClassVar[str] = "a number"
    finite: bool = True

    def read(self, text: str) -> float:
        try:
            value = read_number(text)
        except ValueError:
            raise ValueError(self.kind) from None
        return self._finite(value)

    def take(self, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            raise ValueError(self.kind)
        try:
            return self._finite(float(value))
        except OverflowError:
            raise ValueError("a finite number") from None

    def _finite(self, value: float) -> float:
        if self.finite and not math.isfinite(value):
            raise ValueError("a finite number")
        if self.finite and abs(value) > _MOST_FLOAT32:
            raise ValueError(f"a number of float32, at most {_MOST_FLOAT32:.3g}")
        return value


@dataclass(frozen=True)
class Boolean(Value):
    """True or false. Of text the first letter counts, as in Kaldi's config lines, or all of it, as in its xconfigs."""

    kind: ClassVar[str] = "true or false"
    by_first_letter: bool = True

    def read(self, text: str) -> bool:
        if text[:1] not in _BOOLEANS or (not self.by_first_letter and text not in ("true", "True", "false", "False")):
            raise ValueError(self.kind)
        return _BOOLEANS[text[:1]]

    def take(self, value: Any) -> bool:
        if not isinstance(value, bool):
            raise ValueError(self.kind)
        return value


@dataclass(frozen=True)
class _OfText(Value):
    """Base of kinds of text described by `description`; `parse`, if given, reads the text."""

    description: str = ""
    parse: Callable[[str], object] | None = None

    @property
    def expected(self) -> str:
        return self.description or super().expected


@dataclass(frozen=True)
class Text(_OfText):
    """Text; the errors of `parse` explain faults in the text."""

    kind: ClassVar[str] = "text"

    def read(self, text: str) -> str:
        if self.parse is not None:
            self.parse(text)
        return text

    def take(self, value: Any) -> str:
        if self.parse is not None and isinstance(value, numbers.Real) and not isinstance(value, bool):
            value = str(value)  # a rule of minibatch sizes may be 64
        if not isinstance(value, str):
            raise ValueError(self.expected)
        return self.read(value)


@dataclass(frozen=True)
class Texts(_OfText):
    """A tuple of texts that are not empty; a single text stands for a tuple of it alone."""

    kind: ClassVar[str] = "text or a list of texts"

    def read(self, text: str) -> tuple[str, ...]:
        return self.take(text)

    def take(self, value: Any) -> tuple[str, ...]:
        values = [value] if isinstance(value, str) else value
        if not isinstance(values, Sequence) or not all(isinstance(item, str) and item for item in values):
            raise ValueError(self.expected)
        if self.parse is not None:
            for item in values:
                self.parse(item)
        return tuple(values)


@dataclass(frozen=True)
class Numbers(Value):
    """A tuple of numbers within the rule; in text commas stand between the numbers."""

    kind: ClassVar[str] = "a list of numbers"

    def read(self, text: str) -> tuple[float, ...]:
        return tuple(Number().read(piece) for piece in text.split(","))

    def take(self, value: Any) -> tuple[float, ...]:
        if isinstance(value, str | bytes) or not isinstance(value, Sequence):
            raise ValueError(self.kind)
        return tuple(Number().take(item) for item in value)

    def checked(self, value: Any) -> tuple[float, ...]:
        return tuple(Number(self.rule).checked(item) for item in self.take(value))


@dataclass(frozen=True)
class Integers(Value):
    """A tuple of integers of 32 bits; in text any of the `separators` stand between them, and perhaps nothing else."""

    kind: ClassVar[str] = "a list of integers"
    separators: str = ","
    with_gaps: bool = False

    def read(self, text: str) -> tuple[int, ...]:
        pieces = re.split(f"[{re.escape(self.separators)}]", text)
        return self.take([self._number(piece) for piece in pieces if piece.strip() or not self.with_gaps])

    def take(self, value: Any) -> tuple[int, ...]:
        values = [value] if isinstance(value, numbers.Integral) else value
        if isinstance(values, str | bytes) or not isinstance(values, Sequence):
            raise ValueError(self.kind)
        return tuple(_INTEGER_OF_32_BITS.take(item) for item in values)

    def _number(self, piece: str) -> int:
        try:
            return _INTEGER_OF_32_BITS.read(piece)
        except ValueError as error:
            raise ValueError(str(error).replace(Integer.kind, self.kind).replace("fits", "fit")) from None


_INTEGER_OF_32_BITS = Integer()


def choice(*words: str) -> Text:
    """Returns the kind of texts that are one of the given words."""
    rule = one_of(*words)
    return Text(rule, description=rule.words)


def whole_number(text: str | bytes) -> int | None:
    """Returns the number in decimal digits, None for any other text and for more than 18 digits."""
    return int(text) if text.isdigit() and text.isascii() and len(text) < _MOST_DIGITS else None


def read_number(text: str) -> float:
    """Returns the number, infinity or NaN in a text as a whole. Raises ValueError, also for Python's `1_000`."""
    if "_" in text or not text.isascii():
        raise ValueError(f"not a number: '{text}'")
    return float(text)
