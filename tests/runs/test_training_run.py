"""What happens in a run between its minibatches, in one process and in two that threads play."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console

import nnet3
from nnet3.errors import Nnet3Error, TrainingError
from nnet3.examples import EXAMPLES, example_writer
from nnet3.training.runs import nnet_training_run, train_model as train_model_module
from nnet3.training.runs.archives import ArchiveSource
from nnet3.training.runs.data_kinds import KINDS
from nnet3.training.runs.display import Display
from nnet3.training.runs.interfaces import Share
from nnet3.training.runs.settings_text import read_settings_text
from nnet3.training.runs.train_model import train_model
from nnet3.training.runs.training_run import Progress, TrainingRun
from nnet3.training.train.objectives import ObjectiveStats
from tests.effort import EFFORT, at_night, nightly
from tests.runs.task import Task
from tests.runs.thread_group import run_in_threads
from tests.train.example_data import frame_example

_STEP = TrainingRun._step
WIDE = """
input-node name=input dim=3
component name=wide type=NaturalGradientAffineComponent input-dim=9 output-dim=40
component-node name=wide component=wide input=Append(Offset(input, -1), input, Offset(input, 1))
component name=norm type=BatchNormComponent dim=40
component-node name=norm component=norm input=wide
component name=narrow type=LinearComponent input-dim=40 output-dim=8 orthonormal-constraint=-1
component-node name=narrow component=narrow input=norm
component name=last type=NaturalGradientAffineComponent input-dim=8 output-dim=5
component-node name=last component=last input=narrow
component name=softmax type=LogSoftmaxComponent dim=5
component-node name=softmax component=softmax input=last
output-node name=output input=softmax
"""


def _keys_of_each_minibatch(task: Task, rank: int, epoch: int) -> list[tuple[str, ...]]:
    """Those of one of two processes."""
    settings = KINDS.read(read_settings_text(str(task.settings)))
    nnet = nnet3.Nnet.from_config_file(task.folder / "net.config")
    source = KINDS.data["frames"].kind().open(settings.data, nnet, Share(rank, 2), settings.training.seed)
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


def test_a_limit_below_what_was_skipped_stops_at_the_next_skip(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    """A resumed run may have a lower one: it goes on while nothing more is skipped."""
    task.change(training__epochs=1, checkpoints__every=1)
    task.spoil("train.ark", {_keys_of_each_minibatch(task, 0, 0)[0][0]})

    def step(run: TrainingRun, placed: Any) -> None:
        if run.progress.step == 3:
            raise _Stopped
        _STEP(run, placed)

    with monkeypatch.context() as patch:
        patch.setattr(TrainingRun, "_step", step)
        with pytest.raises(_Stopped):
            task.run()
    assert [event["skipped"] for event in task.events("skip")] == [1]
    task.change(training__max_skipped=0)
    assert task.run(resume=True) == 0


@pytest.mark.parametrize("mode", ["all-reduce", "averaging"])
def test_the_objective_of_an_epoch_is_that_of_all_processes(task: Task, mode: str) -> None:
    """A line of the log for the whole epoch has the same sum."""
    task.change(distributed__mode=f'"{mode}"', training__epochs=1, output__print_every=6)
    assert run_in_threads(task) == [0, 0]
    (train,), (epoch,) = task.events("train"), task.events("epoch")
    assert train["frames"] == 6 * 2 * 8 * 4
    assert epoch["objective"] == train["objective"]


@nightly
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


@pytest.mark.parametrize("count", [3, *at_night(2)])
def test_processes_are_one_on_ragged_archives(task: Task, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Examples of three lengths, of which the last minibatches are smaller, in a network wider than some have rows."""
    _write_ragged(task)
    load = train_model_module.load_start
    monkeypatch.setattr(train_model_module, "load_start", lambda *given: load(*given).to(dtype=torch.float64))
    task.change(data__minibatch_size=f'"{count}:24"', training__momentum=0.5, training__epochs=1)
    task.run()
    (alone,) = nnet3.load_nnet(task.exp / "final.raw").flat_parameters()
    steps = [(event["step"], event.get("discarded")) for event in task.events("epoch")]
    task.change(data__minibatch_size=f'"1:{24 // count}"')
    task.use_folder("together")
    assert run_in_threads(task, count) == [0] * count
    (together,) = nnet3.load_nnet(task.exp / "final.raw").flat_parameters()
    assert [(event["step"], event.get("discarded")) for event in task.events("epoch")] == steps
    assert float((alone - together).norm() / alone.norm()) < 1e-5


def _write_ragged(task: Task) -> None:
    (task.folder / "net.config").write_text(WIDE)
    rng = np.random.default_rng(5)
    with example_writer(f"ark:{task.folder}/train.ark", EXAMPLES) as writer:
        for number in range(133):
            writer.write(f"example-{number}", frame_example(rng, frames=int(rng.choice([1, 4, 9], p=[0.6, 0.3, 0.1]))))
    with example_writer(f"ark:{task.folder}/valid.ark", EXAMPLES) as writer:
        writer.write("example", frame_example(rng))


