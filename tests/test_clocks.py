"""No test asserts a time, or waits for a time in which others should be done: machines differ, and have other work.

Tests count what is called, imported or executed (`call_count.py`), play the clock that code looks at, and wait for
events, at most for PATIENCE. Speed is measured in `benchmarks/`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
CLOCK_MODULES = {"time", "timeit", "asyncio"}
CLOCKS = {"perf_counter", "process_time", "thread_time", "monotonic", "clock_gettime", "getrusage", "getloadavg",
          "ru_maxrss", "sleep", "cpu_count", "process_cpu_count", "sched_getaffinity"}  # fmt: skip
WAITS = {"wait", "wait_for", "join", "acquire", "get", "result", "communicate", "run", "Barrier", "setitimer", "alarm"}
_MODULE = rf"\b({'|'.join(CLOCK_MODULES)})\b"
_SUSPECT = re.compile(rf"\bimport\b.*{_MODULE}|\bfrom {_MODULE}|{'|'.join(CLOCKS)}|deadline|timeout|\b(wait|join)\(\d")
_IN_TEXT = re.compile(rf"\bimport\b.*\b({'|'.join(CLOCK_MODULES)})\b|\b({'|'.join(CLOCKS)})\(")


def _offences(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Lines, and what is wrong there."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names if alias.name in CLOCK_MODULES)
        elif isinstance(node, ast.ImportFrom) and node.module in CLOCK_MODULES:
            yield node.lineno, node.module
        elif isinstance(node, ast.Name | ast.Attribute):
            name = node.id if isinstance(node, ast.Name) else node.attr
            if name in CLOCKS:
                yield node.lineno, name
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _IN_TEXT.search(node.value):
            yield node.lineno, "a clock in a program that is run"
        elif isinstance(node, ast.Call):
            yield from _limits(node)


def _limits(call: ast.Call) -> Iterator[tuple[int, str]]:
    """Numbers of seconds in calls that wait, and deadlines of hypothesis."""
    function = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    for keyword in call.keywords:
        limit = isinstance(keyword.value, ast.Constant) and keyword.value.value is not None
        if limit and (keyword.arg == "deadline" or (keyword.arg == "timeout" and function in WAITS)):
            yield call.lineno, f"{keyword.arg} of {function}: PATIENCE is for that, or None"
    if function in ("wait", "join") and call.args and isinstance(call.args[0], ast.Constant):
        value = call.args[0].value
        if isinstance(value, int | float):
            yield call.lineno, f"{function}({value}): PATIENCE is for that"


def test_no_test_depends_on_a_clock() -> None:
    texts = {path: path.read_text() for path in TESTS.rglob("*.py") if path != Path(__file__)}
    assert len(texts) > 300
    found = {path: [*_offences(ast.parse(text))] for path, text in texts.items() if _SUSPECT.search(text)}
    assert {path: offences for path, offences in found.items() if offences} == {}


@pytest.mark.parametrize(
    "text",
    [
        "import os, time",
        "from time import perf_counter as now",
        "os.sched_getaffinity(0)",
        "resource.getrusage(resource.RUSAGE_SELF)",
        "SCRIPT = 'import sys, time'",
        "f'import torch; time.sleep({seconds})'",
        "thread.join(5)",
        "event.wait(0.1)",
        "process.communicate(timeout=60)",
        "settings(deadline=200)",
    ],
)
def test_clocks_are_found(text: str) -> None:
    assert [*_offences(ast.parse(text))] != []


@pytest.mark.parametrize(
    "text",
    [
        "event.wait(PATIENCE)",
        "', '.join(words)",
        "settings(deadline=None)",
        "monkeypatch.setattr(module.time, 'perf_counter', lambda: now)",
        "World('gloo', timeout=7.5)",
        "datetime.fromtimestamp(now)",
    ],
)
def test_what_is_no_clock_is_not(text: str) -> None:
    assert [*_offences(ast.parse(text))] == []
