"""Processes of a run, played by threads of this one: quick, and what they do can be looked at."""

from __future__ import annotations

import contextlib
import pickle
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import pytest
import torch
from torch import Tensor

from nnet3.train.run import train_model
from nnet3.train.run.world import World
from train.run.task import Task

T = TypeVar("T")


class Exchange:
    """Each thread gives something and gets what all have given."""

    def __init__(self, size: int):
        self.barrier = threading.Barrier(size, timeout=60)
        self._given: list[Any] = [None] * size

    def __call__(self, rank: int, given: Any) -> list[Any]:
        self._given[rank] = given
        self.barrier.wait()
        found = list(self._given)
        self.barrier.wait()
        return found


class ThreadWorld(World):
    """What `World` does with processes, with threads."""

    def __init__(self, rank: int, size: int, exchange: Exchange):
        super().__init__(rank, size)
        self._exchange = exchange

    def largest(self, *numbers: int) -> list[int]:
        return [max(each) for each in zip(*self._exchange(self.rank, numbers), strict=True)]

    def gather(self, value: Any) -> list[Any]:
        values = self._exchange(self.rank, pickle.dumps(value))
        return [pickle.loads(each) for each in values] if self.is_first else []

    def tell(self, value: Any) -> Any:
        return pickle.loads(self._exchange(self.rank, pickle.dumps(value))[0])

    def sum_(self, tensors: Sequence[Tensor]) -> None:
        given = self._exchange(self.rank, [tensor.clone() for tensor in tensors])
        for tensor, *parts in zip(tensors, *given, strict=True):
            tensor.copy_(torch.stack(parts).sum(0))


def in_threads(size: int, work: Callable[[World], T]) -> list[T | Exception]:
    """What `work` returns or raises in each thread; who waits for one that has raised gets a BrokenBarrierError."""
    exchange, results = Exchange(size), list[Any]([None] * size)

    def run(rank: int) -> None:
        try:
            results[rank] = work(ThreadWorld(rank, size, exchange))
        except Exception as error:
            results[rank] = error
            exchange.barrier.abort()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def run_in_threads(task: Task, size: int = 2, **options: Any) -> list[int | Exception]:
    """A run of the task by so many processes: how it has ended in each."""

    def run(world: World) -> int:
        worlds.world = world
        return task.run(**options)

    @contextlib.contextmanager
    def joined(device: str, timeout: float) -> Iterator[World]:
        yield worlds.world

    worlds = threading.local()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(train_model, "joined_world", joined)
        return in_threads(size, run)
