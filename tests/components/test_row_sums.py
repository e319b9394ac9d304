"""Sums over rows that are divided among processes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from nnet3.model.components.row_sums import (
    rows_are_divided,
    sum_and_count,
    sum_over_processes_,
    summed_by,
    take_those_of_first_,
    whole_gradient,
)


class Twins:
    """Two processes that have the same numbers."""

    rank, size = 1, 2

    def sum_(self, tensors: Sequence[Tensor]) -> None:
        for tensor in tensors:
            tensor.mul_(2)


def test_alone_nothing_changes() -> None:
    x = torch.ones(3)
    sum_over_processes_(x)
    assert x.tolist() == [1, 1, 1]
    total, count = sum_and_count(x, 7)
    assert total is x
    assert count == 7
    with whole_gradient(x) as share:
        assert share == 1.0
    assert x.tolist() == [1, 1, 1]


def test_sums_are_those_of_all_processes() -> None:
    x = torch.ones(3)
    with summed_by(Twins()):
        assert rows_are_divided()
        total, count = sum_and_count(x, 7)
        assert (total.tolist(), count, x.tolist()) == ([2, 2, 2], 14, [1, 1, 1])
        with whole_gradient(x) as share:
            assert share == 0.5
            assert not rows_are_divided()
        assert rows_are_divided()
        assert x.tolist() == [2, 2, 2]
    assert not rows_are_divided()


def test_it_ends_with_an_error_too() -> None:
    with pytest.raises(ValueError, match="x"), summed_by(Twins()):
        raise ValueError("x")
    assert not rows_are_divided()


def test_what_the_first_has_is_taken_by_all() -> None:
    x, y = torch.ones(3), torch.ones(2)
    take_those_of_first_(x, y)
    assert (x.tolist(), y.tolist()) == ([1, 1, 1], [1, 1])

    class First(Twins):
        rank = 0

        def sum_(self, tensors: Sequence[Tensor]) -> None:
            """The other one gives zeros."""

    with summed_by(First()):
        take_those_of_first_(x, y)
    assert (x.tolist(), y.tolist()) == ([1, 1, 1], [1, 1])
    with summed_by(Twins()):
        take_those_of_first_(x, y)
    assert (x.tolist(), y.tolist()) == ([0, 0, 0], [0, 0])  # what it gives to the sum
