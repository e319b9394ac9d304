"""Two runs cannot be in one folder at a time."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from nnet3.errors import Nnet3Error
from nnet3.runs import folder_lock
from nnet3.runs.folder_lock import locked
from tests.runs.task import Task


def test_only_one_holds_it(tmp_path: Path) -> None:
    with (
        locked(tmp_path),
        pytest.raises(Nnet3Error, match=rf"process {os.getpid()} on .* is training in this folder"),
        locked(tmp_path),
    ):
        pass
    (tmp_path / ".lock").write_text(300 * "x")  # a holder of old
    with locked(tmp_path):
        assert (tmp_path / ".lock").read_text() == f"process {os.getpid()} on {socket.gethostname()}\n"


def test_a_holder_that_has_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a full disk, say."""

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", refuse)
    with locked(tmp_path), pytest.raises(Nnet3Error, match="another process is training in this folder"):  # noqa: SIM117
        with locked(tmp_path):
            pass


def test_file_systems_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(folder_lock.fcntl, "flock", refuse)
    with locked(tmp_path), locked(tmp_path):
        assert (tmp_path / ".lock").read_text() == ""  # nobody is named as the holder of a lock that there is not


def test_a_second_run_does_not_touch_the_first_one(task: Task) -> None:
    task.exp.mkdir()
    with locked(task.exp), pytest.raises(Nnet3Error, match="is training in this folder: wait until it has ended"):
        task.run(resume=True)
    assert os.listdir(task.exp) == [".lock"]
