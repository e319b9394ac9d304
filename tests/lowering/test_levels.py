"""Levels that are continued by arithmetic against those that are followed to their end."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from nnet3.base.index import NO_TIME, as_index_table
from nnet3.engine.lowering import levels
from nnet3.engine.lowering.graph import NO_ITEM
from nnet3.engine.lowering.levels import NotInBlocks, _follow, _follow_in_pairs, levels_of
from nnet3.engine.schedule import CycleError, exact_levels
from tests.effort import draws


def exact(needs: np.ndarray) -> np.ndarray:
    user, slot = np.nonzero(needs < len(needs))
    return exact_levels(len(needs), user, needs[user, slot])


class Recurrence:
    """Nodes over times 0 .. length - 1: `looks[node]` are (node, distance); items lie node by node, in time."""

    def __init__(self, looks: list[list[tuple[int, int]]], length: int):
        num_items = len(looks) * length
        width = max(1, *(len(each) for each in looks))
        self.needs = np.full((num_items, width), num_items, np.int64)
        self.groups = [node * length + np.arange(length) for node in range(len(looks))]
        times = np.arange(length)
        for node, each in enumerate(looks):
            for slot, (other, distance) in enumerate(each):
                seen = times + distance
                inside = (seen >= 0) & (seen < length)
                self.needs[self.groups[node][inside], slot] = other * length + seen[inside]

    def drop(self, items: np.ndarray) -> None:
        """What these items need, they do not need any more."""
        self.needs[items] = len(self.needs)


@st.composite
def recurrences(draw: st.DrawFn) -> Recurrence:
    """Several delays, forward or backward; within a time step nodes look at earlier nodes only."""
    num_nodes, direction = draw(st.integers(1, 5)), draw(st.sampled_from([-1, 1]))
    looks: list[list[tuple[int, int]]] = []
    for node in range(num_nodes):
        past = st.tuples(st.integers(0, num_nodes - 1), st.integers(1, 7).map(lambda lag: direction * lag))
        same = st.tuples(st.integers(0, max(node - 1, 0)), st.just(0))
        looks.append(draw(st.lists(past if node == 0 else past | same, max_size=3)))
    return Recurrence(looks, draw(st.integers(1, 400)))


@settings(max_examples=draws(50))
@given(recurrences())
def test_levels_of_regular_recurrences_are_exact(recurrence: Recurrence) -> None:
    assert np.array_equal(levels_of(recurrence.needs, recurrence.groups), exact(recurrence.needs))


@settings(max_examples=draws(150))
@given(recurrences(), st.data())
def test_recurrences_with_holes(recurrence: Recurrence, data: st.DataObject) -> None:
    """Some items need nothing, as where an input begins or a gap in it ends."""
    items = data.draw(st.lists(st.integers(0, len(recurrence.needs) - 1), max_size=5))
    recurrence.drop(np.array(items, int))
    assert np.array_equal(levels_of(recurrence.needs, recurrence.groups), exact(recurrence.needs))


@settings(max_examples=draws(100))
@given(st.integers(1, 60), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_any_needs_without_circles(num_items: int, num_slots: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    needs = rng.integers(-1, num_items, (num_items, num_slots))
    needs = np.where((needs >= 0) & (needs < np.arange(num_items)[:, np.newaxis]), needs, num_items)
    groups = np.array_split(rng.permutation(num_items), rng.integers(1, 5))
    assert np.array_equal(levels_of(needs, [np.sort(each) for each in groups if len(each)]), exact(needs))


@pytest.mark.parametrize("direction", [-1, 1])
@pytest.mark.parametrize("delays", [[1], [3], [2, 3], [1, 5, 7]])
def test_ten_thousand_time_steps_take_few_rounds(
    delays: list[int], direction: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    recurrence = Recurrence([[(1, direction * delay) for delay in delays], [(0, 0)]], 10_000)
    rounds = 0
    iterate = levels._iterate

    def counted(level: np.ndarray, columns: np.ndarray, most: int) -> bool:
        nonlocal rounds
        rounds += most
        return iterate(level, columns, most)

    def never(*_: object) -> np.ndarray:
        raise AssertionError("the recurrence was followed to its end")

    monkeypatch.setattr(levels, "_iterate", counted)
    monkeypatch.setattr(levels, "exact_levels", never)
    found = levels_of(recurrence.needs, recurrence.groups)
    monkeypatch.undo()
    assert rounds <= 200
    assert np.array_equal(found, exact(recurrence.needs))


@settings(max_examples=draws(60))
@given(recurrences(), st.data())
def test_a_circle_is_an_error(recurrence: Recurrence, data: st.DataObject) -> None:
    num_items = len(recurrence.needs)
    length = data.draw(st.integers(1, min(num_items, 50)))
    start = data.draw(st.integers(0, num_items - length))
    circle = start + np.arange(length)
    needs = np.concatenate([recurrence.needs, np.full((num_items, 1), num_items)], axis=1)
    needs[circle, -1] = np.roll(circle, 1)
    with pytest.raises(CycleError):
        levels_of(needs, recurrence.groups)


ITEMS = np.array([10, 11, 12])
A, B, C = ([(n, t, 0) for n in (0, 5)] for t in range(3))  # two members of a class at each time
PADDING = [(0, NO_TIME, 0), (5, NO_TIME, 0)]
TABLE = as_index_table([*A, *B, *C])


@pytest.mark.parametrize(
    ("ordered", "items"),
    [
        ([*A, *B, *C], [10, 11, 12]),
        ([*C, *A, *B], [12, 10, 11]),
        ([*A, *PADDING, *C, *PADDING, *B], [10, NO_ITEM, 12, NO_ITEM, 11]),
        ([*B], [11]),
        ([], []),
    ],
)
def test_members_side_by_side(ordered: list[tuple[int, int, int]], items: list[int]) -> None:
    table = as_index_table(ordered) if ordered else TABLE[:0]
    assert _follow_in_pairs(ITEMS, TABLE, table).tolist() == items
    assert _follow(ITEMS, TABLE[::2], table[::2]).tolist() == items


@pytest.mark.parametrize(
    "ordered",
    [
        [A[0], B[0], A[1], B[1]],
        [*A, *B, C[0]],
        [A[1], A[0], *B, *C],
        [A[0], B[1], B[0], A[1]],
        [*A, B[0], PADDING[1], *C],
        [*A, PADDING[0], B[1], *C],
    ],
)
def test_members_that_are_apart_are_refused(ordered: list[tuple[int, int, int]]) -> None:
    with pytest.raises(NotInBlocks):
        _follow_in_pairs(ITEMS, TABLE, as_index_table(ordered))
