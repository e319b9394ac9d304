"""What a run tells, and that only the first process does."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import struct
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from rich.console import Console

from nnet3.base.options.run import OutputSection
from nnet3.errors import TrainingError
from nnet3.training.runs import reports as module
from nnet3.training.runs.display import Display
from nnet3.training.runs.reports import Reports, Scalars, draw_curves, points
from nnet3.training.train.objectives import ObjectiveStats

EVENTS: list[dict[str, Any]] = [
    {"event": "start", "step": 0},
    {"event": "train", "step": 5, "objective": -2.0, "learning_rate": 0.1},
    {"event": "valid", "step": 5, "objective": -2.5, "accuracy": 0.25},
    {"event": "epoch", "step": 5, "objective": -2.0},
    {"event": "train", "step": 10, "objective": -1.0, "learning_rate": 0.01, "accuracy": None},
]


def test_points_are_those_of_an_event_and_a_value() -> None:
    assert points(EVENTS, "train", "objective") == ([5.0, 10.0], [-2.0, -1.0])
    assert points(EVENTS, "valid", "accuracy") == ([5.0], [0.25])
    assert points(EVENTS, "train", "accuracy") == ([], [])


def _drawn(events: list[dict[str, Any]], path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The figure."""
    figures: list[Any] = []
    savefig = Figure.savefig

    def save(figure: Figure, *arguments: Any, **options: Any) -> None:
        figures.append(figure)
        savefig(figure, *arguments, **options)

    monkeypatch.setattr(Figure, "savefig", save)
    draw_curves(events, path)
    return figures[0]


def test_what_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    objective, accuracy, rate = _drawn(EVENTS, tmp_path / "x.png", monkeypatch).axes
    assert [axis.get_ylabel() for axis in (objective, accuracy, rate)] == [
        "objective per frame", "accuracy", "learning rate"
    ]  # fmt: skip
    train, valid, end_of_epoch = objective.lines
    assert (train.get_xydata().tolist(), train.get_label(), train.get_marker()) == ([[5, -2], [10, -1]], "training", "")
    assert (valid.get_xydata().tolist(), valid.get_label(), valid.get_marker()) == ([[5, -2.5]], "held out", "o")
    assert train.get_color() != valid.get_color()
    assert end_of_epoch.get_linewidth() < min(line.get_linewidth() for line in (train, valid, rate.lines[0]))
    assert len({line.get_linewidth() for line in (train, valid, rate.lines[0])}) == 1
    assert [text.get_text() for text in objective.get_legend().texts] == ["training", "held out"]
    assert (list(end_of_epoch.get_xdata()), end_of_epoch.get_linestyle()) == ([5, 5], ":")
    assert accuracy.lines[0].get_label() == "held out"
    assert rate.lines[0].get_xydata().tolist() == [[5, 0.1], [10, 0.01]]
    assert (rate.get_yscale(), rate.lines[0].get_marker(), rate.get_xlabel()) == (
        "log", "", "minibatches (dotted: ends of epochs)"
    )  # fmt: skip
    assert len(set(to_rgb(rate.lines[0].get_color()))) == 1  # grey: it is neither of the curves above
    assert objective.get_shared_x_axes().joined(objective, rate)
    assert [objective.spines[side].get_visible() for side in ("top", "right", "left", "bottom")] == [
        False,
        False,
        True,
        True,
    ]


def test_a_single_point_can_be_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line of one point shows nothing."""
    objective, rate = _drawn(EVENTS[:2], tmp_path / "x.png", monkeypatch).axes
    assert [axis.lines[0].get_marker() for axis in (objective, rate)] == ["o", "o"]


@pytest.mark.parametrize("events", [EVENTS, EVENTS[:2], []], ids=["several", "one", "none"])
def test_a_picture_of_the_curves_is_drawn(tmp_path: Path, events: list[dict[str, Any]]) -> None:
    draw_curves(events, tmp_path / "curves.png")
    contents = (tmp_path / "curves.png").read_bytes()
    assert contents.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", contents[16:24])
    assert width == 960
    assert height == (864 if events is EVENTS else 576 if events else 288)


def _reports(folder: Path, *, is_first: bool = True, **values: Any) -> tuple[Reports, io.StringIO]:
    shown = io.StringIO()
    section = OutputSection(folder=str(folder), **values)
    return Reports(section, 0, Display(Console(file=shown), is_first), is_first), shown


@pytest.fixture
def scalars(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What TensorBoard would get."""
    written: list[Any] = []

    class Scalars:
        def __init__(self, folder: Path, wanted: bool, first_step: int):
            written.append((folder.name, wanted, first_step))

        def write(self, group: str, step: int, **values: float) -> None:
            written.append((group, step, values))

        def close(self) -> None:
            written.append("closed")

    monkeypatch.setattr(module, "Scalars", Scalars)
    return written


