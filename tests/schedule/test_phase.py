"""Phases against the recursive definition, circles, and the promise of calls that do not count items."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from call_count import count_calls
from nnet3.errors import RequestError
from nnet3.schedule import CycleError, phases

Needs = list[list[int]]


def to_arrays(needs: Needs) -> tuple[np.ndarray, np.ndarray]:
    indptr = np.cumsum([0] + [len(needed) for needed in needs])
    return indptr, np.array([item for needed in needs for item in needed], dtype=np.int32)


def recursive_phases(needs: Needs, epoch: list[int]) -> list[int]:
    @functools.cache
    def level(item: int) -> int:
        return max((level(other) + 1 for other in needs[item] if epoch[other] == epoch[item]), default=0)

    pairs = [(epoch[item], level(item)) for item in range(len(needs))]
    return [sorted(set(pairs)).index(pair) for pair in pairs]


@st.composite
def acyclic_needs(draw: st.DrawFn) -> tuple[Needs, list[int]]:
    """Items whose numbers are shuffled, so that they do not come in the order of work."""
    num_items = draw(st.integers(1, 14))
    epoch = sorted(draw(st.lists(st.integers(0, 4), min_size=num_items, max_size=num_items)))
    needs = [draw(st.lists(st.integers(0, item - 1), max_size=4)) if item else [] for item in range(num_items)]
    new = draw(st.permutations(range(num_items)))
    shuffled: Needs = [[] for _ in range(num_items)]
    shuffled_epoch = [0] * num_items
    for item in range(num_items):
        shuffled[new[item]] = [new[other] for other in needs[item]]
        shuffled_epoch[new[item]] = epoch[item]
    return shuffled, shuffled_epoch


@given(acyclic_needs())
def test_phases_follow_the_recursive_definition(case: tuple[Needs, list[int]]) -> None:
    needs, epoch = case
    phase = phases(*to_arrays(needs), np.array(epoch, dtype=np.int32))
    assert phase.dtype == np.int32
    assert phase.tolist() == recursive_phases(needs, epoch)
    for item, needed in enumerate(needs):
        assert all(phase[other] < phase[item] for other in needed)


def test_no_items_have_no_phases() -> None:
    assert phases(*to_arrays([]), np.zeros(0, dtype=np.int32)).tolist() == []


@given(acyclic_needs(), st.data())
def test_a_circle_is_reported_as_items_that_need_each_other(case: tuple[Needs, list[int]], data: st.DataObject) -> None:
    needs, _ = case
    length = data.draw(st.integers(1, len(needs)))
    circle = data.draw(st.permutations(range(len(needs))))[:length]
    for item, other in zip(circle, circle[1:] + circle[:1], strict=True):
        needs[item].append(other)
    with pytest.raises(CycleError) as caught:
        phases(*to_arrays(needs), np.zeros(len(needs), dtype=np.int32))
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
        phases(*to_arrays(needs), np.zeros(len(needs), dtype=np.int32))
    assert isinstance(caught.value, CycleError)
    assert caught.value.items == items


def test_an_item_that_needs_a_later_epoch_is_our_own_bug() -> None:
    with pytest.raises(AssertionError, match="later epoch"):
        phases(*to_arrays([[1], []]), np.array([0, 1]))


def test_a_recurrence_with_a_delay_of_three_shares_phases_between_three_steps() -> None:
    needs = [[t - 3] if t >= 3 else [] for t in range(9)]
    assert phases(*to_arrays(needs), np.zeros(9, dtype=np.int32)).tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]


def recurrent_layer(num_n: int, num_t: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A recurrence under a feedforward layer: items (layer, t, n); layer 1 at t needs layer 0 at t - 1, t and t + 1."""
    item = np.arange(2 * num_t * num_n).reshape(2, num_t, num_n)
    needing = [item[0, 1:], item[1], item[1, 1:], item[1, :-1]]
    needed = [item[0, :-1], item[0], item[0, :-1], item[0, 1:]]
    needing_flat = np.concatenate([part.ravel() for part in needing])
    needed_flat = np.concatenate([part.ravel() for part in needed])
    order = np.argsort(needing_flat, kind="stable")
    indptr = np.concatenate([[0], np.cumsum(np.bincount(needing_flat, minlength=item.size))])
    return indptr, needed_flat[order], np.repeat([0, 1], num_t * num_n)


def test_a_layer_above_a_recurrence_is_one_phase() -> None:
    phase = phases(*recurrent_layer(2, 5)).reshape(2, 5, 2)
    assert phase[0].tolist() == [[t, t] for t in range(5)]
    assert np.all(phase[1] == 5)


def test_the_number_of_calls_does_not_depend_on_the_number_of_sequences() -> None:
    two, two_hundred = recurrent_layer(2, 30), recurrent_layer(200, 30)
    assert count_calls(phases, *two) == count_calls(phases, *two_hundred)
