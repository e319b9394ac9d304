"""Profiles: the time of a computation by command, kernel and node, as a table and as a trace for Chrome."""

from __future__ import annotations

import json
import os
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from nnet3.base.kaldi_io.files import write_atomically
from nnet3.base.text.html import table
from nnet3.engine.ir.commands import Command
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.kernel import whole_kernel
from nnet3.engine.runtime.computer import NnetComputer
from nnet3.engine.runtime.dtypes import DTYPES
from nnet3.engine.runtime.link import LinkedComputation
from nnet3.engine.runtime.plan import Port, SegmentPlan
from nnet3.errors import ExecutionError

#: The keys by which a table may sum up commands.
KEYS = ("kind", "type", "kernel", "node")
_KEY_COLUMNS = ("kind", "type")
_NUMBER_COLUMNS = ("calls", "ms", "%", "us/call", "MB", "GB/s")
_MICROSECONDS = 1e6


@dataclass(frozen=True)
class CommandTime:
    """The time of one command: `begin` and `last_seconds` are of the last repetition, `seconds` is the average.

    A command in the body of a Repeat runs `iterations` times; time and bytes are sums over all iterations.
    `num_bytes` counts the matrices and parameters read and written. `type` is the kernel's type.
    """

    number: int
    segment: int
    text: str
    kind: str
    kernel: str
    type: str
    node: str
    num_bytes: int
    begin: float
    last_seconds: float
    seconds: float
    iterations: int = 1


@dataclass(frozen=True)
class ProfileRow:
    """A group of alike commands: the number of runs, and the seconds and bytes in one run."""

    keys: tuple[str, ...]
    calls: int
    seconds: float
    num_bytes: int


@dataclass(frozen=True)
class ProfileReport:
    """The result of `profile`. `repeats` runs were averaged. Prints as the table by kind and type."""

    times: tuple[CommandTime, ...]
    repeats: int

    def __str__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        rows = self.rows()
        lines = [[*row.keys, *self._numbers(row)] for row in rows]
        return table([*_KEY_COLUMNS, *_NUMBER_COLUMNS], lines, len(_KEY_COLUMNS))

    @property
    def seconds(self) -> float:
        """The seconds of all commands in one run."""
        return sum(timing.seconds for timing in self.times)

    def rows(self, by: Sequence[str] = _KEY_COLUMNS) -> list[ProfileRow]:
        """Groups commands by the given KEYS, the slowest group first. Raises ExecutionError for unknown keys."""
        for key in by:
            if key not in KEYS:
                raise ExecutionError(f"commands cannot be put together by '{key}'; keys are: {', '.join(KEYS)}")
        groups: dict[tuple[str, ...], list[CommandTime]] = {}
        for timing in self.times:
            groups.setdefault(tuple([getattr(timing, key) for key in by]), []).append(timing)
        rows = [
            ProfileRow(
                keys, sum(t.iterations for t in group), sum(t.seconds for t in group), sum(t.num_bytes for t in group)
            )
            for keys, group in groups.items()
        ]
        return sorted(rows, key=lambda row: -row.seconds)

    def table(self, by: Sequence[str] = _KEY_COLUMNS, limit: int | None = None) -> str:
        """Returns rows as text: keys, calls, milliseconds, share of the time, microseconds a call, megabytes, GB/s."""
        rows = self.rows(by)
        lines = [[*by, *_NUMBER_COLUMNS]]
        lines += [[*row.keys, *self._numbers(row)] for row in rows[:limit]]
        left_out = rows[len(lines) - 1 :]
        if left_out:
            lines.append(["...", *[""] * (len(by) - 1), *self._numbers(_total(left_out))])
        lines.append(["all", *[""] * (len(by) - 1), *self._numbers(_total(rows))])
        widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
        return "\n".join(
            "  ".join(
                [
                    text.ljust(width) if column < len(by) else text.rjust(width)
                    for column, (text, width) in enumerate(zip(line, widths, strict=True))
                ]
            ).rstrip()
            for line in lines
        )

    def _numbers(self, row: ProfileRow) -> list[str]:
        share = 100 * row.seconds / self.seconds if self.seconds else 0.0
        rate = row.num_bytes / row.seconds / 1e9 if row.seconds else 0.0
        each = row.seconds / row.calls * _MICROSECONDS if row.calls else 0.0
        values = (row.seconds * 1e3, share, each, row.num_bytes / 1e6, rate)
        return [str(row.calls), *[f"{value:.{digits}f}" for value, digits in zip(values, (3, 1, 1, 2, 1), strict=True)]]

    def chrome_trace(self) -> dict[str, Any]:
        """Returns the last repetition for chrome://tracing: one row a segment, times in microseconds."""
        start = min((timing.begin for timing in self.times), default=0.0)
        return {
            "displayTimeUnit": "ms",
            "traceEvents": [
                {
                    "name": timing.node or timing.kind,
                    "cat": timing.kind,
                    "ph": "X",
                    "pid": 0,
                    "tid": timing.segment,
                    "ts": (timing.begin - start) * _MICROSECONDS,
                    "dur": timing.last_seconds * _MICROSECONDS,
                    "args": {
                        "command": timing.text,
                        "kernel": timing.kernel,
                        "type": timing.type,
                        "bytes": timing.num_bytes,
                    },
                }
                for timing in self.times
            ],
        }

    def write_trace(self, path: str | os.PathLike[str]) -> None:
        """Write `chrome_trace` as JSON. Raises Nnet3Error if that cannot be."""
        write_atomically(path, json.dumps(self.chrome_trace()).encode())


