"""compile_task: the way from a graph and a request to a program, for both front-ends."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np

from nnet3.base.options.compiling import CompileOptions
from nnet3.engine.driver.proving import proves_compiled
from nnet3.engine.ir.checker import check_computation
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.objects import many_objects
from nnet3.engine.ir.passes.pipeline import optimize, prove_results
from nnet3.engine.ir.proof.equal import PassResult
from nnet3.engine.lowering.lower import lower
from nnet3.engine.lowering.source import GraphSource, LoweringRequest
from nnet3.engine.lowering.sweeps import Sweeps
from nnet3.errors import check_kind

_FEWEST = 8  # periods that the shortest member has at least
_FEWEST_INCREMENTS = 6  # and increments, where neighbours differ by several periods
#: The sequences of the members with the fewest; other members have one more, so tasks need that.
FEWEST_SEQUENCES = 4
FEWEST_MORE = 2  # increments by which others are longer than the shortest: programs are made of the two shortest


@dataclass(frozen=True, eq=False)
class SequencesSeries:
    """The position of a task among tasks that differ in length and in their number of sequences, all alike.

    `key` is equal for all tasks of the series; `n` is the number of sequences beyond FEWEST_SEQUENCES. `member(j, n)`
    is the task j increments longer than the shortest with n sequences beyond the fewest, and its indexes; n is at most
    this task's.
    """

    key: Mapping[str, object]
    n: int
    member: Callable[[int, int], tuple[CompileTask, Sequence[np.ndarray]]]


@dataclass(frozen=True, eq=False)
class LengthSeries:
    """The position of a task in a row of tasks that differ only in length, or only in their number of sequences.

    `key`: equal for all tasks of the row. `k`: the number of increments by which the task is longer than the shortest.
    `rows`: the task's indexes. `shorter(j)`: the task j increments longer than the shortest, and its indexes.
    `increment`: the distance (n, t, x) by which indexes move from a task to the next. `sequences`: its position among
    tasks with further numbers of sequences; None for sequences that are not alike, or too few.
    """

    key: Mapping[str, object]
    k: int
    rows: Sequence[np.ndarray]
    shorter: Callable[[int], tuple[CompileTask, Sequence[np.ndarray]]]
    increment: tuple[int, int, int]
    sequences: Callable[[], SequencesSeries | None] = lambda: None


@dataclass(frozen=True, eq=False)
class RaggedRelation:
    """Relates a task whose sequences end at different times to a task with longer and more sequences, all alike.

    `longer`: the task with longer sequences. `apart`: `longer`, compiled so that rows of different times never share
    memory. `period`: the frames after which programs repeat. `granularity`: the frames by which lengths differ, a
    divisor of `period`. `missing` (sequences,): by how many granularities each sequence ends before the sequences of
    `longer`, ascending; `numbers`: the n of each sequence. `rows`: the indexes of inputs and outputs by name, in the
    user's order. `lasting`: the names of inputs and outputs with equal indexes in all sequences.
    """

    longer: CompileTask
    apart: Callable[[], CompileTask]
    period: int
    granularity: int
    missing: Sequence[int]
    numbers: Sequence[int]
    rows: Mapping[str, np.ndarray]
    lasting: frozenset[str]


def rows_apart(options: CompileOptions) -> CompileOptions:
    """Returns the options without the passes by which rows of different times may share memory."""
    shared = {"write_where_copied", "share_copies", "work_in_place"}
    return replace(options, disabled_passes=options.disabled_passes | shared)


def rounded_up(count: int) -> int:
    """Returns the least number of the row 2, 3, 4, 6, 8, 12, 16, ... not below the given number.

    >>> [rounded_up(count) for count in (1, 4, 5, 6, 7, 16, 17, 49)]
    [2, 4, 6, 6, 8, 16, 24, 64]
    """
    power = 1 << max(count - 1, 3).bit_length()
    return next(size for size in (power // 2, 3 * power // 4, power) if size >= count)


def increments_beyond(num_periods: int, increment: int) -> int:
    """Returns the number of increments by which a task of `num_periods` is longer than the shortest of its series.

    An increment is `increment` periods. A task with a negative number has no series.
    """
    k = (num_periods - max(_FEWEST, _FEWEST_INCREMENTS * increment)) // increment
    return k if k >= FEWEST_MORE else -1


@dataclass(frozen=True, eq=False)
class CompileTask:
    """A graph, the request to it, and the options of compiling.

    `key`: all dependences of the program beside the options (see `ComputationCache.get_or_compile`).
    `lowered_from` makes the source and the request of the lowering; called only for an unknown program.
    `fingerprint`: aspects of the graph, compared with the aspects of the program's network before each run. `series`
    makes the task's position in a row of tasks, None for too short a task. `is_ragged` tells whether the
    sequences end at different times; `ragged` then makes the relation to longer sequences, None without a relation.
    `signature`: equal for tasks that differ only in their indexes, `rows`; None if unknown. `serves_shorter`: the
    program is restricted to ever new lengths, so a loop gains more than in a program that only runs. `sweeps`: the
    finished sweeps for the request, if somebody has made them.
    """

    key: Mapping[str, object]
    lowered_from: Callable[[], tuple[GraphSource, LoweringRequest]]
    options: CompileOptions
    fingerprint: Mapping[str, str] = field(default_factory=dict)
    series: Callable[[], LengthSeries | None] = lambda: None
    ragged: Callable[[], RaggedRelation | None] = lambda: None
    is_ragged: Callable[[], bool] = lambda: False
    signature: Hashable = None
    rows: Callable[[], Sequence[np.ndarray]] = tuple
    serves_shorter: bool = False
    sweeps: Sweeps | None = None


def compile_task(task: CompileTask) -> NnetComputation:
    """The program of a task."""
    return compile_tasks([task])[0]


@many_objects()
def compile_tasks(tasks: Sequence[CompileTask]) -> list[NnetComputation]:
    """The programs of tasks: lowered, optimized, checked, and proved together, as the options say.

    Raises RequestError for an impossible request, NotComputableError for outputs out of reach.
    """
    programs, results = list[NnetComputation](), list[PassResult]()
    for task in tasks:
        options, program = task.options, lower(*task.lowered_from(), task.sweeps)
        if options.check:
            check_computation(program)
        if options.optimize:
            prove = results if proves_compiled(options) else False
            program = optimize(program, options.disabled_passes, options.check, level=options.level, prove=prove)
        program.fingerprint, program.prove = dict(task.fingerprint), options.prove
        programs.append(program)
    prove_results(results)
    return programs


@runtime_checkable
class Request(Protocol):
    """A front-end's request for its networks."""

    def task(self, network: Any, options: CompileOptions | None = None) -> CompileTask:
        """The task of compiling the request for a network. Raises RequestError unless they fit."""


