"""Work ahead in a thread."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from nnet3.base.kaldi_io import background as module
from nnet3.base.kaldi_io.background import Background
from nnet3.errors import ArgumentError
from tests.interrupts import interrupt_beside_a_wait
from tests.patience import PATIENCE


class Watched:
    """Queues that tell when an item is asked for, and when one had no place; and a clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.asked, self.full = threading.Semaphore(0), threading.Semaphore(0)
        self.now = 100.0
        watched = self

        class Queue(queue.Queue[Any]):
            def get(self, block: bool = True, timeout: float | None = None) -> Any:
                watched.asked.release()
                return super().get(block, timeout)

            def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
                try:
                    super().put(item, block, timeout)
                except queue.Full:
                    watched.full.release()
                    raise

        monkeypatch.setattr(module, "queue", SimpleNamespace(Queue=Queue, Full=queue.Full, Empty=queue.Empty))
        monkeypatch.setattr(module, "_SECONDS_TO_SIGNALS", PATIENCE)  # asks once for each item
        monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: self.now))


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(monkeypatch)


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SECONDS_TO_END", PATIENCE)


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
def test_so_many_ahead_and_no_more(watched: Watched, arguments: tuple[int, ...], ahead: int) -> None:
    made: list[int] = []
    with Background(_numbers(50, made), *arguments) as items:
        assert watched.full.acquire(timeout=PATIENCE)
        assert len(made) == ahead + 1  # those in the queue, one in the hand
        assert next(items) == 0
        while len(made) < ahead + 2:
            assert watched.full.acquire(timeout=PATIENCE)
        assert watched.full.acquire(timeout=PATIENCE)
        assert len(made) == ahead + 2
    assert made[-1] == -1
    assert list(items) == []


def test_errors_come_behind_the_items_before_them() -> None:
    closed = threading.Event()

    def numbers() -> Iterator[int]:
        yield from range(3)
        closed.set()
        raise ValueError("broken")

    with Background(numbers(), 10) as items:
        assert closed.wait(PATIENCE)
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
        (thread,) = (thread for thread in threading.enumerate() if thread.name == "nnet3-background")
        assert thread.daemon


def test_waiting_is_measured(watched: Watched) -> None:
    """Items take 30 s and then 10 s after they are asked for; what is done with each takes 30 s."""

    def slow() -> Iterator[int]:
        for number in range(5):
            assert watched.asked.acquire(timeout=PATIENCE)
            watched.now += 10.0 if number else 30.0
            yield number

    with Background(slow()) as items:
        assert items.seconds == items.idle_share == 0.0  # nothing is asked for
        for _ in items:
            watched.now += 30.0
    assert (items.first_seconds, items.waited_seconds, items.seconds) == (30.0, 70.0, 220.0)
    assert items.idle_share == 40 / 190


def test_a_signal_that_does_not_end_a_wait_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SECONDS_TO_SIGNALS", 0.05)
    ended = threading.Event()
    with interrupt_beside_a_wait(ended.set), Background(ended.wait(PATIENCE) for _ in range(1)) as items:
        try:
            next(items)
        finally:
            ended.set()


def test_who_is_busy_waits_for_nothing(watched: Watched) -> None:
    with Background(iter(range(5))) as items:
        for _ in items:
            watched.now += 1.0
    assert (items.waited_seconds, items.idle_share, items.seconds) == (0.0, 0.0, 5.0)


def test_no_items_ahead_are_refused() -> None:
    with pytest.raises(ArgumentError, match="at least one item"):
        Background([], 0)