class _Stopped(Exception):
    pass


def test_readers_are_closed_when_a_step_fails(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not when the error is forgotten: a signal that comes while that happens is a traceback."""
    closed: list[bool] = []
    original = ArchiveSource.training

    def training(source: Any, epoch: int, position: Any) -> Iterator[Any]:
        try:
            yield from original(source, epoch, position)
        finally:
            closed.append(True)

    def step(run: TrainingRun, placed: Any) -> None:
        raise _Stopped

    monkeypatch.setattr(ArchiveSource, "training", training)
    monkeypatch.setattr(TrainingRun, "_step", step)
    with pytest.raises(_Stopped) as error:
        task.run()
    assert closed == [True]
    assert error.value.__traceback__ is not None


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
    stops = (3, 7, 11) if EFFORT > 1 else (7,)
    for stops_at in stops:

        def step(run: TrainingRun, placed: Any, stops_at: int = stops_at) -> None:
            if run.progress.step == stops_at:
                raise _Stopped
            _STEP(run, placed)

        with monkeypatch.context() as patch:
            patch.setattr(TrainingRun, "_step", step)
            assert any(isinstance(end, _Stopped) for end in run_in_threads(task, resume=True))
    assert run_in_threads(task, resume=True) == [0, 0]
    assert [event["step"] for event in task.events("resume")] == [step - 1 for step in stops]
    assert task.final == expected
    assert [(event["step"], event["objective"]) for event in task.events("train")] == whole
    assert {path.name: path.read_bytes() for path in (task.exp / "models").iterdir()} == models


class _Shown(Display):
    """Notes what is shown, and measures no time."""

    def __init__(self) -> None:
        super().__init__(Console(file=io.StringIO()))
        self.parts: list[float] = []
        self.updates: list[tuple[float, int, str, float | None]] = []

    @contextlib.contextmanager
    def showing(self, done: float) -> Iterator[None]:
        self.parts.append(done)
        yield

    def update(self, done: float, frames: int, epoch: str, objective: float | None) -> None:
        self.updates.append((done, frames, epoch, objective))

    @property
    def frames_per_second(self) -> float:
        return 1234.5678

    def seconds_left(self, done: float) -> float | None:
        return None if done < 0.5 else 100 * done + 0.7


def _run(task: Task, **options: Any) -> _Shown:
    shown = _Shown()
    train_model(KINDS.read(read_settings_text(str(task.settings))), KINDS, display=shown, **options)
    return shown


def test_what_is_told_and_when(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    """12 minibatches of 32 frames an epoch."""
    ends: list[TrainingRun] = []
    monkeypatch.setattr(train_model_module, "finish_run", ends.append)
    task.change(training__epochs=2, validation__every=5, output__print_every=8, checkpoints__every=7)
    shown = _run(task)
    valid = [(event["step"], event["epoch"]) for event in task.events("valid")]
    assert valid == [(5, 1), (10, 1), (12, 1), (15, 2), (20, 2), (24, 2)]
    train = [
        (event["step"], event["epoch"], event["frames"], event["frames_per_second"], event["seconds_left"])
        for event in task.events("train")
    ]
    assert train == [(8, 1, 256, 1234.6, None), (16, 2, 256, 1234.6, 67), (24, 2, 256, 1234.6, 101)]
    assert [event["learning_rate"] for event in task.events("train")] == pytest.approx(
        [0.02 * 0.1 ** ((step - 1) / 24) for step in (8, 16, 24)]
    )
    epochs = [(event["step"], event["epoch"], event["discarded"]) for event in task.events("epoch")]
    assert epochs == [(12, 1, 4), (24, 2, 4)]
    checkpoints = [(event["step"], event["path"]) for event in task.events("checkpoint")]
    assert checkpoints == [(step, str(task.exp / "checkpoints" / f"{step:09}")) for step in (7, 14, 21, 24)]
    (trained,), (start,), (settings,) = task.events("trained"), task.events("start"), task.events("settings")
    assert (trained["step"], trained["skipped"]) == (24, 0)
    assert (start["step"], start["model"], start["processes"]) == (0, str(task.folder / "net.config"), 1)
    assert start["parameters"] == nnet3.Nnet.from_config_file(task.folder / "net.config").num_parameters
    assert (settings["training.epochs"], settings["minibatches"], settings["processes"]) == (2, 12, 1)
    assert shown.parts == [0.0]
    done, frames, names, objectives = zip(*shown.updates, strict=True)
    assert done == pytest.approx([step / 24 for step in range(1, 25)])
    assert set(frames) == {32}
    assert names == ("1/2",) * 12 + ("2/2",) * 12
    (run,) = ends
    assert objectives[7] == pytest.approx(task.events("train")[0]["objective"])  # of what has not been told yet
    assert run.stop.at_once


def test_a_resumed_run_tells_what_is_new(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also without `resume`, if torchrun has started it again."""
    task.change(training__epochs=1)
    task.run()
    firsts: list[int] = []
    reports = train_model_module.Reports

    def note(section: Any, first_step: int, *others: Any) -> Any:
        firsts.append(first_step)
        return reports(section, first_step, *others)

    monkeypatch.setattr(train_model_module, "Reports", note)
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    shown = _run(task)
    assert (firsts, shown.parts, shown.updates) == ([12], [1.0], [])
    (resume,) = task.events("resume")
    assert (resume["step"], resume["checkpoint"]) == (12, str(task.exp / "checkpoints" / "000000012"))
    assert (resume["model"], resume["processes"]) == (str(task.folder / "net.config"), 1)
    log = (task.exp / "log.txt").read_text()
    assert log.count(" checkpoint step=12 ") == 1  # it is there: it is not written again


def test_while_nothing_counts_there_is_no_objective_to_show(task: Task) -> None:
    task.change(training__epochs=1, output__print_every=2)
    keys = _keys_of_each_minibatch(task, 0, 0)[0]
    task.spoil("train.ark", {keys[0]})
    shown = _run(task)
    assert [objective is None for *_, objective in shown.updates] == [True] + [False] * 11
    assert task.events("train")[0]["frames"] == 32


def test_only_the_first_process_validates(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    by: list[int] = []

    def evaluate(nnet: nnet3.Nnet, *_: object) -> dict[str, ObjectiveStats]:
        by.append(threading.get_ident())
        return {}

    frames: list[int] = []
    monkeypatch.setattr(Display, "update", lambda display, done, count, *_: frames.append(count))
    monkeypatch.setattr(nnet_training_run, "evaluate", evaluate)
    task.change(training__epochs=1, validation__every=3, combination__models=0)
    assert run_in_threads(task) == [0, 0]
    assert len(by) == 3
    assert len(set(by)) == 1
    assert task.events("valid") == []  # there was nothing to look at
    assert set(frames) == {2 * 8 * 4}  # of both


def test_json_and_back() -> None:
    progress = Progress(
        step=7, epoch=1, position=[3, "x"], done=0.25, scheduled_at=0.1, skipped=2, owes_snapshot=True,
        snapshots=[3, 5], interval=ObjectiveStats(-1.5, -0.5, 3.0, 1.0, 2.0), whole_epoch=ObjectiveStats(-4.0),
        tasks={"output": ObjectiveStats(-1.5)},
    )  # fmt: skip
    assert Progress.from_json(json.loads(json.dumps(progress.to_json()))) == progress


@pytest.mark.parametrize(("epoch", "done", "part"), [(0, 0.0, 0.0), (1, 0.5, 0.375), (3, 1.0, 1.0), (4, 0.25, 1.0)])
def test_the_part_done_counts_epochs_and_minibatches(epoch: int, done: float, part: float) -> None:
    assert Progress(epoch=epoch, done=done).part_done(4) == part


def test_a_number_of_jobs_that_grows_shows_in_rates_and_survives_a_stop(task: Task) -> None:
    """One process: rounds of 4 minibatches of each job, of which there are 2 at first, 3 later."""
    task.change(distributed__mode='"averaging"', distributed__round=4, training__proportional_shrink=0.5)
    task.change(distributed__num_jobs_initial=2, distributed__num_jobs_final=4)
    task.change(checkpoints__keep=100, checkpoints__every=3)
    assert task.run() == 0
    factors = [(event["step"], event["factor"]) for event in task.events("shrink")]
    assert [step for step, _ in factors] == [0, 8, 16, 28]
    rates = [(1 - factor) / 0.5 for _, factor in factors]
    assert rates[0] == pytest.approx(2 * 0.02)
    assert rates[2] == pytest.approx(3 * 0.02 * 0.1 ** (16 / 36), rel=1e-4)
    whole = task.final
    newest, *_ = sorted((task.exp / "checkpoints").iterdir(), key=lambda path: -int(path.name.rpartition("-")[2]))
    shutil.rmtree(newest)
    for path in (task.exp / "checkpoints").iterdir():
        if int(path.name.rpartition("-")[2]) > 15:
            shutil.rmtree(path)
    (task.exp / "final.raw").unlink()
    assert task.run(resume=True) == 0
    assert [event["step"] for event in task.events("resume")] == [15]
    assert task.final == whole


def test_jobs_are_models_that_are_averaged(task: Task) -> None:
    task.change(distributed__num_jobs_initial=2)
    with pytest.raises(Nnet3Error, match=r"num-jobs-final.*give both or none"):
        task.run()
    task.change(distributed__num_jobs_final=2)
    with pytest.raises(Nnet3Error, match="models that are averaged"):
        task.run()
