"""Keys of layer types: type, default, rule and a sentence of meaning."""

from __future__ import annotations

from dataclasses import dataclass

from nnet3.text import values
from nnet3.text.values import Rule

Value = int | float | bool | str
_KINDS: dict[type, values.Value] = {
    bool: values.Boolean(by_first_letter=False),
    int: values.Integer(),
    float: values.Number(finite=False),
    str: values.Text(),
}


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
        return "key=value pairs" if self.is_options else _KINDS[type(self.default)].kind

    @property
    def required(self) -> bool:
        """True if a value must be given, since the default breaks the rule."""
        return self.rule is not None and not self.rule.holds(self.default)

    def read(self, text: str) -> Value:
        """The value that a text is. Raises ValueError with what was expected."""
        value: Value = _KINDS[type(self.default)].read(text)
        return value


def passed(name: str, meaning: str) -> Key:
    """A key that is printed to a component as it is, and not if it is not given."""
    return Key(name, "", meaning)


def options(name: str, meaning: str, default: str = "") -> Key:
    """A key whose text is further keys of a component."""
    return Key(name, default, meaning, is_options=True)
