"""Polynomial: a number as a function of parameters; programs made with such numbers hold for all parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from itertools import product
from typing import Any, NoReturn

import numpy as np

from nnet3.engine.families.continued import NotAffineError

#: The parameters of a product, ascending: names, or numbers.
Monomial = tuple[Any, ...]


class Polynomial:
    """A sum of multiples of products of parameters, which have names or numbers.

    Sums and products are polynomials again; two are equal if equal for all parameters, and ordered if one order holds
    for all parameters, 0, 1, .... Nothing else is known of polynomials: comparing sizes that have no such order, or
    taking a polynomial for an integer, raises NotAffineError.

    >>> 2 * (Polynomial(3) + 4) - Polynomial(0)
    2p3 - p0 + 8
    >>> Polynomial(3) + 4 - Polynomial(3)
    4
    >>> Polynomial("N") + 2 > 1
    True
    >>> Polynomial("N") * (Polynomial("T") * Fraction(1, 2) + 3)
    N * (T/2 + 3)
    """

    __slots__ = ("terms",)

    terms: Mapping[Monomial, Any]  # the factor of each product; none is 0

    def __init__(self, parameter: int | str) -> None:
        self.terms = {(parameter,): 1}

    def __add__(self, other: Any) -> Any:
        total, more = dict(self.terms), _terms(other)
        for monomial, factor in more.items():
            total[monomial] = total.get(monomial, 0) + factor
        return _polynomial(total)

    def __mul__(self, other: Any) -> Any:
        total: dict[Monomial, Any] = {}
        for (one, factor), (two, times) in product(self.terms.items(), _terms(other).items()):
            monomial = tuple(sorted(one + two))
            total[monomial] = total.get(monomial, 0) + factor * times
        return _polynomial(total)

    def __sub__(self, other: Any) -> Any:
        return self + other * -1

    def __rsub__(self, other: Any) -> Any:
        return self * -1 + other

    def __neg__(self) -> Any:
        return self * -1

    __radd__, __rmul__ = __add__, __mul__

    def __ge__(self, other: Any) -> bool:
        return self._is_never_negative(self - other)

    def __le__(self, other: Any) -> bool:
        return self._is_never_negative(other - self)

    def __gt__(self, other: Any) -> bool:
        return not self <= other

    def __lt__(self, other: Any) -> bool:
        return not self >= other

    def _is_never_negative(self, difference: Any) -> bool:
        terms = _terms(difference)
        if all(factor >= 0 for factor in terms.values()):
            return True
        if terms.get((), 0) < 0 and all(factor <= 0 for factor in terms.values()):
            return False
        self._unknown()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Polynomial) and self.terms == other.terms

    def __hash__(self) -> int:
        return hash(frozenset(self.terms.items()))

    def __repr__(self) -> str:
        shared = set.intersection(*map(set, self.terms))
        if len(self.terms) > 1 and shared:
            name = min(shared)
            rest = {_without(monomial, name): factor for monomial, factor in self.terms.items()}
            return f"{_name(name)} * ({_text(rest)})"
        return _text(self.terms)

    def _unknown(self, *_: Any) -> NoReturn:
        raise NotAffineError(f"something depends on how large {self!r} is")

    __int__ = __index__ = __bool__ = __float__ = __floordiv__ = __mod__ = __divmod__ = _unknown


def _terms(number: Any) -> Mapping[Monomial, Any]:
    if isinstance(number, Polynomial):
        return number.terms
    return {(): number if isinstance(number, Fraction) else int(number)}


def _polynomial(terms: dict[Monomial, Any]) -> Any:
    """Returns the sum of the terms: a number if it depends on no parameter."""
    terms = {monomial: factor for monomial, factor in terms.items() if factor}
    if not terms.keys() - {()}:
        constant = terms.get((), 0)
        return int(constant) if constant == int(constant) else constant
    result = object.__new__(Polynomial)
    result.terms = terms
    return result


def _without(monomial: Monomial, parameter: Any) -> Monomial:
    position = monomial.index(parameter)
    return monomial[:position] + monomial[position + 1 :]


def _name(parameter: Any) -> str:
    return f"p{parameter}" if isinstance(parameter, int) else parameter


def _text(terms: Mapping[Monomial, Any]) -> str:
    """Formats a sum, products of most parameters first: `3N T - T/2 + 8`."""
    text = ""
    for monomial, factor in sorted(terms.items(), key=lambda term: (len(term[0]), term[0]), reverse=True):
        size, name = abs(Fraction(factor)), " ".join(map(_name, monomial))
        text += (" - " if factor < 0 else " + ") if text else "-" * (factor < 0)
        text += f"{size.numerator if size.numerator > 1 or not name else ''}{name}"
        text += f"/{size.denominator}" if size.denominator > 1 else ""
    return text


class AffineNumbers:
    """Many numbers, integers and polynomials without products of parameters, which are numbers."""

    def __init__(self, numbers: Iterable[Any]) -> None:
        """Raises NotAffineError for a product of parameters."""
        terms = [_terms(number) for number in numbers]
        self._constants = np.array([each.get((), 0) for each in terms], dtype=np.int64)
        factors = [(position, *each) for position, own in enumerate(terms) for each in own.items() if each[0]]
        if any(len(monomial) > 1 for _, monomial, _ in factors):
            raise NotAffineError("something depends on a product of numbers of rows")
        columns = [(position, monomial[0], factor) for position, monomial, factor in factors]
        self._position, self._parameter, self._factor = np.array(columns, dtype=np.int64).reshape(-1, 3).T

    def at(self, parameters: np.ndarray) -> np.ndarray:
        """Returns the numbers for given parameters, (numbers,)."""
        result = self._constants.copy()
        np.add.at(result, self._position, self._factor * parameters[self._parameter])
        return result
