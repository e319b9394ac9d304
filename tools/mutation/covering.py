"""Which tests execute which lines, and how long each takes: measured once, kept in a file."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import coverage
import pytest

from tools.mutation.child import run_tests
from tools.mutation.mutant import Mutant, moved_lines
from tools.mutation.tree import Tree

MOST_SECONDS = 3 * 3600


@dataclass
class Covering:
    """`tests` are node ids, `seconds` how long each took; `lines` holds for each file and line numbers of tests."""

    tests: list[str]
    seconds: list[float]
    lines: dict[str, dict[int, list[int]]]
    texts: dict[str, str]  # of the files when they were measured

    def tests_of(self, mutant: Mutant) -> list[str]:
        """Those that execute a line of the mutant, quickest first.

        What is executed when a module is imported has none; then those that execute anything in its scope or, at last,
        in its file.
        """
        lines = self.lines.get(mutant.path)
        if lines is None:
            return []
        now = moved_lines(self.texts[mutant.path], mutant.text)
        for first, last in ((mutant.line, mutant.last_line), mutant.scope, (1, len(mutant.text))):
            found = {test for line in range(first, last + 1) for test in lines.get(now.get(line, 0), ())}
            if found:
                return [self.tests[test] for test in sorted(found, key=lambda test: self.seconds[test])]
        return []

    def has(self, path: str) -> bool:
        """Tells whether tests of a file or folder are measured."""
        return any(_is_in(test, path) for test in self.tests)

    def with_older(self, older: Covering, measured: list[str]) -> Covering:
        """Returns this covering of paths with all other tests of an older one; lines are numbered as they are now."""
        left = [k for k, test in enumerate(older.tests) if not any(_is_in(test, path) for path in measured)]
        number = {test: len(self.tests) + k for k, test in enumerate(left)}
        texts = {**older.texts, **self.texts}
        lines = {path: {line: [*found] for line, found in each.items()} for path, each in self.lines.items()}
        for path, each in older.lines.items():
            own = lines.setdefault(path, {})
            for now, before in moved_lines(older.texts[path], texts[path]).items():
                own[now] = own.get(now, []) + [number[test] for test in each.get(before, ()) if test in number]
        tests = self.tests + [older.tests[test] for test in left]
        return Covering(tests, self.seconds + [older.seconds[test] for test in left], lines, texts)

    def time_of(self, test: str) -> float:
        return self._time[test]

    def __post_init__(self) -> None:
        self._time = dict(zip(self.tests, self.seconds, strict=True))

    def write(self, path: Path) -> None:
        path.write_text(json.dumps([self.tests, self.seconds, self.lines, self.texts]))

    @classmethod
    def read(cls, path: Path) -> Covering:
        tests, seconds, lines, texts = json.loads(path.read_text())
        return cls(
            tests, seconds, {p: {int(n): found for n, found in each.items()} for p, each in lines.items()}, texts
        )


def _is_in(test: str, path: str) -> bool:
    return f"{test.split('::')[0]}/".startswith(f"{path.rstrip('/')}/")


class _Recorder:
    """A pytest plugin: tells `coverage` which test runs, notes times and failures."""

    def __init__(self, measure: coverage.Coverage):
        self.measure = measure
        self.seconds: dict[str, float] = defaultdict(float)
        self.failed: set[str] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.measure.switch_context(item.nodeid)
        try:
            return (yield)
        finally:
            self.measure.switch_context("")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] += report.duration
        if report.failed:
            self.failed.add(report.nodeid)


class _Measurement:
    """Runs in the forked process; its result is a file."""

    def __init__(self, tree: Tree, result: Path):
        self.tree, self.result = tree, result

    def pytest_configure(self, config: pytest.Config) -> None:
        config.pluginmanager.register(self.recorder)

    def prepare(self) -> Callable[[], None]:
        source = str(self.tree.root / "src")
        self.measure = coverage.Coverage(data_file=None, source=[source], config_file=False, messages=False)
        self.recorder = _Recorder(self.measure)
        self.measure.start()
        return self.finish

    def finish(self) -> None:
        self.measure.stop()
        recorder, data = self.recorder, self.measure.get_data()
        tests = [test for test in recorder.seconds if test not in recorder.failed]
        number = {test: k for k, test in enumerate(tests)}
        lines, texts = {}, {}
        for path in data.measured_files():
            name = str(Path(path).relative_to(self.tree.root))
            texts[name] = self.tree.read(name)
            lines[name] = {
                line: sorted(number[test] for test in contexts if test in number)
                for line, contexts in data.contexts_by_lineno(path).items()
            }
        Covering(tests, [round(recorder.seconds[test], 4) for test in tests], lines, texts).write(self.result)


def measure(tree: Tree, tests: list[str], result: Path) -> Covering:
    """Runs tests (files and folders) with coverage; failed ones are left out, measured ones in `result` stay there."""
    older = Covering.read(result) if result.is_file() else None
    measurement: Any = _Measurement(tree, result)
    output = tree.folder / "measure.txt"
    result.unlink(missing_ok=True)
    run_tests(tree.root, tree.environment, tests, [measurement], output, MOST_SECONDS, measurement.prepare)
    if not result.is_file():
        raise SystemExit(f"the tests could not be measured, see {output}")
    covering = Covering.read(result)
    if older:
        covering = covering.with_older(older, tests)
        covering.write(result)
    return covering
