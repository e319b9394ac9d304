"""How the processes of a test run share the tests, and what they tell of them."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from _pytest.runner import runtestprotocol
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

#: Files that take longest begin first: at the end no process waits for another's long file.
LONG = (
    "tests/asr/test_recognizer.py",
    "tests/cli/test_startup.py",
    "tests/cli/test_transcribing.py",
    "tests/driver/test_family_store.py",
    "tests/driver/test_ragged_family.py",
    "tests/networks/test_golden_networks.py",
    "tests/recipes/test_mini_digits.py",
    "tests/recipes/test_spoken_digits.py",
    "tests/runs/test_distributed.py",
    "tests/runs/test_train_model.py",
    "tests/runs/test_training_run.py",
    "tests/runtime/test_ragged_plans.py",
    "tests/serve/test_conversation.py",
)


def long_ones_first(items: list[pytest.Item]) -> None:
    """Bring the tests of the long files to the front; others stay in their order."""
    items.sort(key=lambda item: not item.nodeid.startswith(LONG))


class FilesInTurn(LoadFileScheduling):  # type: ignore[misc]  # it has no types
    """The tests of a file run in one process: what they share is made once.

    It looks tests up, where the class below goes through 19,000 names for each.
    """

    def add_node_collection(self, node: WorkerController, collection: Sequence[str]) -> None:
        super().add_node_collection(node, collection)
        self.registered_collections[node] = _Names(collection)

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        super().mark_test_complete(node, item_index, duration)
        files, name = self.assigned_work[node], self._split_scope(self.registered_collections[node][item_index])
        if all(files[name].values()):
            del files[name]  # it is not counted again with each test that follows


class _Names(list[str]):
    """Names that know their places."""

    def __init__(self, names: Sequence[str]):
        super().__init__(names)
        self._places = {name: place for place, name in enumerate(names)}

    def index(self, name: str, *_: Any) -> int:
        return self._places[name]


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
