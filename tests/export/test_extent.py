from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from nnet3.errors import ExportError
from nnet3.export.extent import Extent, Growing, extent

numbers = st.builds(extent, st.integers(-9, 9), st.integers(-2, 3))


def _at(number: Extent, k: int) -> int:
    return number.base + k * number.slope if isinstance(number, Growing) else number


@given(numbers, numbers, st.integers(0, 5))
def test_arithmetic_is_that_of_the_numbers_for_each_length(one: Extent, other: Extent, k: int) -> None:
    assert _at(one + other, k) == _at(one, k) + _at(other, k)
    assert _at(one - other, k) == _at(one, k) - _at(other, k)
    assert _at(3 * one, k) == 3 * _at(one, k)
    assert (one == other) == all(_at(one, k) == _at(other, k) for k in range(2))


@given(numbers, numbers)
def test_an_order_holds_for_all_lengths_or_is_refused(one: Extent, other: Extent) -> None:
    orders = {_at(one, k) <= _at(other, k) for k in range(40)}
    if len(orders) == 1 and one != other:
        assert (one <= other) in orders
        assert (other < one) == (not one <= other)
    elif one != other:
        with pytest.raises(ExportError):
            assert one <= other


def test_what_depends_on_the_length_has_no_order() -> None:
    with pytest.raises(ExportError, match="the order of rows depends on the length of the utterance"):
        assert extent(0, 1) <= 5
