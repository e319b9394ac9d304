"""Where a run stands, and as JSON."""

from __future__ import annotations

import json

import pytest

from nnet3.runs.progress import Progress
from nnet3.train.objectives import ObjectiveStats


def test_json_and_back() -> None:
    progress = Progress(
        step=7, epoch=1, position=[3, "x"], done=0.25, scheduled_at=0.1, skipped=2, owes_snapshot=True,
        snapshots=[3, 5], interval=ObjectiveStats(-1.5, -0.5, 3.0, 1.0, 2.0), whole_epoch=ObjectiveStats(-4.0),
    )  # fmt: skip
    assert Progress.from_json(json.loads(json.dumps(progress.to_json()))) == progress


@pytest.mark.parametrize(("epoch", "done", "part"), [(0, 0.0, 0.0), (1, 0.5, 0.375), (3, 1.0, 1.0), (4, 0.25, 1.0)])
def test_part_done(epoch: int, done: float, part: float) -> None:
    assert Progress(epoch=epoch, done=done).part_done(4) == part
