"""Replay on CUDA: what a program has launched call by call is launched again as a few CUDA graphs."""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any, Protocol

import torch
from torch import Tensor

from nnet3.engine.runtime.kernels import Kernels
from nnet3.engine.runtime.linker import BoundCall
from nnet3.engine.runtime.plan import Plan

#: Records calls without running them; returns what runs them all. Raises RuntimeError for calls it cannot record.
Recorder = Callable[[Sequence[BoundCall]], BoundCall]

_MOST_RECORDED = 200_000  # calls
_ONE_AT_A_TIME = threading.Lock()  # graphs of one pool are recorded one after the other


class Replayed(Protocol):
    """A program whose segments are replayed."""

    plan: Plan
    kernels: Kernels

    def num_runs(self) -> int:
        """Returns how many calls all iterations of all loops make."""

    def calls_of_segment(self, number: int) -> Iterable[BoundCall]:
        """Returns what runs in a segment, in order."""

    def stretches(self, number: int) -> Iterator[tuple[bool, Iterator[BoundCall]]]:
        """Yields the calls of a segment in stretches: whether all can be recorded, and the calls."""


class Replay:
    """Runs the segments of a program, and records each segment's calls at its second run.

    Recorded are calls that work on memory of the program and on kernels alone: no updates, no statistics, no accepted
    or provided matrices. A recording holds as long as the kernels are in the same state
    (`replay_state`); else the segment runs call by call, and is recorded again at the next run in the new state. Values
    of parameters may change: they are read in place.
    """

    def __init__(self, linked: Replayed, record: Recorder) -> None:
        self._linked, self._record = linked, record
        self._states: dict[int, list[object]] = {}
        self._recorded: dict[int, list[BoundCall]] = {}
        self._never = linked.num_runs() > _MOST_RECORDED

    def run(self, number: int) -> None:
        """Make all calls of a segment."""
        state = None if self._never else self._state()
        if state is None or not is_same_state(self._states.get(number), state):
            self._recorded.pop(number, None)
            self._states.pop(number, None)
            calls = self._linked.calls_of_segment(number)
            for call in calls:
                call()
            after = state and self._state()  # kernels may have kept something for the next run
            if after:
                self._states[number] = after
        elif number in self._recorded:
            for call in self._recorded[number]:
                call()
        else:
            self._run_and_record(number)

    def _state(self) -> list[object] | None:
        """Returns all that the recorded calls depend on; None if kernels may depend on more."""
        state = state_of(map(self._linked.kernels.find, self._linked.plan.kernels))
        return None if state is None else [torch.backends.cuda.matmul.allow_tf32, *state]

    def _run_and_record(self, number: int) -> None:
        recorded: list[BoundCall] = []
        for replayable, stretch in self._linked.stretches(number):
            calls = list(stretch)
            if replayable and len(calls) > 1 and not self._never:
                try:
                    calls = [self._record(calls)]
                except RuntimeError:  # a call that waits for the device, say
                    self._never = True
            for call in calls:
                call()
            recorded += calls
        if not self._never:
            self._recorded[number] = recorded


class CudaGraphs:
    """Records calls as CUDA graphs. What the calls allocate is temporary, and all graphs of a stream share it."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def __call__(self, calls: Sequence[BoundCall]) -> BoundCall:
        with torch.cuda.device(self._device), _ONE_AT_A_TIME:
            stream = torch.cuda.current_stream()
            return _graph(calls, _first_graph(self._device, stream.cuda_stream).pool()).replay


@cache
def _first_graph(device: torch.device, stream: int) -> torch.cuda.CUDAGraph:
    """Returns a graph that is never forgotten: PyTorch gives memory up with the last graph using the memory."""
    one = torch.zeros(1, device=device)
    return _graph([one.zero_], torch.cuda.graph_pool_handle())


def _graph(calls: Sequence[BoundCall], pool: Any) -> torch.cuda.CUDAGraph:
    graph = torch.cuda.CUDAGraph()
    here, aside = torch.cuda.current_stream(), torch.cuda.Stream()
    aside.wait_stream(here)
    with torch.cuda.stream(aside):
        graph.capture_begin(pool=pool, capture_error_mode="thread_local")
        try:
            for call in calls:
                call()
        finally:
            graph.capture_end()
    here.wait_stream(aside)
    return graph


def state_of(kernels: Iterable[Any]) -> list[object] | None:
    """Returns all state behind the kernels' forward passes, besides tensors' contents; None if there may be more."""
    state: list[object] = []
    for kernel in kernels:
        of_kernel = getattr(kernel, "replay_state", lambda: None)()
        if of_kernel is None:
            return None
        state += of_kernel
    tensors = [each for each in state if isinstance(each, Tensor)]
    return state + [number for each in tensors for number in (each.data_ptr(), *each.stride())]


def is_same_state(before: list[object] | None, now: list[object]) -> bool:
    """True if all values are the same objects or equal integers."""
    if before is None or len(before) != len(now):
        return False
    if all(map(operator.is_, before, now)):
        return True
    return all(a is b or (type(a) is int and type(b) is int and a == b) for a, b in zip(before, now, strict=True))
