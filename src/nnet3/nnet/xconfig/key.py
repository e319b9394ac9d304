"""What a layer can be given: keys with type, default, rule and a sentence of meaning."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nnet3.text import read_number

Value = int | float | bool | str
_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?(inf|infinity|nan)", re.IGNORECASE)
_BOOLEANS = {"true": True, "True": True, "false": False, "False": False}
_MOST_DIGITS = 10
_KINDS = {bool: "true or false", int: "an integer", float: "a number", str: "text"}


@dataclass(frozen=True)
class Rule:
    """What values a key may have, in words ("> 0") and as a test."""

    words: str
    holds: Callable[[Any], bool]


def above(bound: float) -> Rule:
    return Rule(f"> {bound:g}", lambda value: value > bound)


def at_least(bound: float) -> Rule:
    return Rule(f">= {bound:g}", lambda value: value >= bound)


def within(low: float, high: float) -> Rule:
    return Rule(f"within [{low:g}, {high:g}]", lambda value: low <= value <= high)


def between(low: float, high: float) -> Rule:
    return Rule(f"> {low:g} and < {high:g}", lambda value: low < value < high)


def one_of(*words: str) -> Rule:
    return Rule("one of " + ", ".join(words), lambda value: value in words)


def nonzero() -> Rule:
    return Rule("not 0", lambda value: value != 0)


def either(special: float, rule: Rule) -> Rule:
    """A value that stands for "none", or what another rule says."""
    return Rule(f"{special:g} (none) or {rule.words}", lambda value: value == special or rule.holds(value))


@dataclass(frozen=True)
class Key:
    """A key of a layer type. The type of its default is the type of its values; "" stands for text."""

    name: str
    default: Value
    meaning: str
    rule: Rule | None = None
    absent: str = ""  # in words: what is used instead of the default
    is_options: bool = False  # text that holds key=value pairs for a component

    @property
    def kind(self) -> str:
        """The type of its values in words."""
        return "key=value pairs" if self.is_options else _KINDS[type(self.default)]

    @property
    def required(self) -> bool:
        """Whether the default breaks the rule, so that a value must be given."""
        return self.rule is not None and not self.rule.holds(self.default)

    def read(self, text: str) -> Value:
        """The value that a text is. Raises ValueError with what was expected."""
        if isinstance(self.default, str):
            return text
        if isinstance(self.default, bool):
            if text not in _BOOLEANS:
                raise ValueError("true or false")
            return _BOOLEANS[text]
        if isinstance(self.default, int):
            if not _INTEGER.fullmatch(text) or len(text.lstrip("+-0")) > _MOST_DIGITS or abs(int(text)) >= 2**31:
                raise ValueError("an integer that fits 32 bits")
            return int(text)
        if not _NUMBER.fullmatch(text):
            raise ValueError("a number")
        return read_number(text)


def passed(name: str, meaning: str) -> Key:
    """A key that is printed to a component as it is, and not if it is not given."""
    return Key(name, "", meaning)


def options(name: str, meaning: str, default: str = "") -> Key:
    """A key whose text is further keys of a component."""
    return Key(name, default, meaning, is_options=True)