def profile(
    computer: NnetComputer, matrices: Mapping[str, Any] | None = None, *, repeats: int = 3, seed: int = 0
) -> ProfileReport:
    """Run all segments of a computer `repeats` times, after once to warm up, and time every command.

    `matrices` are what is accepted, by name ("NAME.deriv" for the derivative of an output); random numbers stand for
    what is not given. The computer is reset before and afterwards. Updates and statistics are made as in any run.
    """
    if repeats < 1:
        raise ExecutionError(f"repeats must be at least 1, got {repeats}")
    generator = torch.Generator().manual_seed(seed)
    given = dict(matrices or {})
    profiler = Profiler(computer.computation)
    try:
        for repeat in range(1 + repeats):
            computer.reset()
            if repeat == 1:
                profiler = Profiler(computer.computation)
            with computer.observed(profiler):
                for _ in computer.plan.segments:
                    for port in computer.wanted():
                        computer.accept_input(port.name, _matrix(port, given, generator))
                    computer.run()
    finally:
        computer.reset()
    return profiler.report()


def _matrix(port: Port, given: dict[str, Any], generator: torch.Generator) -> Any:
    if port.bound_name not in given:
        given[port.bound_name] = torch.randn(port.num_rows, port.num_cols, generator=generator)
    return given[port.bound_name]


class Profiler:
    """Observes runs (`computer.observed(profiler)`), for instance with data of one's own."""

    def __init__(self, computation: NnetComputation) -> None:
        self.computation = computation
        self._seconds: dict[tuple[int, int], list[float]] = {}
        self._begin: dict[tuple[int, int], float] = {}
        self._iterations: dict[tuple[int, int], int] = {}
        self._types: dict[str, tuple[str, int]] = {}

    def run(self, linked: LinkedComputation, segment: SegmentPlan) -> None:
        """Run one segment command by command."""
        calls = list(linked.calls_one_by_one(segment))
        wait = torch.cuda.synchronize if linked.storage.is_cuda else _nothing
        marks = []
        wait()
        for _, _, call in calls:
            begin = time.perf_counter()
            call()
            wait()
            marks.append((begin, time.perf_counter()))
        seconds: dict[int, float] = defaultdict(float)
        for (number, iteration, _), (begin, end) in zip(calls, marks, strict=True):
            if number not in seconds:
                self._begin[segment.start, number] = begin
            seconds[number] += end - begin
            self._iterations[segment.start, number] = iteration + 1
        for number, taken in seconds.items():
            self._seconds.setdefault((segment.start, number), []).append(taken)
        for kernel in linked.plan.kernels:
            whole = whole_kernel(kernel.name, linked.kernels.network)
            if kernel.name not in self._types and whole in linked.kernels.network:
                self._types[kernel.name] = _type_and_bytes(linked.kernels.find(kernel))
        self._dtype = linked.plan.dtype

    def report(self) -> ProfileReport:
        """Returns the measurements so far."""
        repeats = max((len(seconds) for seconds in self._seconds.values()), default=0)
        times = [self._time(segment, number, seconds) for (segment, number), seconds in self._seconds.items()]
        return ProfileReport(tuple(times), repeats)

    def _time(self, segment: int, number: int, seconds: Sequence[float]) -> CommandTime:
        command = self.computation.commands[number]
        kernel = getattr(command, "kernel", None)
        name = "" if kernel is None else self.computation.kernels[kernel].name
        kernel_type, parameter_bytes = self._types.get(name, ("", 0))
        return CommandTime(
            number=number,
            segment=segment,
            text=self.computation.numbered_command(number),
            kind=type(command).__name__,
            kernel=name,
            type=kernel_type,
            node=node_of_command(self.computation, command),
            iterations=self._iterations[segment, number],
            num_bytes=self._iterations[segment, number] * (self._num_bytes(command) + parameter_bytes),
            begin=self._begin[segment, number],
            last_seconds=seconds[-1],
            seconds=float(np.mean(seconds)),
        )

    def _num_bytes(self, command: Command) -> int:
        total = 0
        for access in command.accesses(self.computation):
            block = self.computation.submatrices[access.submatrix]
            total += block.num_rows * block.num_cols
        return total * DTYPES[self._dtype].itemsize


def node_of_command(computation: NnetComputation, command: Command) -> str:
    """Returns the node of a kernel, else the node of the first matrix with one; empty without a node."""
    node = getattr(command, "node", None)
    if node is not None:
        return str(node)
    for submatrix in (*command.schema.operands(command),):
        info = computation.matrix_info.get(computation.submatrices[submatrix].matrix)
        if info is not None:
            return info.node
    return ""


def _type_and_bytes(kernel: Any) -> tuple[str, int]:
    parameters: dict[str, torch.Tensor] = getattr(kernel, "parameters", dict)()
    size = sum(tensor.numel() * tensor.element_size() for tensor in parameters.values())
    return str(getattr(kernel, "type_name", "") or type(kernel).__name__), size


def _total(rows: Sequence[ProfileRow]) -> ProfileRow:
    sums = [sum(getattr(row, name) for row in rows) for name in ("calls", "seconds", "num_bytes")]
    return ProfileRow((), int(sums[0]), float(sums[1]), int(sums[2]))


def _nothing() -> None:
    pass
