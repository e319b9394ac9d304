"""Profiles: every command once, put together by what it is, as a table and as a trace."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from compute.programs import Program
from compute.scale_program import FEATURES, forward, scale_program
from compute.toy_kernels import Scale, net
from nnet3.computation import commands as cmd
from nnet3.compute import NnetComputer
from nnet3.compute.profile import Profiler, ProfileReport, profile
from nnet3.errors import ExecutionError


def training_profile(repeats: int = 2) -> tuple[ProfileReport, NnetComputer]:
    computer = NnetComputer(scale_program(), net(scale=Scale(2.0)), net(scale=Scale(0.0)))
    return profile(computer, {"input": FEATURES}, repeats=repeats), computer


def test_all_commands_that_do_something() -> None:
    report, _ = training_profile()
    got = [(t.segment, t.number, t.kind, t.kernel, t.type, t.node) for t in report.times]
    assert got == [
        (0, 1, "AcceptInput", "", "", "input"),
        (0, 3, "Propagate", "scale", "Scale", "output"),
        (0, 4, "ProvideOutput", "", "", "output"),
        (6, 8, "AcceptInput", "", "", "output"),
        (6, 9, "Backprop", "scale", "Scale", "output"),
        (6, 10, "ProvideOutput", "", "", "input"),
    ]
    assert all(t.seconds > 0 for t in report.times)
    matrix, factor = 2 * 3 * 4, 4
    assert [t.num_bytes for t in report.times] == [
        *(matrix, 2 * matrix + factor, matrix),
        *(matrix, 3 * matrix + factor, matrix),
    ]
    assert report.times[1].text == "c3: scale.Propagate(m1, &m2) [node output]"


def test_the_computer_is_as_before() -> None:
    report, computer = training_profile(repeats=3)
    assert report.repeats == 3
    assert computer._nnets[1].components["scale"].factor != 0
    np.testing.assert_array_equal(forward(computer), 2 * FEATURES)


def test_rows_are_put_together() -> None:
    report, _ = training_profile()
    rows = report.rows(["kind"])
    assert {row.keys: row.calls for row in rows} == {
        ("AcceptInput",): 2,
        ("Propagate",): 1,
        ("ProvideOutput",): 2,
        ("Backprop",): 1,
    }
    assert sum(row.seconds for row in rows) == pytest.approx(report.seconds)
    assert [row.seconds for row in rows] == sorted([row.seconds for row in rows], reverse=True)
    assert {row.keys for row in report.rows(["kernel", "node"])} == {("", "input"), ("", "output"), ("scale", "output")}
    with pytest.raises(ExecutionError, match="cannot be put together by 'colour'; keys are: kind, type, kernel, node"):
        report.rows(["colour"])


def test_the_table() -> None:
    report, _ = training_profile()
    lines = report.table(["kind"], limit=2).splitlines()
    assert lines[0].split() == ["kind", "calls", "ms", "%", "us/call", "MB", "GB/s"]
    assert len(lines) == 5
    assert lines[3].startswith("...")
    assert lines[4].split()[:2] == ["all", "6"]
    assert lines[4].split()[3] == "100.0"


def test_the_trace(tmp_path: Path) -> None:
    report, _ = training_profile()
    report.write_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert [event["name"] for event in events] == ["input", "output", "output", "output", "output", "input"]
    assert [event["tid"] for event in events] == [0, 0, 0, 6, 6, 6]
    assert events[0]["ts"] == 0
    assert events[1]["ts"] >= events[0]["dur"] > 0
    assert events[1]["args"]["command"].startswith("c3: scale.Propagate")


def test_a_profiler_with_data_of_ones_own() -> None:
    computer = NnetComputer(scale_program(), net(scale=Scale(2.0)), net(scale=Scale(0.0)))
    profiler = Profiler(computer.computation)
    with computer.observed(profiler):
        np.testing.assert_array_equal(forward(computer), 2 * FEATURES)
    assert [t.number for t in profiler.report().times] == [1, 3, 4]


def test_a_loop_is_run_chunk_by_chunk() -> None:
    program = Program()
    value = program.matrix(2, 3)
    program.add(cmd.AcceptInput(value, "first"), cmd.Label("again"), cmd.SegmentMarker())
    program.add(cmd.AcceptInput(value, "next"), cmd.Goto("again"))
    report = profile(NnetComputer(program.computation, net()), {"first": torch.ones(2, 3)})
    assert [(t.segment, t.number) for t in report.times] == [(0, 1), (4, 4)]


def test_nothing_to_measure() -> None:
    report = profile(NnetComputer(Program().computation, net()))
    assert report.seconds == 0
    assert report.table().splitlines()[-1].startswith("all")
    with pytest.raises(ExecutionError, match="repeats must be at least 1, got 0"):
        profile(NnetComputer(Program().computation, net()), repeats=0)
