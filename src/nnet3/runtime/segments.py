"""Segments of a program: each run goes through one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnet3.ir import commands as cmd
from nnet3.ir.computation import NnetComputation
from nnet3.runtime.plan import Port, SegmentPlan


def find_segments(
    computation: NnetComputation, dtypes: Sequence[str], first_call: np.ndarray
) -> tuple[SegmentPlan, ...]:
    """Returns the segments, without those that do nothing (except the first).

    `dtypes` are those of the matrices; command k becomes calls first_call[k] up to first_call[k + 1].
    """
    derivs = {io.name for io in computation.outputs}, {io.name for io in computation.inputs}
    segments = []
    start, accepts, provides = 0, dict[str, Port](), dict[str, Port]()

    def port(name: str, submatrix: int, is_deriv: bool) -> Port:
        block = computation.submatrices[submatrix]
        return Port(name, block.num_rows, block.num_cols, submatrix, dtypes[block.matrix], is_deriv)

    for number, command in enumerate(computation.commands):
        if isinstance(command, cmd.AcceptInput):
            accepts[command.name] = port(command.name, command.dest, command.name in derivs[0])
        elif isinstance(command, cmd.ProvideOutput):
            provides[command.name] = port(command.name, command.source, command.name in derivs[1])
        elif isinstance(command, cmd.SegmentMarker):
            segments.append(SegmentPlan(start, number + 1, tuple(accepts.values()), tuple(provides.values())))
            start, accepts, provides = number + 1, {}, {}
    segments.append(SegmentPlan(start, len(computation.commands), tuple(accepts.values()), tuple(provides.values())))
    return tuple([s for s in segments if s.start == 0 or first_call[s.end] > first_call[s.start]])
