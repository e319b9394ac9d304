"""Two processes of torchrun: all-reduce is one process on the joined minibatches; a process that dies costs nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

import nnet3
from train.run.task import Task
from train.run.torchrun import torchrun


def test_all_reduce_is_one_process_on_the_joined_minibatch(task: Task, tmp_path: Path) -> None:
    config = (task.folder / "net.config").read_text()
    (task.folder / "net.config").write_text(config.replace("dropout-proportion=0.1", "dropout-proportion=0"))
    task.change(data__minibatch_size=10, training__max_param_change=0.3, training__momentum=0.3)
    task.run()
    (alone,) = nnet3.load_nnet(task.exp / "final.raw").flat_parameters()
    steps, objectives = len(task.events("train")), [event["objective"] for event in task.events("train")]
    task.change(data__minibatch_size=5)
    task.use_folder("two")
    torchrun(task, tmp_path)
    (together,) = nnet3.load_nnet(task.exp / "final.raw").flat_parameters()
    assert float((alone - together).norm() / alone.norm()) < 1e-5
    assert len(task.events("train")) == steps > 3
    assert [event["objective"] for event in task.events("train")] == pytest.approx(objectives, rel=1e-4)
    assert task.events("final")[0]["step"] == 30


@pytest.mark.parametrize("mode", ["all-reduce", "averaging"])
def test_a_process_that_dies_is_started_again_and_the_run_goes_on(task: Task, tmp_path: Path, mode: str) -> None:
    task.change(distributed__mode=f'"{mode}"', distributed__round=5, data__minibatch_size=4)
    task.use_folder("undisturbed")
    torchrun(task, tmp_path)
    expected = task.final
    assert task.events("valid")[-1]["accuracy"] > 0.6
    task.use_folder("disturbed")
    torchrun(task, tmp_path, dies=True)
    assert [event["step"] for event in task.events("resume")] == [12]
    assert task.final == expected


def test_what_one_process_must_skip_is_skipped_by_all_and_reported_by_the_one_that_writes(
    task: Task, tmp_path: Path
) -> None:
    task.spoil("train.ark", {"example-17"})
    task.change(training__epochs=1, data__minibatch_size='"1:8"')
    torchrun(task, tmp_path)
    skips = task.events("skip")
    assert [event["process"] for event in skips] == [0, 1]
    (bad,) = [event for event in skips if "example-17" in event["keys"]]
    assert "NaN" in bad["reason"] or "finite" in bad["reason"]
    assert task.events("epoch")[0]["objective"] < 0
