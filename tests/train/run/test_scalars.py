"""Scalars for TensorBoard can be read by it."""

from __future__ import annotations

from pathlib import Path

import pytest

from nnet3.train.run.scalars import Scalars


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
