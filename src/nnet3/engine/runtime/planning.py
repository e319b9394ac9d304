"""Planning: every command becomes calls on views of matrices, and matrices are laid out in one arena.

The calls come first, in an `UnplacedPlan`: views begin relative to a block of memory without a place yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import torch

from nnet3.engine.ir.commands import AcceptInput, ProvideOutput, SegmentMarker
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.objects import many_objects
from nnet3.engine.runtime.lanes import lane_of
from nnet3.engine.runtime.plan import OutsidePlan, Plan, Port, SegmentPlan
from nnet3.engine.runtime.planner import Call, Planner
from nnet3.engine.runtime.rules import plan_command
from nnet3.engine.runtime.unplaced_plan import UnplacedPlan, View

_Planned = tuple[int, int, tuple[Any, ...], float]  # command and call, with rows of a ViewTable among its integers


def plan(computation: NnetComputation, dtype: str | torch.dtype = "float32") -> Plan:
    """Lay out the memory of all matrices and decide by which calls each command runs.

    Matrices without a dtype of their own have `dtype`. Raises ExecutionError for a command class without a rule,
    for a command that uses a matrix missing from memory, and for unknown dtypes.
    """
    made = unplaced_plan(computation, dtype)
    return made.placed(*made.packed())


def unplaced_plan(computation: NnetComputation, dtype: str | torch.dtype = "float32") -> UnplacedPlan:
    """Decide by which calls each command runs. Raises the errors of `plan`."""
    return unplaced_plan_by(Planner(computation, lane_of(dtype)))


@many_objects()
def unplaced_plan_by(planner: Planner) -> UnplacedPlan:
    """Choose the calls for each command of the planner's computation."""
    computation = planner.computation
    owners: list[int] = []
    loops: list[tuple[int, ...]] = []
    bodies = {body.start: (repeat, body) for repeat, body in computation.repeats()}
    number = 0
    while number < len(computation.commands):
        if number in bodies:
            repeat, body = bodies[number]
            start, calls = len(planner.calls), _repeated(planner, body, repeat.iterations)
            planner.calls += [call for _, call in calls]
            owners += [owner for owner, _ in calls]
            if calls:
                loops.append((start, len(owners), repeat.iterations, repeat.memo_step, repeat.precomputed_step))
            number = body.stop
            continue
        planner.command = number
        plan_command(computation.commands[number], planner)
        owners += [number] * (len(planner.calls) - len(owners))
        number += 1
    kinds, args, factors = zip(*planner.calls, strict=True) if planner.calls else ((), (), ())
    dtypes = [planner.lanes[lane] for lane in planner.lane_of_matrix]
    starts = np.zeros(len(args) + 1, dtype=np.int64)
    np.cumsum(np.fromiter(map(len, args), np.int64, len(args)), out=starts[1:])
    views = np.array(planner.views.rows, dtype=planner.numbers).reshape(-1, 11)
    blocks = np.array(planner.blocks, dtype=planner.numbers).reshape(-1, 6)
    spans = blocks[:, :3].astype(np.int64)
    made = Plan(
        dtype=planner.dtype,
        num_bytes=0,
        lanes=tuple(planner.lanes),
        outside=tuple([_outside_plan(computation, outside, planner) for outside in computation.outside]),
        views=views[:, 1:],
        kinds=tuple(planner.kinds),
        texts=tuple(planner.texts),
        call_kind=np.array(kinds, dtype=np.int32),
        call_start=starts,
        call_args=np.fromiter(chain.from_iterable(args), np.int32, int(starts[-1])),
        call_number=np.array(factors, dtype=np.float64),
        call_command=np.array(owners, dtype=np.int32),
        loops=np.array(loops, dtype=np.int64).reshape(-1, 5),
        indexes=tuple(planner.indexes),
        uneven=tuple(planner.uneven),
        precomputed=tuple(computation.precomputed),
        kernels=tuple(planner.kernels),
        num_memos=computation.num_memos,
        need_model_derivative=computation.need_model_derivative,
        segments=_segments(computation, dtypes, np.array(owners, dtype=np.int64)),
        places=np.pad(spans[spans[:, 0] != 0], ((0, 0), (0, 1))),
    )
    return UnplacedPlan(made, blocks, views[:, 0].astype(np.int64))


