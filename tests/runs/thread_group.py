"""Processes of a run, played by threads of this one: quick, and what they do can be looked at."""

from __future__ import annotations

import contextlib
import pickle
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pytest
import torch
import torch.distributed as dist
from torch import Tensor

from nnet3.training.runs import train_model
from nnet3.training.runs.process_group import ProcessGroup
from tests.patience import PATIENCE
from tests.runs.task import Task

T = TypeVar("T")


class GoneError(Exception):
    """Another thread has ended, and will not give what this one waits for."""


class Exchange:
    """Each thread gives something and gets what all have given, by rank."""

    def __init__(self, size: int):
        self._size, self._changed, self._gone = size, threading.Condition(), False
        self._rounds = [0] * size  # that each thread has come to
        self._given: dict[int, dict[int, Any]] = {}  # in a round, by rank

    def __call__(self, rank: int, given: Any) -> list[Any]:
        with self._changed:
            number = self._rounds[rank] = self._rounds[rank] + 1
            self._given.pop(number - 1, None)
            own = self._given.setdefault(number, {})
            own[rank] = given
            self._changed.notify_all()
            self._changed.wait_for(lambda: len(own) == self._size or self._gone, timeout=PATIENCE)
            if len(own) < self._size:
                raise GoneError
            return [own[each] for each in range(self._size)]

    def leave(self) -> None:
        """This thread gives nothing any more."""
        with self._changed:
            self._gone = True
            self._changed.notify_all()


class ThreadGroup(ProcessGroup):
    """What `ProcessGroup` does with processes, with threads. They are always checked to be in step."""

    def __init__(self, rank: int, size: int, exchange: Exchange):
        super().__init__(rank, size, checks=True)
        self._exchange = exchange

    def _reduce(self, tensor: Tensor, operation: Any) -> None:
        given = torch.stack(self._exchange(self.rank, tensor.clone()))
        tensor.copy_(given.amax(0) if operation == dist.ReduceOp.MAX else given.sum(0))

    def _gather(self, value: Any) -> list[Any]:
        values = self._exchange(self.rank, pickle.dumps(value))
        return [pickle.loads(each) for each in values] if self.is_first else []

    def _tell(self, value: Any) -> Any:
        return pickle.loads(self._exchange(self.rank, pickle.dumps(value))[0])


def in_threads(size: int, work: Callable[[ProcessGroup], T]) -> list[T | Exception]:
    """What `work` returns or raises in each thread; who waits for one that has raised gets a GoneError."""
    exchange, results = Exchange(size), list[Any]([None] * size)

    def run(rank: int) -> None:
        try:
            results[rank] = work(ThreadGroup(rank, size, exchange))
        except Exception as error:
            results[rank] = error
            exchange.leave()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def run_in_threads(task: Task, size: int = 2, **options: Any) -> list[int | Exception]:
    """A run of the task by so many processes: how it has ended in each."""

    def run(group: ProcessGroup) -> int:
        groups.group = group
        return task.run(**options)

    @contextlib.contextmanager
    def joined(device: str, *timeouts: float, checks: bool) -> Iterator[ProcessGroup]:
        yield groups.group

    groups = threading.local()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(train_model, "joined_processes", joined)
        return in_threads(size, run)