def task_of(network: Any, request: Request, options: CompileOptions | None = None) -> CompileTask:
    """The task of a request. Raises ArgumentError for something that is none."""
    check_kind(request, Request, "the request", "a ComputationRequest")
    return request.task(network, options)


_PLAIN = (str, bool, int, float, np.integer, np.floating)


def key_digest(key: Any) -> str:
    """A name for a key: equal for equal keys, in all processes. Raises TypeError for what keys cannot be made of."""
    digest = hashlib.blake2b(digest_size=20)
    _add_to_digest(digest.update, key)
    return digest.hexdigest()


def _add_to_digest(update: Callable[[bytes], None], value: Any) -> None:
    """Type and length first: unequal keys give unequal bytes."""
    parts: Sequence[Any] = ()
    if isinstance(value, np.ndarray):
        update(f"array {value.dtype.str} {value.shape}:".encode())
        update(np.ascontiguousarray(value).tobytes())
    elif isinstance(value, bytes):
        update(f"bytes {len(value)}:".encode() + value)
    elif value is None or isinstance(value, _PLAIN):
        kind = "str" if isinstance(value, str) else type(value).__name__
        text = str(value) if isinstance(value, str) else repr(value)
        encoded = text.encode(errors="surrogatepass")
        update(f"{kind} {len(encoded)}:".encode() + encoded)
    elif is_dataclass(value) and not isinstance(value, type):
        update(f"{type(value).__name__} {len(fields(value))}:".encode())
        parts = [part for field in fields(value) for part in (field.name, getattr(value, field.name))]
    elif isinstance(value, Mapping):
        update(f"mapping {len(value)}:".encode())
        parts = [part for name in sorted(value) for part in (name, value[name])]
    elif isinstance(value, (set, frozenset)):
        update(f"set {len(value)}:".encode())
        parts = sorted(value)
    elif isinstance(value, (tuple, list)):
        update(f"sequence {len(value)}:".encode())
        parts = value
    else:
        raise TypeError(f"a key of the cache cannot contain a {type(value).__name__}")
    for part in parts:
        _add_to_digest(update, part)
