"""Work ahead in a thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from nnet3.errors import ArgumentError
from nnet3.train.examples.background import Background


def _numbers(count: int, made: list[int], error: Exception | None = None) -> Iterator[int]:
    try:
        for number in range(count):
            made.append(number)
            yield number
        if error is not None:
            raise error
    finally:
        made.append(-1)  # closed


@pytest.mark.parametrize("ahead", [1, 3, 100])
def test_items_come_in_order(ahead: int) -> None:
    made: list[int] = []
    with Background(_numbers(50, made), ahead) as items:
        assert list(items) == list(range(50))
        assert list(items) == []
    assert made == [*range(50), -1]
    assert items.num_taken == 50


@pytest.mark.parametrize(("arguments", "ahead"), [((3,), 3), ((), 4)])
def test_so_many_ahead_and_no_more(arguments: tuple[int, ...], ahead: int) -> None:
    made: list[int] = []
    with Background(_numbers(50, made), *arguments) as items:
        assert next(items) == 0
        deadline = time.monotonic() + 10
        while len(made) < ahead + 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.2)
        assert len(made) == ahead + 2  # one taken, those in the queue, one in the hand
    assert made[-1] == -1
    assert list(items) == []


def test_errors_come_behind_the_items_before_them() -> None:
    with Background(_numbers(3, [], ValueError("broken")), 10) as items:
        time.sleep(0.05)
        assert [next(items) for _ in range(3)] == [0, 1, 2]
        with pytest.raises(ValueError, match="broken"):
            next(items)
        assert list(items) == []


def test_no_thread_is_left() -> None:
    before = threading.active_count()
    for taken in (0, 2):
        with Background(_numbers(1000, []), 2) as items:
            for _ in range(taken):
                next(items)
    assert threading.active_count() == before


def test_a_program_that_ends_does_not_wait_for_the_thread() -> None:
    with Background(_numbers(1000, []), 2):
        (thread,) = (thread for thread in threading.enumerate() if thread.name == "nnet3-examples")
        assert thread.daemon


def test_waiting_is_measured() -> None:
    def slow() -> Iterator[int]:
        for number in range(5):
            time.sleep(0.1 if number else 0.3)
            yield number

    with Background(slow()) as items:
        assert items.seconds == items.idle_share == 0.0  # nothing is asked for
        list(items)
    assert 0.25 < items.first_seconds < 1.0
    assert 0.6 < items.waited_seconds <= items.seconds
    assert 0.8 < items.idle_share <= 1.0

    def busy() -> Iterator[int]:
        yield from range(5)

    with Background(busy()) as items:
        for _ in items:
            time.sleep(0.05)
        assert items.idle_share < 0.3


def test_wrong_numbers() -> None:
    with pytest.raises(ArgumentError, match="at least one item"):
        Background([], 0)
