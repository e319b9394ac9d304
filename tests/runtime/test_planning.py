"""Plans: where matrices lie, and segments."""

from __future__ import annotations

import pytest
import torch

from nnet3.engine.ir import commands as cmd
from nnet3.engine.ir.program_tables import IoInfo
from nnet3.engine.runtime import plan
from nnet3.engine.runtime.plan import SegmentPlan
from nnet3.errors import ExecutionError
from tests.runtime.programs import Program


def test_where_matrices_lie() -> None:
    program = Program()
    first = program.matrix(4, 4)
    program.add(cmd.DeallocMatrix(first))
    second = program.matrix(4, 4)
    program.add(cmd.SetConst(second, 1.0))
    made = plan(program.computation)
    assert made.byte_offset(1, 0) == made.byte_offset(2, 3) == 0
    with pytest.raises(ExecutionError, match="command c3 uses matrix m1, which is not in memory there"):
        made.byte_offset(1, 3)


@pytest.mark.parametrize(("dtype", "num_bytes"), [("float64", 128), ("float32", 64), ("bfloat16", 64)])
def test_memory_depends_on_the_dtype(dtype: str, num_bytes: int) -> None:
    program = Program()
    program.matrix(4, 4)
    assert plan(program.computation, dtype).num_bytes == num_bytes
    assert plan(program.computation, getattr(torch, dtype)).dtype == dtype


def names(segment: SegmentPlan) -> tuple[list[str], list[str]]:
    return [port.bound_name for port in segment.accepts], [port.bound_name for port in segment.provides]


def test_segments_of_a_forward_and_backward_program() -> None:
    program = Program()
    value = program.input("input", 2, 3)
    program.output("output", value)
    program.add(cmd.SegmentMarker(), cmd.AcceptInput(value, "output"), cmd.ProvideOutput(value, "input"))
    program.computation.inputs = [IoInfo("input", value, value)]
    forward, backward = plan(program.computation).segments
    assert (forward.start, forward.end, backward.start, backward.end) == (0, 4, 4, 6)
    assert names(forward) == (["input"], ["output"])
    assert names(backward) == (["output.deriv"], ["input.deriv"])


def test_segments_that_do_nothing_are_none() -> None:
    program = Program()
    value = program.input("input", 2, 3)
    program.add(cmd.SegmentMarker(), cmd.SegmentMarker(), cmd.ProvideOutput(value, "output"))
    program.add(cmd.SegmentMarker(), cmd.DeallocMatrix(value))
    assert [(segment.start, segment.end) for segment in plan(program.computation).segments] == [(0, 3), (4, 6)]
