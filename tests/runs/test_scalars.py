"""Scalars for TensorBoard can be read by it."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nnet3.runs.scalars import Scalars


@pytest.mark.filterwarnings("ignore")
def test_scalars_can_be_read(tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    scalars = Scalars(tmp_path, True, 0)
    for step in (1, 2, 3):
        scalars.write("train", step, objective=-1.0 * step, accuracy=None)
    scalars.close()
    scalars = Scalars(tmp_path, True, 2)
    scalars.write("train", 3, objective=-5.0)
    scalars.close()
    events = accumulator.EventAccumulator(str(tmp_path))
    events.Reload()
    assert events.Tags()["scalars"] == ["train/objective"]
    assert [(event.step, event.value) for event in events.Scalars("train/objective")][-1] == (3, -5.0)


def test_nothing_is_written_if_nobody_wants_it(tmp_path: Path) -> None:
    scalars = Scalars(tmp_path / "x", False, 0)
    scalars.write("train", 1, objective=1.0)
    scalars.close()
    assert not (tmp_path / "x").exists()


class _Writer:
    """Stands for TensorBoard's."""

    def __init__(self, folder: str, purge_step: int | None = None):
        self.made, self.written, self.closed = (folder, purge_step), list[tuple[str, float, int]](), False

    def add_scalar(self, name: str, value: float, step: int) -> None:
        self.written.append((name, value, step))

    def close(self) -> None:
        self.closed = True


def _fake(monkeypatch: pytest.MonkeyPatch, is_installed: bool) -> list[_Writer]:
    made: list[_Writer] = []

    def make(*arguments: Any, **options: Any) -> _Writer:
        made.append(_Writer(*arguments, **options))
        return made[-1]

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name if is_installed else None)
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", SimpleNamespace(SummaryWriter=make))  # type: ignore[arg-type]
    return made


@pytest.mark.parametrize(("first_step", "purged"), [(0, None), (1, 1), (7, 7)])
def test_what_tensorboard_is_given(monkeypatch: pytest.MonkeyPatch, first_step: int, purged: int | None) -> None:
    made = _fake(monkeypatch, is_installed=True)
    scalars = Scalars(Path("folder"), True, first_step)
    scalars.write("train", 8, objective=-1.5, accuracy=None, rate=0.0)
    scalars.write("valid", 9, objective=-2.5)
    (writer,) = made
    assert writer.made == ("folder", purged)
    assert writer.written == [("train/objective", -1.5, 8), ("train/rate", 0.0, 8), ("valid/objective", -2.5, 9)]
    assert not writer.closed
    scalars.close()
    assert writer.closed


@pytest.mark.parametrize(("is_installed", "wanted"), [(True, False), (False, True)])
def test_without_tensorboard_nothing_is_written(
    monkeypatch: pytest.MonkeyPatch, is_installed: bool, wanted: bool
) -> None:
    made = _fake(monkeypatch, is_installed)
    scalars = Scalars(Path("folder"), wanted, 0)
    scalars.write("train", 8, objective=-1.5)
    scalars.close()
    assert made == []
