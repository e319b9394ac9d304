"""The page of benchmarks, from results as the cases give them, and their times."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.page.__main__ import cases
from benchmarks.page.text import best_runtime, page, plot, ratio
from benchmarks.page.timing import in_turns, spread
from benchmarks.page.twins import TWINS

ABOUT = {
    "what": "about", "name": "", "sequences": 0, "frames": 0, "threads": 0, "processor": "P", "cores": 2,
    "python": "3", "torch": "2", "onnxruntime": "1", "date": "2030-01-02", "load": 3.0,
}  # fmt: skip
TIMES = {
    "forward": {
        "ours": [0.9, 1.0, 1.1],
        "packed": [0.8, 0.9, 1.0],
        "PyTorch": [1.0, 1.0, 1.0],
        "onnxruntime": [2.0, 2.0, 2.0],
    },
    "training": {"ours": [1.0, 1.0], "PyTorch": [2.0, 2.0], "natural gradient": [1.1, 1.1]},
    "graph": {"ours": [0.003], "PyTorch": [0.002]},
}


def result(case: dict[str, Any]) -> dict[str, Any]:
    filled = {"sequences": 1, "frames": 50, "threads": 1, "who": "ours", "wanted": {}, **case}
    measured = {
        "memory": {"peak": {"ours": 3e8}.get(filled["who"], 6e8)},
        "machine": {"gflops": 50.0, "gigabytes": 9.0},
    }
    return {**filled, **measured.get(case["what"], {"times": TIMES.get(case["what"]), "flops": 9_000_000_000})}


def test_the_page_has_a_row_for_each_case() -> None:
    made = cases(quick=False)
    results = [ABOUT, *map(result, made)]
    text = page(results)
    times = "1000 (950 - 1050) | 900 (850 - 950) | 1000 (1000 - 1000) | - | 2000 (2000 - 2000)"
    assert f"| TDNN-F 1 x 50 | 1 | {times} | **1.00** (0.95 - 1.05) |" in text
    assert "**0.90** (0.85 - 0.95), wanted 0.9 | **0.45** (0.43 - 0.47), wanted 0.95 | 10.0, 20% |" in text
    assert "**0.50** (0.50 - 0.50), wanted 0.95 | 1100 (1100 - 1100) | **10%**, wanted 10%" in text
    assert "| 300 | 600 | **0.50**, wanted 0.6 |" in text
    assert (
        "| MLP 20-32-5, 32 samples | 3.00 (3.00 - 3.00) | 2.00 (2.00 - 2.00) | **1.50** (1.50 - 1.50), wanted 1.2 |"
        in text
    )
    assert "What was not measured" not in text
    assert "The machine was busy (load 3.0)" in text
    assert "busy" not in page([{**ABOUT, "load": 0.2}, *results[1:]])
    assert {each["name"] for each in results if each["what"] == "forward"} == set(TWINS)


def test_a_case_that_failed_is_named(tmp_path: Path) -> None:
    failed = {key: value for key, value in result({"what": "forward", "name": "blstm"}).items() if key != "times"}
    results = [
        ABOUT,
        {**failed, "failed": "no compiler"},
        {**result({"what": "graph", "name": "MLP"}), "notes": {"X": "why"}},
    ]
    text = page(results)
    assert "| BLSTM 1 x 50 | 1 | - | - | - | - | - | - | - | - | - |" in text
    assert "* forward, BLSTM 1 x 50: no compiler" in text
    assert "X: why" in text
    plot(results, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 1000
    plot([ABOUT], tmp_path / "empty.png")


def test_ratios_are_of_rounds_and_the_faster_file_counts() -> None:
    times = {
        "ours": [1.0, 4.0, 9.0],
        "PyTorch": [2.0, 4.0, 3.0],
        "onnxruntime": [3.0],
        "onnxruntime, PyTorch's file": [2.0],
    }
    found = {"times": times}
    assert ratio(found, "PyTorch") == pytest.approx((1.0, 0.75, 2.0))
    assert ratio(found, "torch.compile") is None
    assert best_runtime(found) == "onnxruntime, PyTorch's file"
    assert best_runtime({}) == ""
    assert spread([1.0, 2.0, 3.0]) == (2.0, 1.5, 2.5)


def test_works_take_turns() -> None:
    calls: list[str] = []
    times = in_turns({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, seconds=0.0, least_rounds=2)
    assert calls == ["a", "b"] * 3
    assert [len(each) for each in times.values()] == [2, 2]
    assert len(in_turns({"a": lambda: None}, seconds=0.0, least_rounds=3, period=4)["a"]) == 4
