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
        self._states: dict[int, KernelState] = {}
        self._recorded: dict[int, list[BoundCall]] = {}
        self._never = linked.num_runs() > _MOST_RECORDED

    def run(self, number: int) -> None:
        """Make all calls of a segment."""
        objects, known = None if self._never else self._objects(), self._states.get(number)
        if known is None or not known.is_of(objects):
            self._recorded.pop(number, None)
            self._states.pop(number, None)
            calls = self._linked.calls_of_segment(number)
            for call in calls:
                call()
            after = objects and self._objects()  # kernels may have kept something for the next run
            if after:
                self._states[number] = KernelState(after)
        elif number in self._recorded:
            for call in self._recorded[number]:
                call()
        else:
            self._run_and_record(number)

    def _objects(self) -> list[object] | None:
        """Returns all that the recorded calls depend on; None if kernels may depend on more."""
        objects = objects_of(map(self._linked.kernels.find, self._linked.plan.kernels))
        return None if objects is None else [torch.backends.cuda.matmul.allow_tf32, *objects]

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


class KernelState:
    """What forward passes of kernels depend on, as `objects_of` gave it, besides tensors' contents."""

    def __init__(self, objects: list[object]) -> None:
        self._objects = objects
        self._tensors = [each for each in objects if isinstance(each, Tensor)]
        self._addresses = self._present_addresses()

    def _present_addresses(self) -> list[tuple[int, tuple[int, ...]]]:
        return [(tensor.data_ptr(), tensor.stride()) for tensor in self._tensors]

    def is_of(self, objects: list[object] | None) -> bool:
        """True if these are the same objects or equal integers, and tensors lie where they lay."""
        if objects is None or len(objects) != len(self._objects):
            return False
        if not all(map(operator.is_, self._objects, objects)):  # all in all, asked before each run
            pairs = zip(self._objects, objects, strict=True)
            if not all(a is b or (type(a) is int and type(b) is int and a == b) for a, b in pairs):
                return False
        return self._present_addresses() == self._addresses


def objects_of(kernels: Iterable[Any]) -> list[object] | None:
    """Returns the objects on which forward passes of kernels depend; None if they may depend on more."""
    objects: list[object] = []
    for kernel in kernels:
        of_kernel = getattr(kernel, "replay_state", lambda: None)()
        if of_kernel is None:
            return None
        objects += of_kernel
    return objects
