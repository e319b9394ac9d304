"""A small task in an empty folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from train.run.task import Task


@pytest.fixture
def task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Task:
    return Task(tmp_path, monkeypatch)
