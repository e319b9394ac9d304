"""Levels against the recursive definition, circles, and the promise of calls that do not count items."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from hypothesis import given, strategies as st

from nnet3.engine.schedule import CycleError, exact_levels
from nnet3.errors import RequestError
from tests.call_count import count_calls

Needs = list[list[int]]
Arrays = tuple[int, np.ndarray, np.ndarray]


def to_arrays(needs: Needs) -> Arrays:
    pairs = [(item, other) for item, needed in enumerate(needs) for other in needed]
    needing, needed = np.array(pairs, np.int32).reshape(-1, 2).T
    return len(needs), needing, needed


def recursive_levels(needs: Needs) -> list[int]:
    @functools.cache
    def level(item: int) -> int:
        return max((level(other) + 1 for other in needs[item]), default=0)

    return [level(item) for item in range(len(needs))]


@st.composite
def acyclic_needs(draw: st.DrawFn) -> Needs:
    """Items whose numbers are shuffled, so that they do not come in the order of work; needs may come twice."""
    num_items = draw(st.integers(1, 14))
    needs = [draw(st.lists(st.integers(0, item - 1), max_size=4)) if item else [] for item in range(num_items)]
    new = draw(st.permutations(range(num_items)))
    shuffled: Needs = [[] for _ in range(num_items)]
    for item in range(num_items):
        shuffled[new[item]] = [new[other] for other in needs[item]]
    return shuffled


@given(acyclic_needs())
def test_levels_follow_the_recursive_definition(needs: Needs) -> None:
    level = exact_levels(*to_arrays(needs))
    assert level.dtype == np.int32
    assert level.tolist() == recursive_levels(needs)


def test_no_items_have_no_levels() -> None:
    assert exact_levels(*to_arrays([])).tolist() == []


@given(acyclic_needs(), st.data())
def test_a_circle_is_reported_as_items_that_need_each_other(needs: Needs, data: st.DataObject) -> None:
    length = data.draw(st.integers(1, len(needs)))
    circle = data.draw(st.permutations(range(len(needs))))[:length]
    for item, other in zip(circle, circle[1:] + circle[:1], strict=True):
        needs[item].append(other)
    with pytest.raises(CycleError) as caught:
        exact_levels(*to_arrays(needs))
    items = caught.value.items
    assert len(set(items)) == len(items) > 0
    for item, other in zip(items, items[1:] + items[:1], strict=True):
        assert other in needs[item]


@pytest.mark.parametrize(
    ("needs", "items", "message"),
    [
        ([[0]], [0], "item 0 needs 0$"),
        ([[], [0, 2], [3], [1]], [1, 2, 3], "item 1 needs 2 needs 3 needs 1$"),
        ([[1], [2], [1]], [1, 2], "item 1 needs 2 needs 1$"),
        ([[(item + 1) % 12] for item in range(12)], list(range(12)), r"needs 9 needs \.\.\. needs 0$"),
    ],
)
def test_the_message_of_a_circle(needs: Needs, items: list[int], message: str) -> None:
    with pytest.raises(RequestError, match=message) as caught:
        exact_levels(*to_arrays(needs))
    assert isinstance(caught.value, CycleError)
    assert caught.value.items == items


def test_a_recurrence_with_a_delay_of_three_shares_levels_between_three_steps() -> None:
    needs = [[t - 3] if t >= 3 else [] for t in range(9)]
    assert exact_levels(*to_arrays(needs)).tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]


def recurrence(num_n: int, num_t: int) -> Arrays:
    """Two nodes that need each other: items (node, t, n)."""
    item = np.arange(2 * num_t * num_n).reshape(2, num_t, num_n)
    needing = np.concatenate([item[0, 1:].ravel(), item[1].ravel()])
    needed = np.concatenate([item[1, :-1].ravel(), item[0].ravel()])
    return item.size, needing, needed


def test_nodes_of_a_recurrence_take_turns() -> None:
    level = exact_levels(*recurrence(2, 5)).reshape(2, 5, 2)
    assert level[0].tolist() == [[2 * t, 2 * t] for t in range(5)]
    assert np.array_equal(level[1], level[0] + 1)


def test_the_number_of_calls_does_not_depend_on_the_number_of_sequences() -> None:
    two, two_hundred = recurrence(2, 30), recurrence(200, 30)
    assert count_calls(exact_levels, *two) == count_calls(exact_levels, *two_hundred)
