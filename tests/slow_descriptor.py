"""Descriptors row by row, straight from the expression as it was written: an oracle for the vectorised normal form.

An expression is evaluated at one index (n, t, x) at a time. `Append` is taken out first, term by term (config.md,
section 5, step 1); everything else follows the tables of section 6.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from nnet3.model.structure.expression import Expression

Index = tuple[int, int, int]  # n, t, x
Cindex = tuple[str, Index]
Available = Callable[[Cindex], bool]


def num_terms(expression: Expression) -> int:
    if expression.kind == "Append":
        return sum(num_terms(argument) for argument in expression.arguments)
    return num_terms(expression.arguments[0]) if expression.arguments else 1


def term(expression: Expression, number: int) -> Expression:
    """The expression with each Append replaced by its term `number`."""
    if expression.kind == "Append":
        for argument in expression.arguments:
            if number < num_terms(argument):
                return term(argument, number)
            number -= num_terms(argument)
    arguments = tuple(term(argument, number) for argument in expression.arguments)
    return Expression(expression.kind, expression.span, arguments, expression.numbers, expression.word)


def terms(expression: Expression) -> list[Expression]:
    return [term(expression, number) for number in range(num_terms(expression))]


def step(expression: Expression, index: Index) -> tuple[list[Expression], Index]:
    """The arguments that matter at this index, and the index at which they do."""
    n, t, x = index
    arguments = list(expression.arguments)
    if expression.kind == "Offset":
        return arguments, (n, t + int(expression.numbers[0]), x + int(expression.numbers[1]))
    if expression.kind == "Round":
        return arguments, (n, t - t % int(expression.numbers[0]), x)
    if expression.kind == "ReplaceIndex":
        value = int(expression.numbers[0])
        return arguments, (n, value, x) if expression.word == "t" else (n, t, value)
    if expression.kind == "Switch":
        return [arguments[t % len(arguments)]], index
    return arguments, index


def wanted(expression: Expression, index: Index) -> set[Cindex]:
    """All that the expression may look at."""
    if expression.kind == "node":
        return {(expression.word, index)}
    arguments, at = step(expression, index)
    return set().union(*(wanted(argument, at) for argument in arguments))


def used(expression: Expression, index: Index, available: Available) -> set[Cindex] | None:
    """What the expression looks at, given what is available; None if it is not computable."""
    if expression.kind == "Append":
        parts = [used(part, index, available) for part in terms(expression)]
        return None if None in parts else set().union(*(part for part in parts if part is not None))
    if num_terms(expression) > 1:
        return used(Expression("Append", expression.span, tuple(terms(expression))), index, available)
    if expression.kind == "node":
        return {(expression.word, index)} if available((expression.word, index)) else None
    arguments, at = step(expression, index)
    found = [used(argument, at, available) for argument in arguments]
    if expression.kind == "IfDefined":
        return found[0] or set()
    if expression.kind == "Failover":
        return found[1] if found[0] is None else found[0]
    return None if None in found else set().union(*(part for part in found if part is not None))


@dataclass(frozen=True)
class Values:
    """The rows of all nodes: which there are, what they hold, and how wide they are."""

    available: Available
    row: Callable[[Cindex], np.ndarray]
    dim: Callable[[str], int]


def value(expression: Expression, index: Index, values: Values) -> np.ndarray | None:
    """The row of the expression at an index; None if it is not computable."""
    parts = [_term_value(part, index, values) for part in terms(expression)]
    found = [part for part in parts if part is not None]
    return np.concatenate(found) if len(found) == len(parts) else None


def _term_value(expression: Expression, index: Index, values: Values) -> np.ndarray | None:
    if expression.kind == "node":
        cindex = (expression.word, index)
        return values.row(cindex) if values.available(cindex) else None
    if expression.kind == "Const":
        return np.full(int(expression.numbers[1]), expression.numbers[0])
    arguments, at = step(expression, index)
    if expression.kind == "Failover":  # what is not used need not be computed
        first = _term_value(arguments[0], at, values)
        return _term_value(arguments[1], at, values) if first is None else first
    found = [_term_value(argument, at, values) for argument in arguments]
    if expression.kind == "IfDefined" and found[0] is None:
        return np.zeros(_term_dim(expression, values))
    present = [each for each in found if each is not None]
    if len(present) < len(found):
        return None
    total = np.sum(present, axis=0)
    return total * expression.numbers[0] if expression.kind == "Scale" else total


def _term_dim(expression: Expression, values: Values) -> int:
    if expression.kind == "node":
        return values.dim(expression.word)
    if expression.kind == "Const":
        return int(expression.numbers[1])
    return _term_dim(expression.arguments[0], values)
