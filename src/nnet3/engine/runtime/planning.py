"""Planning: every command becomes calls on views of matrices, and matrices are laid out in one arena.

The calls come first, in an `UnplacedPlan`: views begin relative to a block of memory without an offset yet.
"""

from __future__ import annotations

from itertools import chain

import numpy as np
import torch

from nnet3.engine.ir.commands import AcceptInput, ProvideOutput, SegmentMarker
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.objects import many_objects
from nnet3.engine.ir.program_tables import OutsideMatrix
from nnet3.engine.runtime.dtypes import DTYPES, dtype_name
from nnet3.engine.runtime.plan import OutsidePlan, Plan, Port, SegmentPlan
from nnet3.engine.runtime.planner import Planner
from nnet3.engine.runtime.rules import plan_command
from nnet3.engine.runtime.unplaced_plan import UnplacedPlan


def plan(computation: NnetComputation, dtype: str | torch.dtype = "float32") -> Plan:
    """Lay out the memory of all matrices and decide by which calls each command runs.

    Raises ExecutionError for a command class without a rule, for a command that uses a matrix missing from memory, and
    for unknown dtypes.
    """
    made = unplaced_plan(computation, dtype)
    return made.placed(*made.packed())


def unplaced_plan(computation: NnetComputation, dtype: str | torch.dtype = "float32") -> UnplacedPlan:
    """Decide by which calls each command runs. Raises the errors of `plan`."""
    return unplaced_plan_by(Planner(computation, dtype_name(dtype)))


@many_objects()
def unplaced_plan_by(planner: Planner) -> UnplacedPlan:
    """Choose the calls for each command of the planner's computation."""
    computation = planner.computation
    owners: list[int] = []
    for number, command in enumerate(computation.commands):
        planner.command = number
        plan_command(command, planner)
        owners += [number] * (len(planner.calls) - len(owners))
    loops = []
    for repeat, body in computation.repeats():
        first, end = np.searchsorted(owners, [body.start, body.stop]).tolist()
        if end > first:
            loops.append((first, end, repeat.iterations, repeat.memo_step, repeat.precomputed_step))
    opcodes, args, factors = zip(*planner.calls, strict=True) if planner.calls else ((), (), ())
    starts = np.zeros(len(args) + 1, dtype=np.int64)
    np.cumsum(np.fromiter(map(len, args), np.int64, len(args)), out=starts[1:])
    views = np.array(planner.views, dtype=planner.numbers).reshape(-1, 11)
    blocks = np.array(planner.blocks, dtype=planner.numbers).reshape(-1, 6)
    spans = blocks[:, :3].astype(np.int64)
    made = Plan(
        dtype=planner.dtype,
        num_bytes=0,
        lanes=tuple(planner.lanes),
        outside=tuple([_outside_plan(computation, outside) for outside in computation.outside]),
        views=views[:, 1:],
        opcodes=tuple(planner.opcodes),
        texts=tuple(planner.texts),
        call_opcode=np.array(opcodes, dtype=np.int32),
        call_start=starts,
        call_args=np.fromiter(chain.from_iterable(args), planner.args, int(starts[-1])),
        call_number=np.array(factors, dtype=np.float64),
        call_command=np.array(owners, dtype=np.int32),
        loops=np.array(loops, dtype=np.int64).reshape(-1, 5),
        indexes=tuple(planner.indexes),
        uneven=tuple(planner.uneven),
        precomputed=tuple(computation.precomputed),
        kernels=tuple(planner.kernels),
        num_memos=computation.num_memos,
        need_model_derivative=computation.need_model_derivative,
        segments=_segments(computation, np.array(owners, dtype=np.int64)),
        spans=np.pad(spans[spans[:, 0] != 0], ((0, 0), (0, 1))),
    )
    sizes = np.array([*(DTYPES[name].itemsize for name in planner.lanes), 1], dtype=np.int64)
    lanes = np.maximum(views[:, 1].astype(np.int64), -1)  # outside of the arena numbers count rows
    return UnplacedPlan(made, blocks, views[:, 0].astype(np.int64), sizes[lanes])


def _outside_plan(computation: NnetComputation, outside: OutsideMatrix) -> OutsidePlan:
    matrix = computation.matrices[computation.submatrices[outside.submatrix].matrix]
    return OutsidePlan(outside.name, matrix.num_rows, matrix.num_cols, outside.writable)


def _segments(computation: NnetComputation, owners: np.ndarray) -> tuple[SegmentPlan, ...]:
    """Returns the segments, without idle segments (except the first). `owners`: the commands of all calls."""
    outputs, inputs = ({io.name for io in side} for side in (computation.outputs, computation.inputs))
    derivs = outputs - inputs, inputs - outputs  # a stream gives its state under the name under which it takes it
    segments = []
    start, accepts, provides = 0, dict[str, Port](), dict[str, Port]()

    def port(name: str, submatrix: int, is_deriv: bool) -> Port:
        block = computation.submatrices[submatrix]
        return Port(name, block.num_rows, block.num_cols, submatrix, is_deriv)

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
