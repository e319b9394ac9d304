"""Affine numbers: sums and multiples for all parameters at once; nothing else is known of them."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from nnet3.families.continued import NotAffineError
from nnet3.runtime.affine import Affine, AffineNumbers

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
    made = [term([Affine(number) for number in range(PARAMETERS)]) for term in terms]
    expected = [term(values) for term in terms]
    assert AffineNumbers(made).at(np.array(values)).tolist() == expected


def test_numbers_are_equal_if_they_are_for_all_parameters() -> None:
    one, other = Affine(0), Affine(1)
    assert one + other - one == other
    assert {2 * one + 3: "known"}[one + 3 + one] == "known"
    assert one != other
    assert one != 0
    assert one - one == 0
    assert isinstance(one - one, int)


@pytest.mark.parametrize(
    "use", [int, bool, float, operator.index, lambda each: each < 3, lambda each: each // 2, lambda each: max(each, 1)]
)
def test_what_hangs_on_their_size_is_refused(use: Callable[[Any], Any]) -> None:
    with pytest.raises(NotAffineError, match="something depends on how large 2 \\+ p7 is"):
        use(Affine(7) + 2)


def test_arrays_of_integers_take_none() -> None:
    with pytest.raises(NotAffineError):
        np.array([1, Affine(0)], dtype=np.int64)
