"""The demo with little data: what it writes and says (the real one is `make demo`)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cli.run_command import Cli
from nnet3 import load
from nnet3.cli.demo.digits import digit_tasks
from nnet3.cli.demo.task import Task

pytest.importorskip("sklearn")
pytest.importorskip("matplotlib")


def _small(task: Task, num_minibatches: int, goal: float) -> Task:
    schedule = replace(task.schedule, num_epochs=1)
    return replace(
        task,
        schedule=schedule,
        goal=goal,
        make_minibatches=lambda epoch: task.make_minibatches(epoch)[:num_minibatches],
    )


@pytest.mark.parametrize(("goal", "status"), [(0.0, 0), (1.0, 1)])
def test_what_it_writes_and_says(cli: Cli, monkeypatch: pytest.MonkeyPatch, goal: float, status: int) -> None:
    tasks = [_small(task, 2, goal) for task in digit_tasks(seed=1)[:1]]
    monkeypatch.setattr("nnet3.cli.demo.run_demo.digit_tasks", lambda seed: tasks)
    outcome = cli("demo", "--folder=results")
    assert outcome.status == status
    assert "2 minibatches, 1 epochs" in outcome.out
    assert ("learnt" in outcome.out) == (status == 0)
    assert (outcome.err == "") == (status == 0)
    folder = Path("results")
    assert load(folder / "model.raw").info().startswith("left-context")
    assert (folder / "network.config").read_text() == tasks[0].config_text
    assert (folder / "computation.txt").read_text().startswith("# ")
    assert (folder / "report.png").read_bytes().startswith(b"\x89PNG")


def test_minibatches_hold_each_image_once() -> None:
    first, second = (digit_tasks(seed=1)[0].make_minibatches(0) for _ in range(2))
    assert len(first) == 18
    for mine, theirs in zip(first, second, strict=True):
        np.testing.assert_array_equal(mine.inputs[0].matrix, theirs.inputs[0].matrix)
    assert all(len(batch.targets[0].indexes) == 64 for batch in first)
