"""Covering: which cases execute which lines of a file."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager

import coverage

from tools.mutation.mutant import Mutant
from tools.plant.planting import ROOT, forget_results


class Covering:
    """For each line of some files the cases that execute it, by their numbers."""

    def __init__(self, paths: Collection[str]) -> None:
        self._files = [str(ROOT / path) for path in paths]
        self._measure = coverage.Coverage(data_file=None, include=self._files, config_file=False, messages=False)
        self._lines: dict[str, dict[int, list[str]]] = {}

    @contextmanager
    def of(self, case: int) -> Iterator[None]:
        """Note the lines that are executed meanwhile."""
        forget_results(self._files)
        self._measure.start()
        self._measure.switch_context(str(case))
        try:
            yield
        finally:
            self._measure.stop()

    def settle(self) -> None:
        """Read what was noted: a process that is forked cannot."""
        data = self._measure.get_data()
        self._lines = {path: data.contexts_by_lineno(path) for path in self._files}

    def cases_of(self, bug: Mutant) -> list[int]:
        """Returns the cases that execute a line of the bug, in their order."""
        of_line = self._lines[str(ROOT / bug.path)]
        found = {case for line in range(bug.line, bug.last_line + 1) for case in of_line.get(line, ())}
        return sorted(int(case) for case in found if case)
