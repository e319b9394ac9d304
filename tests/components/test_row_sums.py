"""Sums over rows that are divided among processes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from nnet3.model.components.row_sums import (
    rows_are_divided,
    settle_sums,
    sum_and_count,
    sum_later_,
    sum_over_processes_,
    summed_by,
    take_those_of_first_later_,
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


class Counting(Twins):
    """Remembers how many tensors were summed by each call."""

    def __init__(self, rank: int = 1) -> None:
        self.rank, self.calls = rank, list[int]()

    def sum_(self, tensors: Sequence[Tensor]) -> None:
        self.calls.append(len(tensors))
        super().sum_(tensors)


def test_alone_nothing_waits() -> None:
    found = list[str]()
    sum_later_([torch.ones(1)], lambda: found.append("now"))
    settle_sums()
    assert found == ["now"]


def test_sums_wait_for_one_another() -> None:
    """What comes after a sum may ask for another one: these wait for one another too."""
    group, found = Counting(), list[float]()
    x, y, second = torch.ones(2), torch.ones(3), torch.ones(1)
    with summed_by(group):
        sum_later_([x], lambda: sum_later_([second], lambda: found.append(float(second))))
        sum_later_([y, y.clone()], lambda: found.append(float(y[0])))
        assert (group.calls, found) == ([], [])
    assert group.calls == [3, 1]
    assert found == [2, 2]


def test_waiting_sums_are_settled_when_asked_for_and_when_they_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nnet3.model.components.row_sums._MOST_BYTES_WAITING", 30)
    group, found = Counting(), list[int]()
    with summed_by(group):
        sum_later_([torch.ones(1)], lambda: found.append(1))
        settle_sums()
        assert found == [1]
        sum_later_([torch.ones(4)], lambda: found.append(2))
        assert found == [1]
        sum_later_([torch.ones(4)], lambda: found.append(3))
        assert found == [1, 2, 3]
    assert group.calls == [1, 2]


def test_what_waits_is_forgotten_after_an_error() -> None:
    group, found = Counting(), list[int]()

    def fail() -> None:
        with summed_by(group):
            sum_later_([torch.ones(1)], lambda: found.append(1))
            raise ValueError("x")

    with pytest.raises(ValueError, match="x"):
        fail()
    assert (group.calls, found) == ([], [])


@pytest.mark.parametrize("rank", [0, 1])
def test_what_the_first_has_is_taken_by_all(rank: int) -> None:
    """The others add zeros to it."""
    x, y, found = torch.ones(3), torch.ones(2), list[str]()
    take_those_of_first_later_((x, y), lambda: found.append("alone"))
    assert (x.tolist(), y.tolist()) == ([1, 1, 1], [1, 1])
    with summed_by(Counting(rank)):
        take_those_of_first_later_((x, y), lambda: found.append("later"))
        assert found == ["alone"]
    assert found == ["alone", "later"]
    assert x.tolist() == ([0, 0, 0] if rank else [2, 2, 2])
