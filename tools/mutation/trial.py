"""One mutant against the tests that execute it: those of the mirror file first, then of its room, then all others."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tools.mutation.child import run_tests
from tools.mutation.covering import Covering
from tools.mutation.mutant import Mutant
from tools.mutation.tree import Tree

CAUGHT, SURVIVED, UNCOVERED = "caught", "survived", "uncovered"
LEAST_SECONDS = 20.0
TIMES_SLOWER = 5.0
_TESTS = Path(__file__).resolve().parents[2] / "tests"


@dataclass(frozen=True)
class Outcome:
    """`by` is the test that failed, or why nothing could be run; `tests` how many were run at most."""

    state: str
    by: str
    tests: int
    seconds: float


class Selection:
    """A pytest plugin: runs certain tests in a certain order, and `files` wholly; notes the first that fails."""

    def __init__(self, tests: Sequence[str], known: frozenset[str], notes: Path):
        self.place = {test: k for k, test in enumerate(tests)}
        self.known, self.notes = known, notes

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        new = [item for item in items if item.nodeid not in self.known]
        items[:] = new + sorted(
            (item for item in items if item.nodeid in self.place), key=lambda item: self.place[item.nodeid]
        )

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.notes.write_text(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.notes.write_text(f"{report.nodeid} (cannot be imported)")


class Trial:
    """`budget`: for how many seconds of tests, as they were measured, are run at most for one mutant."""

    def __init__(self, tree: Tree, covering: Covering, budget: float):
        self.tree, self.covering, self.budget = tree, covering, budget
        self.known = frozenset(covering.tests)
        self.notes, self.output = tree.folder / "failed.txt", tree.folder / "output.txt"

    def __call__(self, mutant: Mutant) -> Outcome:
        start, count = time.monotonic(), 0
        with self.tree.changed(mutant):
            for tests, files in self._stages(mutant):
                count += len(tests)
                caught = self._fails(tests, files)
                if caught:
                    return Outcome(CAUGHT, caught, count, round(time.monotonic() - start, 2))
        return Outcome(SURVIVED if count else UNCOVERED, "", count, round(time.monotonic() - start, 2))

    def _stages(self, mutant: Mutant) -> Iterator[tuple[list[str], list[str]]]:
        """Tests to run together, and the files that they are in."""
        mirror, room = mirror_of(mutant.path)
        left = self.budget
        covering = self.covering.tests_of(mutant)
        stages: list[list[str]] = [[], [], []]

        def stage_of(test: str) -> int:
            return 0 if file_of(test) == mirror else 1 if test.startswith(room) else 2

        # Those near by have the budget first. What is executed at import has no tests of its own: all of the mirror
        # file may see it.
        near = [test for test in self.covering.tests if stage_of(test) == 0]
        for test in sorted(dict.fromkeys([*covering, *near]), key=stage_of):
            left -= self.covering.time_of(test)
            if left < 0 and any(stages):
                break
            stages[stage_of(test)].append(test)
        if (self.tree.root / mirror).is_file():
            yield stages[0], [mirror]
        for tests in stages[1:]:
            if tests:
                yield tests, sorted({file_of(test) for test in tests})

    def _fails(self, tests: list[str], files: list[str]) -> str:
        """The test that fails, or ''."""
        self.notes.unlink(missing_ok=True)
        expected = sum(self.covering.time_of(test) for test in tests)
        selection: Any = Selection(tests, self.known, self.notes)
        most = LEAST_SECONDS + TIMES_SLOWER * expected
        status = run_tests(self.tree.root, self.tree.environment, ["-x", *files], [selection], self.output, most)
        if status in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            return ""
        if status is None:
            return f"not done after {most:.0f} s"
        return self.notes.read_text() if self.notes.is_file() else f"exit status {status}"


def mirror_of(path: str) -> tuple[str, str]:
    """The test file of a source file, for a pass the one that runs all texts, and the folder of its room's tests.

    A wing of several rooms has no folder of tests, its rooms have.
    """
    parts = Path(path).relative_to("src/nnet3").parts
    parts = parts if len(parts) < 3 or (_TESTS / parts[0]).is_dir() else parts[1:]
    name = "text.py" if parts[:2] == ("ir", "passes") else parts[-1]
    return str(Path("tests", *parts[:-1], f"test_{name}")), str(Path("tests", parts[0])) + "/"


def file_of(test: str) -> str:
    return test.split("::", 1)[0]


class Results:
    """A JSON file, written after each mutant, so that a run can be interrupted; caught mutants are not tried again."""

    def __init__(self, path: Path):
        self.path = path
        self.found: dict[str, dict[str, Any]] = json.loads(path.read_text()) if path.is_file() else {}

    def add(self, mutant: Mutant, outcome: Outcome) -> None:
        before, after = mutant.change
        self.found[mutant.name] = {
            "where": f"{mutant.path}:{mutant.line}", "kind": mutant.kind, "before": before, "after": after,
            "state": outcome.state, "by": outcome.by, "tests": outcome.tests, "seconds": outcome.seconds,
        }  # fmt: skip
        partial = self.path.with_suffix(".part")
        partial.write_text(json.dumps(self.found, indent=1))
        partial.replace(self.path)

    def state(self, mutant: Mutant) -> str:
        return self.found.get(mutant.name, {}).get("state", "")
