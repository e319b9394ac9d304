"""Declared: a named value, said once; options, keys of layers and fields of components are such."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from nnet3.base.text.values import Value

REQUIRED: Any = object()
"""The default of a value that must be given."""


@dataclass(frozen=True)
class Declared:
    """A value's name, kind with rule, default and help.

    The name is that of Python; where it has another spelling, as in a file, the user of the declaration knows it. A
    default that breaks the rule stands for none: the value must be given.
    """

    name: str
    kind: Value
    default: Any = field(default=REQUIRED, kw_only=True)
    help: str = field(default="", kw_only=True)

    @property
    def required(self) -> bool:
        """True if a value must be given."""
        return self.default is REQUIRED or not self.kind.rule.holds(self.default)

    def fault(self, value: Any) -> str:
        """Returns the rule that a value of the kind breaks, such as "must be > 0"; "" if it breaks none."""
        return "" if self.kind.rule.holds(value) else f"must be {self.kind.rule.words}"
