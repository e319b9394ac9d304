"""Linking: segments, kernels by name, no allocation at run time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from nnet3.engine.ir import commands as cmd
from nnet3.engine.ir.kernel import KernelInfo
from nnet3.engine.runtime import LinkedComputation, link, plan
from nnet3.engine.runtime.constants import Constants
from nnet3.engine.runtime.kernels import Kernels
from nnet3.engine.runtime.memory import Arena
from nnet3.errors import ExecutionError
from tests.call_count import count_calls
from tests.runtime.programs import Program
from tests.runtime.toy_kernels import Product, Scale


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
        cmd.Propagate(kernel, "product", (a, b), c),
        cmd.CopyRows(b, c, shuffled),
        cmd.AddRows(a, c, shuffled, 0.5),
        cmd.AddToRowsMulti(b, table),
        cmd.AddRowsMulti(b, table),
        cmd.CopyRowsMulti(a, table),
        cmd.AddRowRanges(a, c, growing),
        cmd.CompressMatrix(b),
        cmd.DecompressMatrix(b),
        cmd.DeallocMatrix(a),
    )
    return program


def linked_to(program: Program, kernels: dict[str, Any], **options: Any) -> tuple[LinkedComputation, Arena]:
    made = plan(program.computation)
    arena = Arena(made.num_bytes, torch.device("cpu"))
    return link(made, Kernels(kernels), arena, **options), arena


def test_commands_of_which_nothing_runs_are_no_steps() -> None:
    program = Program()
    program.matrix(3, 4)
    linked, _ = linked_to(program, {})
    assert list(linked.calls_one_by_one(linked.plan.segments[0])) == []
    assert list(linked.calls_of_segment(0)) == []


def run_calls(linked: LinkedComputation) -> None:
    with torch.no_grad():
        for call in linked.calls_of_segment(0):
            call()


@pytest.mark.filterwarnings("ignore:.*Profiler clears events")  # of some versions of PyTorch
def test_nothing_is_allocated_while_it_runs() -> None:
    linked, _ = linked_to(busy_program(), {"product": Product()})
    run_calls(linked)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        run_calls(linked)
    events = [event for event in profiler.key_averages() if event.key.startswith("aten::")]
    assert len(events) > 8
    allocated = {event.key: event.self_cpu_memory_usage for event in events if event.self_cpu_memory_usage > 4096}
    assert allocated == {}


def test_undefined_matrices_can_be_filled_with_nan() -> None:
    for fill_undefined in (True, False):
        program = Program()
        matrix = program.matrix(2, 2)
        linked, arena = linked_to(program, {}, fill_undefined=fill_undefined)
        arena.storage.zero_()
        run_calls(linked)
        assert bool(linked.view(program.computation, matrix, 0).isnan().all()) == fill_undefined


def test_linking_is_a_few_calls_a_command() -> None:
    """No array work when linking: what a command costs does not depend on its tables."""

    def calls(rows: int) -> int:
        program = Program()
        source = program.matrix(rows, 2, zeroed=True)
        order = np.random.default_rng(0).permutation(rows).tolist()
        for _ in range(20):
            program.add(cmd.CopyRows(program.matrix(rows, 2), source, program.index_table(order)))
        made = plan(program.computation)
        arena = Arena(made.num_bytes, torch.device("cpu"))
        return count_calls(link, made, Kernels({}), arena)

    assert calls(1000) == calls(30)


@pytest.mark.parametrize(
    ("name", "stats", "message"),
    [
        ("tdnn1.affine", False, r"the network has no component 'tdnn1.affine' \(did you mean 'tdnn2.affine'\?\)"),
        ("extra", True, "the network to update has no component 'extra'"),
    ],
)
def test_kernels_that_are_not_there(name: str, stats: bool, message: str) -> None:
    program = Program()
    kernel = program.kernel(KernelInfo(name, inputs=()))
    program.add(cmd.Propagate(kernel, name, (), program.matrix(1, 1), store_stats=stats))
    kernels = Kernels({"tdnn2.affine": Scale(), "extra": Scale()}, {"tdnn2.affine": Scale()})
    with pytest.raises(ExecutionError, match=message):
        kernels.check(plan(program.computation))


def test_tables_are_loaded_once_for_all_memory() -> None:
    """Also those that kernels have loaded."""
    constants = Constants(torch.device("cpu"))
    made = plan(busy_program().computation)
    for _ in range(2):
        link(made, Kernels({"product": Product()}), Arena(made.num_bytes, torch.device("cpu")), None, constants)
        tables = dict(constants.loaded)
        rows = {key: table.tolist() for key, table in tables.items() if key[0] < 0}
        assert rows == {(-1, number): made.indexes[number].tolist() for _, number in rows}
    assert len(rows) >= 3
    link(made, Kernels({"product": Product()}), Arena(made.num_bytes, torch.device("cpu")), None, constants)
    assert all(constants.loaded[key] is table for key, table in tables.items())
