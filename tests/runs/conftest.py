"""A small task in an empty folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runs.task import Task
from tools.kill_training_data import write_task


@pytest.fixture(scope="session")
def written_task(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("task")
    write_task(folder)
    return folder


@pytest.fixture
def task(tmp_path: Path, written_task: Path) -> Task:
    return Task(tmp_path, written_task)
