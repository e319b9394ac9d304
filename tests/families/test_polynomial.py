"""Polynomials: sums and products for all parameters at once; nothing else is known of them."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from nnet3.engine.families.continued import NotAffineError
from nnet3.engine.families.polynomial import AffineNumbers, Polynomial

PARAMETERS = 4
SMALL = st.integers(-5, 5)
#: Functions of a list of parameters, numbers or affine ones.
TERMS = st.recursive(
    st.one_of(
        SMALL.map(lambda number: lambda _: number),
        st.integers(0, PARAMETERS - 1).map(lambda place: lambda parameters: parameters[place]),
    ),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda both: lambda parameters: both[0](parameters) + both[1](parameters)),
        st.tuples(inner, inner).map(lambda both: lambda parameters: both[0](parameters) - both[1](parameters)),
        st.tuples(SMALL, inner).map(lambda both: lambda parameters: both[0] * both[1](parameters)),
        st.tuples(SMALL, inner).map(lambda both: lambda parameters: both[1](parameters) * both[0]),
    ),
    max_leaves=8,
)


@given(st.lists(TERMS, min_size=1, max_size=5), st.lists(SMALL, min_size=PARAMETERS, max_size=PARAMETERS))
def test_sums_and_multiples_hold_for_all_parameters(terms: list[Callable[[Any], Any]], values: list[int]) -> None:
    made = [term([Polynomial(number) for number in range(PARAMETERS)]) for term in terms]
    expected = [term(values) for term in terms]
    assert AffineNumbers(made).at(np.array(values)).tolist() == expected


def test_numbers_are_equal_if_they_are_for_all_parameters() -> None:
    one, other = Polynomial(0), Polynomial(1)
    assert one + other - one == other
    assert {2 * one + 3: "known"}[one + 3 + one] == "known"
    assert one != other
    assert one != 0
    assert one - one == 0
    assert isinstance(one - one, int)


@pytest.mark.parametrize(
    "use", [int, bool, float, operator.index, lambda each: each < 3, lambda each: each // 2, lambda each: max(each, 3)]
)
def test_what_hangs_on_their_size_is_refused(use: Callable[[Any], Any]) -> None:
    with pytest.raises(NotAffineError, match="something depends on how large p7 \\+ 2 is"):
        use(Polynomial(7) + 2)


@given(st.integers(-3, 3), st.integers(-3, 3), SMALL)
def test_an_order_holds_for_all_parameters_or_is_refused(one: int, other: int, constant: int) -> None:
    number, values = Polynomial(0) * one + Polynomial(1) * other + constant, range(40)
    found = {one * first + other * second + constant >= 0 for first in values for second in values}
    if len(found) == 1:
        assert {number >= 0, not number < 0, 0 <= number, not 0 > number} == found  # noqa: SIM300
    else:
        with pytest.raises(NotAffineError):
            assert number >= 0


def test_arrays_of_integers_take_none() -> None:
    with pytest.raises(NotAffineError):
        np.array([1, Polynomial(0)], dtype=np.int64)


def test_products_of_rows_are_refused_where_rows_are_computed_by_arithmetic() -> None:
    with pytest.raises(NotAffineError, match="product of numbers of rows"):
        AffineNumbers([Polynomial(0) * Polynomial(1)])


def value(text: str, frames: int, sequences: int) -> float:
    """The value of a text: `3N T - T/2`."""
    product = re.sub(r"(?<=[\dN]) ?(?=[NT])", " * ", text)
    return eval(product, {"T": frames, "N": sequences})


@given(SMALL, SMALL, SMALL, SMALL, st.integers(1, 5), st.integers(1, 30), st.integers(1, 9))
def test_a_text_has_the_value_of_every_shape(
    a: int, b: int, c: int, d: int, by: int, frames: int, sequences: int
) -> None:
    t, n = Polynomial("T") * Fraction(1, by), Polynomial("N")
    number = a + b * t + c * n + t * (n * d)
    expected = a + Fraction(b * frames, by) + c * sequences + Fraction(d * frames * sequences, by)
    assert value(str(number), frames, sequences) == pytest.approx(float(expected)), str(number)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (Polynomial("N") * (Polynomial("T") + 2), "N * (T + 2)"),
        (Polynomial("N") * (Polynomial("T") + 2) - 1, "N T + 2N - 1"),
        (Polynomial("T") * -1 + 12, "-T + 12"),
        (Polynomial("T") * Fraction(3, 2), "3T/2"),
        ((Polynomial("T") - 17) * Fraction(1, 2) * 2 + 17, "T"),
    ],
)
def test_texts_are_short(number: Any, text: str) -> None:
    assert str(number) == text
