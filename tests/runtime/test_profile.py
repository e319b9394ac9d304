"""Profiles: every command once, put together by what it is, as a table and as a trace."""

from __future__ import annotations

import importlib
import json
import os
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from nnet3.engine.runtime import NnetComputer
from nnet3.engine.runtime.profile import CommandTime, Profiler, ProfileReport, profile
from nnet3.errors import ExecutionError, Nnet3Error
from tests.runtime.programs import Program
from tests.runtime.scale_program import FEATURES, forward, scale_program
from tests.runtime.toy_kernels import Scale, net


def training_profile(repeats: int = 2) -> tuple[ProfileReport, NnetComputer]:
    computer = NnetComputer(scale_program(), net(scale=Scale(2.0)), net(scale=Scale(0.0)))
    return profile(computer, {"input": FEATURES}, repeats=repeats), computer


def test_all_commands_that_do_something(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(perf_counter=count(10.0, 0.5).__next__)
    monkeypatch.setattr(importlib.import_module("nnet3.engine.runtime.profile"), "time", clock)
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
    assert [t.seconds for t in report.times] == [0.5] * 6
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


def test_the_table_sums_by_kind_and_type() -> None:
    report, _ = training_profile()
    assert str(report) == report.table(["kind", "type"])
    lines = report.table(["kind"], limit=2).splitlines()
    assert lines[0].split() == ["kind", "calls", "ms", "%", "us/call", "MB", "GB/s"]
    assert len(lines) == 5
    assert lines[3].startswith("...")
    assert lines[4].split()[:2] == ["all", "6"]
    assert lines[4].split()[3] == "100.0"


def test_the_trace_has_an_event_for_each_command(tmp_path: Path) -> None:
    report, _ = training_profile()
    report.write_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert [event["name"] for event in events] == ["input", "output", "output", "output", "output", "input"]
    assert [event["tid"] for event in events] == [0, 0, 0, 6, 6, 6]
    assert events[0]["ts"] == 0
    assert events[1]["ts"] >= events[0]["dur"] > 0
    assert events[1]["args"]["command"].startswith("c3: scale.Propagate")


def test_a_trace_takes_the_place_of_a_file_and_does_not_write_into_it(tmp_path: Path) -> None:
    report, _ = training_profile()
    (tmp_path / "net.config").write_text("a network")
    os.link(tmp_path / "net.config", tmp_path / "trace.json")
    report.write_trace(tmp_path / "trace.json")
    assert (tmp_path / "net.config").read_text() == "a network"
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    with pytest.raises(Nnet3Error, match=r"nofolder/trace\.json: cannot write this file: No such file or directory"):
        report.write_trace(tmp_path / "nofolder" / "trace.json")


def test_a_profiler_with_data_of_ones_own() -> None:
    computer = NnetComputer(scale_program(), net(scale=Scale(2.0)), net(scale=Scale(0.0)))
    profiler = Profiler(computer.computation)
    with computer.observed(profiler):
        np.testing.assert_array_equal(forward(computer), 2 * FEATURES)
    assert [t.number for t in profiler.report().times] == [1, 3, 4]


def test_nothing_to_measure() -> None:
    report = profile(NnetComputer(Program().computation, net()))
    assert report.seconds == 0
    assert report.table().splitlines()[-1].startswith("all")
    with pytest.raises(ExecutionError, match="repeats must be at least 1, got 0"):
        profile(NnetComputer(Program().computation, net()), repeats=0)


def _time(number: int, kind: str, type: str, seconds: float, num_bytes: int, **others: object) -> CommandTime:
    values = {"segment": 0, "text": f"c{number}", "kernel": "", "node": "", "begin": 10.0, "last_seconds": 0.5}
    values |= {"number": number, "kind": kind, "type": type, "num_bytes": num_bytes, "seconds": seconds}
    return CommandTime(**{**values, **others})  # type: ignore[arg-type]


REPORT = ProfileReport(
    (
        _time(1, "Propagate", "Affine", 0.002, 4_000_000, kernel="a", node="tdnn1", begin=10.5),
        _time(2, "Propagate", "Affine", 0.004, 8_100_000, last_seconds=0.25),
        _time(3, "MatrixAdd", "", 0.001, 500_000, segment=6),
        _time(4, "Propagate", "Relu", 0.003, 0),
    ),
    repeats=3,
)


def test_the_numbers_of_a_table() -> None:
    assert REPORT.seconds == pytest.approx(0.010)
    assert REPORT.table().splitlines() == [
        "kind       type    calls      ms      %  us/call     MB  GB/s",
        "Propagate  Affine      2   6.000   60.0   3000.0  12.10   2.0",
        "Propagate  Relu        1   3.000   30.0   3000.0   0.00   0.0",
        "MatrixAdd              1   1.000   10.0   1000.0   0.50   0.5",
        "all                    4  10.000  100.0   2500.0  12.60   1.3",
    ]
    assert REPORT.table(["type"], limit=1).splitlines()[2:] == [
        "...         2   4.000   40.0   2000.0   0.50   0.1",
        "all         4  10.000  100.0   2500.0  12.60   1.3",
    ]


def test_the_contents_of_a_trace() -> None:
    first, second, third, _ = REPORT.chrome_trace()["traceEvents"]
    assert first == {
        "name": "tdnn1", "cat": "Propagate", "ph": "X", "pid": 0, "tid": 0, "ts": 500_000.0, "dur": 500_000.0,
        "args": {"command": "c1", "kernel": "a", "type": "Affine", "bytes": 4_000_000},
    }  # fmt: skip
    assert (second["name"], second["ts"], second["dur"], third["tid"]) == ("Propagate", 0.0, 250_000.0, 6)


def test_inputs_that_are_not_given_are_drawn_by_the_seed_and_the_same_in_each_repetition() -> None:
    seen: list[torch.Tensor] = []

    class Witness(Scale):
        def run_forward(self, inputs: Any, output: torch.Tensor, indexes: Any) -> Any:
            seen.append(inputs[0].clone())
            return super().run_forward(inputs, output, indexes)

    for seed in (0, 0, 1):
        profile(NnetComputer(scale_program(), net(scale=Witness()), net(scale=Scale())), repeats=2, seed=seed)
    assert len(seen) == 9
    assert all(torch.equal(matrix, seen[0]) for matrix in seen[:6])
    assert not torch.equal(seen[6], seen[0])
    profile(NnetComputer(scale_program(), net(scale=Witness()), net(scale=Scale())))
    assert len(seen) == 13
    assert torch.equal(seen[-1], seen[0])
