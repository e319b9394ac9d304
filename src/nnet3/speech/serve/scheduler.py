"""Scheduler: the work of many recognizers side by side, with one run of the network for all of them."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, InvalidStateError, ThreadPoolExecutor
from typing import Any, Generic, TypeAlias, TypeVar

from nnet3.errors import ExecutionError
from nnet3.speech.asr.acoustic_stream import NetworkInputs, Scores, compute_each, compute_scores

T = TypeVar("T")
#: Yields inputs of the network, wants their scores, and returns an answer: see `Recognizer.steps`.
Work: TypeAlias = "Generator[NetworkInputs, Scores, T]"


class _Job(Generic[T]):
    """A piece of work; `inputs` are the network's inputs whose scores the work waits for."""

    def __init__(self, work: Work[T]):
        self.work, self.future = work, Future[T]()
        self.inputs: NetworkInputs | None = None
        self.scores: Scores | None = None
        self.error: Exception | None = None

    def advance(self) -> bool:
        """Runs up to the next inputs; returns False if there are none, because the work is done or nobody wants it."""
        if self.future.cancelled():
            self.work.close()
            return False
        try:
            if self.error is not None:
                self.inputs = self.work.throw(self.error)
            elif self.inputs is None:
                self.inputs = next(self.work)
            else:
                assert self.scores is not None
                self.inputs = self.work.send(self.scores)
        except StopIteration as end:
            with contextlib.suppress(InvalidStateError):  # cancelled meanwhile
                self.future.set_result(end.value)
            return False
        except Exception as error:
            with contextlib.suppress(InvalidStateError):
                self.future.set_exception(error)
            return False
        self.scores = self.error = None
        return True


class Scheduler:
    """Takes up work at any time, and does it in rounds until no work is left.

    In a round, all pieces of work run up to their next inputs of the network, one piece of 0.2 s of audio, in `threads`
    threads; then the network runs once for all of them. Long work therefore delays nobody, and with more work a run of
    the network has more streams. `on_run` is told their number.
    """

    def __init__(self, threads: int = 1, on_run: Callable[[int], None] = lambda streams: None):
        self._queue: queue.SimpleQueue[_Job[Any] | None] = queue.SimpleQueue()
        self._pool, self._on_run = ThreadPoolExecutor(threads, "nnet3-search"), on_run
        self._thread = threading.Thread(target=self._run, name="nnet3-scheduler", daemon=True)
        self._thread.start()

    def submit(self, work: Work[T]) -> Future[T]:
        """Returns a future for the work's answer or its exception; cancelling the future drops the rest of the work."""
        job = _Job(work)
        if not self.is_alive:
            raise ExecutionError("the scheduler has ended")
        self._queue.put(job)
        return job.future

    def __enter__(self) -> Scheduler:
        return self

    def __exit__(self, *error: object) -> None:
        """Does what was submitted before, and ends."""
        self._queue.put(None)
        self._thread.join()
        self._pool.shutdown()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def _run(self) -> None:
        jobs: list[_Job[Any]] = []
        is_last = False
        while jobs or not is_last:
            with contextlib.suppress(queue.Empty):
                while not is_last:
                    job = self._queue.get(block=not jobs)
                    if job is None:
                        is_last = True
                    else:
                        jobs.append(job)
            several = len(jobs) > 1
            goes_on = (self._pool.map if several else map)(_Job.advance, jobs)
            jobs = [job for job, wants in zip(jobs, goes_on, strict=True) if wants]
            if jobs:
                self._on_run(len(jobs))
                _compute(jobs)


def _compute(jobs: Sequence[_Job[Any]]) -> None:
    """Gives every job its scores, or the error in their place."""
    inputs = {job: job.inputs for job in jobs if job.inputs is not None}
    found = compute_each(inputs.values(), compute_scores)
    for job, each in inputs.items():
        scores = found[each.stream]
        if isinstance(scores, Exception):
            job.error = scores
        else:
            job.scores = scores