def test_objectives_say_what_there_is(tmp_path: Path, scalars: list[Any]) -> None:
    reports, shown = _reports(tmp_path, tensorboard=True)
    reports.objectives("valid", 5, ObjectiveStats(-2.0, 0.0, 4.0), {}, epoch=1)
    reports.objectives("train", 6, ObjectiveStats(-2.0, -1.0, 4.0, 1.0, 2.0), {}, learning_rate=0.25, epoch=1)
    reports.record("settings", epochs=3)
    reports.close()
    events = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    valid, train, settings = [{key: value for key, value in event.items() if key != "time"} for event in events]
    assert valid == {"event": "valid", "step": 5, "objective": -0.5, "frames": 4.0, "epoch": 1}
    assert train == {
        "event": "train", "step": 6, "objective": -0.5, "frames": 4.0, "auxiliary": -0.25, "accuracy": 0.5,
        "learning_rate": 0.25, "epoch": 1,
    }  # fmt: skip
    assert settings == {"event": "settings", "epochs": 3}
    assert scalars == [
        ("tensorboard", True, 0),
        ("valid", 5, {"objective": -0.5, "frames": 4.0}),
        ("train", 6, {"objective": -0.5, "frames": 4.0, "auxiliary": -0.25, "accuracy": 0.5, "learning_rate": 0.25}),
        "closed",
    ]
    assert "valid step=5" in shown.getvalue()
    assert "settings" not in shown.getvalue()


def test_other_processes_write_nothing(tmp_path: Path, scalars: list[Any]) -> None:
    reports, shown = _reports(tmp_path, is_first=False, tensorboard=True, curves=True)
    reports.event("start", step=0)
    reports.record("settings")
    reports.objectives("train", 1, ObjectiveStats(-1.0, 0.0, 1.0), {})
    reports.draw(at_once=True)
    reports.close()
    assert os.listdir(tmp_path) == []
    assert shown.getvalue() == ""
    assert scalars[0] == ("tensorboard", False, 0)


def test_curves_are_drawn_now_and_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, drawn = [1000.0], list[float]()
    monkeypatch.setattr(module.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(module, "draw_curves", lambda events, path, titles: drawn.append(clock[0]))
    reports, _ = _reports(tmp_path, tensorboard=False)
    for clock[0] in (1001.0, 1059.0, 1061.0, 1062.0, 1120.0, 1130.0):
        reports.draw()
    assert drawn == [1061.0, 1130.0]
    reports.draw(at_once=True)
    assert drawn == [1061.0, 1130.0, 1130.0]
    without, _ = _reports(tmp_path, tensorboard=False, curves=False)
    without.draw(at_once=True)
    assert len(drawn) == 3


def test_a_picture_that_cannot_be_drawn_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for error in (OSError("full"), ValueError("odd"), TrainingError("bad")):
        monkeypatch.setattr(module, "draw_curves", lambda *_, error=error: (_ for _ in ()).throw(error))
        _reports(tmp_path, tensorboard=False)[0].draw(at_once=True)
        assert f"curves.png: the curves cannot be drawn: {error}" in caplog.text


def test_they_are_closed_whatever_happens(tmp_path: Path, scalars: list[Any]) -> None:
    display = Display(Console(file=io.StringIO()))
    opened = contextlib.closing(Reports(OutputSection(folder=str(tmp_path)), 7, display, True))
    with contextlib.suppress(KeyError), opened:
        raise KeyError
    assert scalars == [("tensorboard", True, 7), "closed"]


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
