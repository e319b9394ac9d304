"""Linking: segments, loops, kernels by name, no allocation at run time."""

from __future__ import annotations

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from compute.programs import Program
from compute.toy_kernels import Product, Scale
from nnet3.computation import commands as cmd
from nnet3.computation.kernel import KernelInfo
from nnet3.compute import link
from nnet3.compute.link import LinkedComputation
from nnet3.errors import ExecutionError


def busy_program() -> Program:
    """Some of everything that moves data, without outside inputs or outputs."""
    program = Program()
    kernel = program.kernel(KernelInfo("product"))
    a, b, c = (program.matrix(40, 64, zeroed=True) for _ in range(3))
    steps = [program.matrix(4, 64, zeroed=True) for _ in range(10)]
    shuffled = program.index_table(torch.randperm(40, generator=torch.Generator().manual_seed(0)).tolist())
    table = program.multi_table([(step, row) for step in steps for row in range(4)])
    growing = program.range_table([(0, row) for row in range(40)])
    program.add(
        cmd.SetConst(a, 1.0),
        cmd.MatrixCopy(b, a, 0.5),
        cmd.MatrixAdd(b, a),
        cmd.Propagate(kernel, (a, b), c),
        cmd.CopyRows(b, c, shuffled),
        cmd.AddRows(a, c, shuffled, 0.5),
        cmd.CopyToRowsMulti(b, table),
        cmd.AddRowsMulti(b, table),
        cmd.CopyRowsMulti(a, table),
        cmd.AddRowRanges(a, c, growing),
        cmd.CompressMatrix(b, "bfloat16"),
        cmd.DecompressMatrix(b),
        cmd.SwapMatrix(a, b),
        cmd.DeallocMatrix(a),
    )
    return program


def run_calls(linked: LinkedComputation) -> None:
    with torch.no_grad():
        for call in linked.segments[0].calls:
            call()


def test_nothing_is_allocated_while_it_runs() -> None:
    linked = link(busy_program().computation, {"product": Product()})
    run_calls(linked)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        run_calls(linked)
    events = [event for event in profiler.key_averages() if event.key.startswith("aten::")]
    assert len(events) > 8
    allocated = {event.key: event.self_cpu_memory_usage for event in events if event.self_cpu_memory_usage > 4096}
    assert allocated == {}


def test_views_lie_in_the_arena_and_are_made_once() -> None:
    program = busy_program()
    linked = link(program.computation, {"product": Product()})
    begin = linked.arena.storage.data_ptr()
    linked.binder.command = 5
    view = linked.binder.view(1)
    assert begin <= view.data_ptr() < begin + linked.arena.num_bytes
    assert linked.binder.view(1) is view
    assert view.data_ptr() % 64 == 0


def test_undefined_matrices_can_be_filled_with_nan() -> None:
    for fill_undefined in (True, False):
        program = Program()
        matrix = program.matrix(2, 2)
        linked = link(program.computation, {}, fill_undefined=fill_undefined)
        run_calls(linked)
        assert bool(linked.binder.view(matrix).isnan().all()) == fill_undefined


def test_segments_of_a_forward_and_backward_program() -> None:
    program = Program()
    value = program.input("input", 2, 3)
    program.output("output", value)
    program.add(cmd.SegmentMarker(), cmd.AcceptInput(value, "output"), cmd.ProvideOutput(value, "input"))
    linked = link(program.computation, {})
    assert list(linked.segments) == [0, 4]
    assert (linked.segments[0].accepts, linked.segments[0].provides) == ({"input": value}, {"output": value})
    assert (linked.segments[4].accepts, linked.segments[4].provides) == ({"output": value}, {"input": value})
    assert linked.segment_at(linked.segments[4].next_start) is None


def test_a_last_segment_that_does_nothing_is_none() -> None:
    program = Program()
    value = program.input("input", 2, 3)
    program.add(cmd.SegmentMarker(), cmd.DeallocMatrix(value))
    linked = link(program.computation, {})
    assert list(linked.segments) == [0]
    assert linked.segment_at(linked.segments[0].next_start) is None


def test_a_loop_leads_back_into_itself() -> None:
    program = Program()
    value = program.matrix(2, 3)
    program.add(cmd.AcceptInput(value, "first"), cmd.Label("again"), cmd.SegmentMarker())
    program.add(cmd.AcceptInput(value, "next"), cmd.Goto("again"))
    linked = link(program.computation, {})
    loop = linked.segments[linked.segments[0].next_start]
    assert linked.segments[0].accepts == {"first": value}
    assert loop.accepts == {"next": value}
    assert linked.segments[loop.next_start] is loop


@pytest.mark.parametrize(
    ("commands", "message"),
    [
        ([cmd.Label("a"), cmd.NoOp(), cmd.Goto("a")], "command c2 closes a loop in which there is no segment marker"),
        ([cmd.Label("a"), cmd.Goto("b")], "a goto names label 'b', but the labels are: a"),
        ([cmd.Goto("b")], "the labels are: none"),
        ([cmd.Propagate(0, (), 0)], r"the network has no component 'tdnn1.affine' \(did you mean 'tdnn2.affine'\?\)"),
        ([cmd.Propagate(1, (), 0, store_stats=True)], "the network to update has no component 'extra'"),
    ],
)
def test_programs_that_cannot_be_linked(commands: list[cmd.Command], message: str) -> None:
    program = Program().add(*commands)
    program.kernel(KernelInfo("tdnn1.affine"))
    program.kernel(KernelInfo("extra"))
    kernels = {"tdnn2.affine": Scale(), "extra": Scale()}
    with pytest.raises(ExecutionError, match=message):
        link(program.computation, kernels, kernels_to_update={"tdnn2.affine": Scale()})
