"""How a program falls into segments, one of which each run goes through."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnet3.computation import commands as cmd
from nnet3.computation.computation import NnetComputation
from nnet3.compute.plan import Port, SegmentPlan
from nnet3.errors import ExecutionError


def find_segments(computation: NnetComputation, dtypes: Sequence[str]) -> list[SegmentPlan]:
    """The segments from the one at command 0 on, following gotos; `dtypes` are those of the matrices.

    Raises ExecutionError for a goto to nowhere and for a loop in which there is no segment marker.
    """
    stops = (cmd.AcceptInput, cmd.ProvideOutput, cmd.SegmentMarker, cmd.Label, cmd.Goto)
    marked = [number for number, command in enumerate(computation.commands) if isinstance(command, stops)]
    segments: dict[int, SegmentPlan] = {}
    start = 0
    while start not in segments:
        segments[start] = _follow(computation, start, marked, dtypes)
        start = segments[start].next_start
    return list(segments.values())


def segments_with_work(segments: Sequence[SegmentPlan], first_call: np.ndarray) -> tuple[SegmentPlan, ...]:
    """Without those that do nothing, except the first."""
    return tuple(
        [
            segment
            for segment in segments
            if segment.start == 0 or any(first_call[end] > first_call[first] for first, end in segment.commands)
        ]
    )


def _follow(computation: NnetComputation, start: int, marked: Sequence[int], dtypes: Sequence[str]) -> SegmentPlan:
    """From `start` to the next segment marker or the end; `marked` are the commands that matter."""
    commands = computation.commands
    labels = {commands[n].name: n for n in marked if isinstance(commands[n], cmd.Label)}  # type: ignore[attr-defined]
    derivs = {io.name for io in computation.outputs}, {io.name for io in computation.inputs}
    ranges, accepts, provides, gotos = [], dict[str, Port](), dict[str, Port](), set[int]()
    first, number = start, start

    def port(name: str, submatrix: int, is_deriv: bool) -> Port:
        block = computation.submatrices[submatrix]
        return Port(name, block.num_rows, block.num_cols, submatrix, dtypes[block.matrix], is_deriv)

    while (found := next((n for n in marked if n >= number), None)) is not None:
        command, number = commands[found], found + 1
        if isinstance(command, cmd.AcceptInput):
            accepts[command.name] = port(command.name, command.dest, command.name in derivs[0])
        elif isinstance(command, cmd.ProvideOutput):
            provides[command.name] = port(command.name, command.source, command.name in derivs[1])
        elif isinstance(command, cmd.SegmentMarker):
            break
        elif isinstance(command, cmd.Goto):
            if found in gotos:
                raise ExecutionError(f"command c{found} closes a loop in which there is no segment marker")
            if command.label not in labels:
                known = ", ".join(labels) or "none"
                raise ExecutionError(f"a goto names label '{command.label}', but the labels are: {known}")
            gotos.add(found)
            ranges.append((first, number))
            first = number = labels[command.label]
    else:
        number = len(commands)
    ranges.append((first, number))
    return SegmentPlan(start, number, tuple(ranges), tuple(accepts.values()), tuple(provides.values()))
