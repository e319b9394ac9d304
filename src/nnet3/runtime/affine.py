"""Affine: a number as a function of parameters; what is planned with such numbers holds for all parameters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

import numpy as np

from nnet3.families.continued import NotAffineError


class Affine:
    """A constant plus multiples of parameters, which have numbers.

    Sums, and products with integers, are of this kind again; two are equal if they are for all parameters. Nothing else
    is known of them: to compare their sizes, or to take one for an integer, raises NotAffineError.

    >>> 2 * (Affine(3) + 4) - Affine(0)
    8 - p0 + 2 p3
    >>> Affine(3) + 4 - Affine(3)
    4
    """

    __slots__ = ("_constant", "_factors")

    def __init__(self, parameter: int) -> None:
        self._constant, self._factors = 0, {parameter: 1}

    @property
    def parts(self) -> tuple[int, dict[int, int]]:
        """The constant, and the factors by parameter."""
        return self._constant, self._factors

    def __add__(self, other: Any) -> Any:
        constant, factors = other.parts if isinstance(other, Affine) else (int(other), {})
        total = {each: self._factors.get(each, 0) + factors.get(each, 0) for each in (self._factors | factors)}
        return _affine(self._constant + constant, {each: factor for each, factor in total.items() if factor})

    def __mul__(self, number: int) -> Any:
        scaled = {each: int(number) * factor for each, factor in self._factors.items() if number}
        return _affine(int(number) * self._constant, scaled)

    def __sub__(self, other: Any) -> Any:
        return self + other * -1

    def __rsub__(self, other: Any) -> Any:
        return self * -1 + other

    __radd__, __rmul__ = __add__, __mul__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Affine) and self.parts == other.parts

    def __hash__(self) -> int:
        return hash((self._constant, *sorted(self._factors.items())))

    def __repr__(self) -> str:
        text = str(self._constant) if self._constant else ""
        for parameter, factor in sorted(self._factors.items()):
            sign = (" - " if factor < 0 else " + ") if text else "-" * (factor < 0)
            text += sign + f"{abs(factor)} " * (abs(factor) != 1) + f"p{parameter}"
        return text

    def _unknown(self, *_: Any) -> NoReturn:
        raise NotAffineError(f"something depends on how large {self!r} is")

    __int__ = __index__ = __bool__ = __float__ = __lt__ = __le__ = __gt__ = __ge__ = _unknown
    __floordiv__ = __mod__ = __divmod__ = __neg__ = _unknown


def _affine(constant: int, factors: dict[int, int]) -> Affine | int:
    if not factors:
        return constant
    result = object.__new__(Affine)
    result._constant, result._factors = constant, factors
    return result


class AffineNumbers:
    """Many numbers, integers and affine ones."""

    def __init__(self, numbers: Iterable[Any]) -> None:
        parts = [each.parts if isinstance(each, Affine) else (int(each), {}) for each in numbers]
        self._constants = np.array([constant for constant, _ in parts], dtype=np.int64)
        terms = [(place, *term) for place, (_, factors) in enumerate(parts) for term in factors.items()]
        self._place, self._parameter, self._factor = np.array(terms, dtype=np.int64).reshape(-1, 3).T

    def at(self, parameters: np.ndarray) -> np.ndarray:
        """Returns the numbers for these parameters, (numbers,)."""
        result = self._constants.copy()
        np.add.at(result, self._place, self._factor * parameters[self._parameter])
        return result
