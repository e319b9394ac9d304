"""What happens in a run between its minibatches, in one process and in two that threads play."""

from __future__ import annotations

from typing import Any

import pytest

import nnet3
from nnet3.errors import TrainingError
from nnet3.train.run.kinds import KINDS
from nnet3.train.run.plugs import Share
from nnet3.train.run.settings_text import read_settings_text
from nnet3.train.run.training_run import TrainingRun
from train.run.task import Task
from train.run.thread_world import run_in_threads

_STEP = TrainingRun._step


def _keys_of_each_minibatch(task: Task, rank: int, epoch: int) -> list[tuple[str, ...]]:
    """Those of one of two processes."""
    settings = KINDS.read(read_settings_text(str(task.settings)))
    nnet = nnet3.Nnet.from_config_file(task.folder / "net.config")
    source = KINDS.data["frames"].open(settings.data, nnet, Share(rank, 2), settings.training.seed)
    return [placed.keys for placed in source.training(epoch, None)]


def test_all_processes_skips_are_reported_and_counted(task: Task) -> None:
    """With models that are averaged each process skips alone."""
    task.change(distributed__mode='"averaging"', distributed__round=4, training__epochs=1)
    first, second = (_keys_of_each_minibatch(task, rank, 0) for rank in range(2))
    task.spoil("train.ark", {first[1][0], second[1][5], second[4][7]})
    assert run_in_threads(task) == [0, 0]
    skips = [(event["step"], event["process"], event["skipped"], tuple(event["keys"])) for event in task.events("skip")]
    assert skips == [(2, 0, 2, first[1]), (2, 1, 2, second[1]), (5, 1, 3, second[4])]
    assert all("not finite" in event["reason"] for event in task.events("skip"))
    task.use_folder("limited")
    task.change(training__max_skipped=2)
    ends = run_in_threads(task)
    assert all(isinstance(end, TrainingError) for end in ends)
    assert len({str(end) for end in ends}) == 1
    assert str(ends[0]).startswith(f"minibatch 5 (example {' '.join(second[4][:3])} and 5 more): input 'input' is not")
    assert "3 minibatches have been skipped so far, more than max-skipped = 2: the run stops" in str(ends[0])


@pytest.mark.parametrize("mode", ["all-reduce", "averaging"])
def test_the_objective_of_an_epoch_is_that_of_all_processes(task: Task, mode: str) -> None:
    """A line of the log for the whole epoch has the same sum."""
    task.change(distributed__mode=f'"{mode}"', training__epochs=1, output__print_every=6)
    assert run_in_threads(task) == [0, 0]
    (train,), (epoch,) = task.events("train"), task.events("epoch")
    assert train["frames"] == 6 * 2 * 8 * 4
    assert epoch["objective"] == train["objective"]


def test_all_reduce_is_one_process_on_the_joined_minibatch(task: Task) -> None:
    config = (task.folder / "net.config").read_text()
    (task.folder / "net.config").write_text(config.replace("dropout-proportion=0.1", "dropout-proportion=0"))
    task.change(data__minibatch_size=10, training__max_param_change=0.3, training__momentum=0.3)
    task.run()
    (alone,) = nnet3.load_nnet(task.exp / "final.raw").flat_parameters()
    events = [(event["step"], event["frames"]) for event in task.events("train")]
    task.change(data__minibatch_size=5)
    task.use_folder("two")
    assert run_in_threads(task) == [0, 0]
    (together,) = nnet3.load_nnet(task.exp / "final.raw").flat_parameters()
    assert float((alone - together).norm() / alone.norm()) < 1e-5
    assert [(event["step"], event["frames"]) for event in task.events("train")] == events


class _Stopped(Exception):
    pass


@pytest.mark.parametrize("mode", ["all-reduce", "averaging"])
def test_two_processes_go_on_to_the_same_bits(task: Task, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    """From a checkpoint in the middle of a round of averaging, when models are due that are only kept at its end."""
    task.change(distributed__mode=f'"{mode}"', distributed__round=4, training__epochs=2, checkpoints__every=2)
    assert run_in_threads(task) == [0, 0]
    expected, whole = task.final, [(event["step"], event["objective"]) for event in task.events("train")]
    models = {path.name: path.read_bytes() for path in (task.exp / "models").iterdir()}
    if mode == "averaging":
        assert {int(name[:9]) for name in models} == {8, 12}  # only at ends of rounds all have the same model
    task.use_folder("other")
    for stops_at in (3, 7, 11):

        def step(run: TrainingRun, placed: Any, stops_at: int = stops_at) -> None:
            if run.progress.step == stops_at:
                raise _Stopped
            _STEP(run, placed)

        with monkeypatch.context() as patch:
            patch.setattr(TrainingRun, "_step", step)
            assert any(isinstance(end, _Stopped) for end in run_in_threads(task, resume=True))
    assert run_in_threads(task, resume=True) == [0, 0]
    assert [event["step"] for event in task.events("resume")] == [2, 6, 10]
    assert task.final == expected
    assert [(event["step"], event["objective"]) for event in task.events("train")] == whole
    assert {path.name: path.read_bytes() for path in (task.exp / "models").iterdir()} == models
