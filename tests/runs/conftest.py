"""A small task in an empty folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runs.task import Task


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return Task(tmp_path)