# ---- iterations of a Repeat ----


def _repeated(planner: Planner, body: range, iterations: int) -> list[tuple[int, Call]]:
    """Returns the calls of a body for all iterations, each with its command; views move from iteration to iteration.

    Iterations 0 and 1 are planned: their calls differ in the beginnings of views, as calls of any two iterations do.
    """
    commands = planner.computation.commands[body.start : body.stop]
    is_uneven = any(s in planner.computation.iterations for command in commands for s in command.form.operands(command))
    assert not is_uneven or not any(
        planner.computation.submatrices[s].row_step and s not in planner.computation.iterations
        for command in commands
        for s in command.form.operands(command)
    ), "some move evenly, and some do not"
    looked_at, scratch = (0,) if is_uneven else (0, min(1, iterations - 1)), len(planner.blocks)
    planned = [_in_turn(planner, body, iteration, scratch) for iteration in looked_at]
    found: list[tuple[int, Call]] = []
    for calls in zip(*planned, strict=True):
        command, kind, _, number = calls[0]
        operands = zip(*(args for _, _, args, _ in calls), strict=True)
        moved = [each[0] if is_uneven else _moving(*each) for each in operands]
        args = [planner.views.add(arg) if isinstance(arg, tuple) else arg for arg in moved]
        assert all(each[:2] == (command, kind) and each[3] == number for each in calls), "iterations have other calls"
        found.append((command, (kind, args, number)))
    return found


def _in_turn(planner: Planner, body: range, iteration: int, scratch: int) -> list[_Planned]:
    """Returns the calls of a body in one iteration, with views in the place of their numbers.

    Scratch memory begins with block `scratch`.
    """
    found: list[_Planned] = []
    with planner.in_iteration(iteration, scratch):
        for number in body:
            planner.command = number
            plan_command(planner.computation.commands[number], planner)
            for kind, args, factor in planner.calls[len(found) :]:
                given = tuple([planner.views.rows[arg] if isinstance(arg, View) else arg for arg in args])
                found.append((number, kind, given, factor))
    return found


def _moving(first: Any, second: Any) -> Any:
    """Returns an integer or a view's row that stands in a call for all iterations, from iterations 0 and 1."""
    if not isinstance(first, tuple):
        assert first == second, "an integer changes from iteration to iteration"
        return first
    assert second[:2] + second[3:] == first[:2] + first[3:], "a view changes its form"
    return (*first[:-2], second[2] - first[2], 0)


def _outside_plan(computation: NnetComputation, outside: Any, planner: Planner) -> OutsidePlan:
    matrix = computation.matrices[computation.submatrices[outside.submatrix].matrix]
    return OutsidePlan(
        outside.name, matrix.num_rows, matrix.num_cols, planner.lanes[planner.lane(outside.submatrix)], outside.writable
    )


def _segments(computation: NnetComputation, dtypes: Sequence[str], owners: np.ndarray) -> tuple[SegmentPlan, ...]:
    """Returns the segments, without idle segments (except the first).

    `dtypes`: the dtypes of the matrices, `owners`: the commands of all calls.
    """
    derivs = {io.name for io in computation.outputs}, {io.name for io in computation.inputs}
    segments = []
    start, accepts, provides = 0, dict[str, Port](), dict[str, Port]()

    def port(name: str, submatrix: int, is_deriv: bool) -> Port:
        block = computation.submatrices[submatrix]
        return Port(name, block.num_rows, block.num_cols, submatrix, dtypes[block.matrix], is_deriv)

    def add(first: int, end: int) -> None:
        first_call, end_call = (int((owners < command).sum()) for command in (first, end))
        ports = tuple(accepts.values()), tuple(provides.values())
        segments.append(SegmentPlan(first, end, first_call, end_call, *ports))

    for number, command in enumerate(computation.commands):
        if isinstance(command, AcceptInput):
            accepts[command.name] = port(command.name, command.dest, command.name in derivs[0])
        elif isinstance(command, ProvideOutput):
            provides[command.name] = port(command.name, command.source, command.name in derivs[1])
        elif isinstance(command, SegmentMarker):
            add(start, number + 1)
            start, accepts, provides = number + 1, {}, {}
    add(start, len(computation.commands))
    return tuple([segment for segment in segments if segment.start == 0 or segment.end_call > segment.first_call])
