"""Curves of a run: what is drawn, and that it becomes a picture."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from nnet3.runs.curves import draw_curves, points

EVENTS: list[dict[str, Any]] = [
    {"event": "start", "step": 0},
    {"event": "train", "step": 5, "objective": -2.0, "learning_rate": 0.1},
    {"event": "valid", "step": 5, "objective": -2.5, "accuracy": 0.25},
    {"event": "epoch", "step": 5, "objective": -2.0},
    {"event": "train", "step": 10, "objective": -1.0, "learning_rate": 0.01, "accuracy": None},
]


def test_points() -> None:
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
def test_a_picture(tmp_path: Path, events: list[dict[str, Any]]) -> None:
    draw_curves(events, tmp_path / "curves.png")
    contents = (tmp_path / "curves.png").read_bytes()
    assert contents.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", contents[16:24])
    assert width == 960
    assert height == (864 if events is EVENTS else 576 if events else 288)
