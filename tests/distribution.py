"""How the processes of a test run share the tests, and what they tell of them."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from _pytest.runner import runtestprotocol
from xdist.scheduler import LoadFileScheduling

#: Files that take longest begin first: at the end no process waits for another's long file.
LONG = (
    "tests/cn/test_examples.py",
    "tests/cn/test_random_graphs.py",
    "tests/differential/test_passes.py",
    "tests/driver/test_any_number.py",
    "tests/families/test_ragged.py",
    "tests/recipes/test_mini_digits.py",
    "tests/runs/test_distributed.py",
)


def long_ones_first(items: list[pytest.Item]) -> None:
    """Bring the tests of the long files to the front; others stay in their order."""
    items.sort(key=lambda item: not item.nodeid.startswith(LONG))


class FileScheduling(LoadFileScheduling):  # type: ignore[misc]
    """The tests of a file run in one process: what they share is made once. Files begin in the order of the items.

    In xdist's own class a file with few tests begins late, however long they take, and each report looks at all tests
    so far.
    """

    def __init__(self, config: pytest.Config, log: Any) -> None:
        config.option.loadscopereorder = False
        super().__init__(config, log)

    def add_node_collection(self, node: Any, collection: Sequence[str]) -> None:
        super().add_node_collection(node, collection)
        if node in self.registered_collections:
            self.registered_collections[node] = _Indexed(collection)

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        super().mark_test_complete(node, item_index, duration)
        file = self._split_scope(self.registered_collections[node][item_index])
        if all(self.assigned_work[node][file].values()):
            del self.assigned_work[node][file]


class _Indexed(list[str]):
    """A list that finds items at once."""

    def __init__(self, items: Sequence[str]) -> None:
        super().__init__(items)
        self._places = {item: place for place, item in enumerate(items)}

    def index(self, item: str, *_: Any) -> int:
        return self._places[item]


class BriefWorker:
    """A process that tells of a test only how it went; how long set-up and the end took, if it is more than nothing."""

    @pytest.hookimpl
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        for report in runtestprotocol(item, log=False, nextitem=nextitem):
            if report.when == "call" or not report.passed or report.duration > 0.005:
                item.ihook.pytest_runtest_logreport(report=report)
        return True


def let_loggers_propagate(loggers: Mapping[str, object]) -> None:
    """pytest gives handlers to each logger that does not, six times a test, and PyTorch has dozens of them."""
    for logger in loggers.values():
        if isinstance(logger, logging.Logger):
            logger.propagate = True
