"""Curves of a run: what is drawn, and that it becomes a picture."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from nnet3.train.run.curves import draw_curves, points

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


@pytest.mark.parametrize("events", [EVENTS, EVENTS[:2], []], ids=["several", "one", "none"])
def test_a_picture(tmp_path: Path, events: list[dict[str, Any]]) -> None:
    draw_curves(events, tmp_path / "curves.png")
    contents = (tmp_path / "curves.png").read_bytes()
    assert contents.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", contents[16:24])
    assert width > 800
    assert height == (864 if events is EVENTS else 576 if events else 288)
