"""Descriptors as values: the material of a layer's expansion; their text stands in config lines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

OPERATORS = ("Append", "Sum", "Failover", "IfDefined", "Offset", "Switch", "Scale", "Const", "Round", "ReplaceIndex")


@dataclass(frozen=True)
class Term:
    """`Operator(argument, ...)`, or a name (no operator, the name as the one argument).

    Arguments are terms, numbers and (in ReplaceIndex) the word t or x. Two terms that print differently in blanks only
    are equal.
    """

    operator: str
    arguments: tuple[Term | int | float | str, ...]
    tight: bool = field(default=False, compare=False)  # printed without a blank after its commas

    @property
    def is_name(self) -> bool:
        return not self.operator

    @property
    def name(self) -> str:
        """The name in a term; an assertion fails unless the term is a name."""
        assert self.is_name
        return str(self.arguments[0])

    def names(self) -> list[str]:
        """Returns all names in the term, in order, repeated names too."""
        if self.is_name:
            return [self.name]
        return [name for argument in self.arguments if isinstance(argument, Term) for name in argument.names()]

    def substitute(self, terms: Mapping[str, Term]) -> Term:
        """Returns the term with names replaced by terms; names that `terms` lacks stay."""
        if self.is_name:
            return terms.get(self.name, self)
        arguments = (a.substitute(terms) if isinstance(a, Term) else a for a in self.arguments)
        return Term(self.operator, tuple(arguments), self.tight)

    def __str__(self) -> str:
        if self.is_name:
            return self.name
        return f"{self.operator}({(',' if self.tight else ', ').join(str(a) for a in self.arguments)})"


def name(word: str) -> Term:
    """Returns a node or a layer by its name."""
    return Term("", (word,))


def append(*terms: Term) -> Term:
    """Returns the columns of all terms side by side."""
    return Term("Append", terms)


def add(*terms: Term) -> Term:
    """Returns the sum of all terms."""
    return Term("Sum", terms)


def offset(term: Term, time: int, *, tight: bool = False) -> Term:
    """Returns the value `time` frames later."""
    return Term("Offset", (term, time), tight)


def scale(factor: float, term: Term, *, tight: bool = False) -> Term:
    """Returns the value times a factor."""
    return Term("Scale", (float(factor), term), tight)


def const(value: float, dim: int) -> Term:
    """Returns a number in all `dim` columns."""
    return Term("Const", (float(value), dim))


def if_defined(term: Term) -> Term:
    """Returns the value, or zeros where not computable."""
    return Term("IfDefined", (term,))


def rounded(term: Term, period: int) -> Term:
    """Returns the value at the last multiple of `period`."""
    return Term("Round", (term, period))
