"""Whole runs: they learn, stop when asked, go on to the same bits, refuse what cannot be meant."""

from __future__ import annotations

import dataclasses
import logging
import os
import re
import signal
import threading
from typing import Any

import pytest
import torch

import nnet3
from nnet3.base.options.run import TrainingSection
from nnet3.errors import ConfigError, Nnet3Error, TrainingError
from nnet3.train import TrainerOptions
from nnet3.training.runs import train_model as train_model_module, training_run
from nnet3.training.runs.checkpoints import Checkpoints
from tests.effort import at_night
from tests.runs.task import Task
from tests.shared_data import GOLDEN


def test_a_run_learns_and_leaves_what_it_promises(task: Task) -> None:
    task.change(output__curves="true", validation__every=10)
    assert task.run() == 0
    assert {path.name for path in task.exp.iterdir()} == {
        *("checkpoints", "models", "final.raw", "log.txt", "log.jsonl", "curves.png", ".lock")
    }
    valid = task.events("valid")
    assert valid[-1]["accuracy"] > 0.7
    assert valid[-1]["objective"] > valid[0]["objective"] + 0.03
    train = task.events("train")
    rates = [event["learning_rate"] for event in train]
    assert rates == sorted(rates, reverse=True)
    assert 0.015 < rates[0] < 0.02
    assert 0.002 < rates[-1] < 0.0025
    assert [event["epoch"] for event in task.events("epoch")] == [1, 2, 3]
    assert train[0]["frames"] == 4 * 8 * 4
    (final,) = task.events("final")
    assert final["step"] == 36
    assert isinstance(nnet3.load(task.exp / "final.raw"), nnet3.Nnet)
    kept = sorted((task.exp / "models").iterdir())
    assert [path.name for path in kept] == [f"0000000{step}.raw" for step in (23, 27, 32, 36)]
    assert "Using the model averaged over last" in task.events("combine")[-1]["message"]
    assert re.search(r"settings .* training.epochs=3 ", (task.exp / "log.txt").read_text())


def test_two_runs_are_equal_and_seeds_matter(task: Task) -> None:
    finals = []
    task.change(training__epochs=1)
    for number, seed in enumerate((0, 0, 1)):
        task.change(training__seed=seed, output__folder=f'"{task.folder}/{number}"')
        task.run()
        finals.append((task.folder / str(number) / "final.raw").read_bytes())
    assert finals[0] == finals[1] != finals[2]


class _Signals:
    """Sends this process a signal after a number of minibatches."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.after, self.number = -1, signal.SIGTERM
        original = training_run.TrainingRun._step

        def step(run: training_run.TrainingRun, *arguments: object) -> None:
            original(run, *arguments)  # type: ignore[arg-type]
            if run.progress.step == self.after:
                os.kill(os.getpid(), self.number)

        monkeypatch.setattr(training_run.TrainingRun, "_step", step)


@pytest.mark.parametrize(
    ("number", "stops"),
    [
        (signal.SIGTERM, (4, 27)),
        (signal.SIGINT, (13,)),
        *at_night((signal.SIGTERM, (4, 13, 26, 27, 36)), (signal.SIGINT, (4, 13, 26, 27, 36))),
    ],
)
def test_a_signal_saves_and_the_run_goes_on_to_the_same_bits(
    task: Task, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, stops: tuple[int, ...]
) -> None:
    handlers = [signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)]
    task.run()
    expected = task.final
    task.change(output__folder=f'"{task.folder}/other"')
    task.exp = task.folder / "other"
    signals = _Signals(monkeypatch)
    signals.number = number
    for after in stops:
        signals.after = after
        assert task.run(resume=True) == 128 + number
        latest = Checkpoints(task.exp / "checkpoints", 1).latest()
        assert latest is not None
        assert latest.step == after
    assert not (task.exp / "final.raw").exists()
    assert task.run(resume=True) == 0
    assert task.final == expected
    said = re.findall(r" stop step=(\d+) signal=(\w+)", (task.exp / "log.txt").read_text())
    assert said == [(str(step), number.name) for step in stops]
    assert handlers == [signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)]


def test_a_run_in_another_thread_needs_no_signals(task: Task) -> None:
    task.change(training__epochs=1)
    statuses: list[int] = []
    thread = threading.Thread(target=lambda: statuses.append(task.run()))
    thread.start()
    thread.join()
    assert statuses == [0]


def test_a_finished_run_may_be_resumed(task: Task) -> None:
    task.run()
    expected, models = task.final, sorted(os.listdir(task.exp / "models"))
    (task.exp / "final.raw").unlink()
    (task.exp / "models" / "000000099.raw").touch()  # of a run in this folder that was cut short
    task.run(resume=True)
    assert task.final == expected
    assert sorted(os.listdir(task.exp / "models")) == models
    assert len(re.findall(r" settings .*training.epochs=3 .*threads=\d", (task.exp / "log.txt").read_text())) == 2


def test_a_run_is_not_overwritten(task: Task) -> None:
    task.run()
    with pytest.raises(Nnet3Error, match="there is a run in this folder, which has come to minibatch 36: say --resume"):
        task.run()


def test_resuming_nothing_begins(task: Task, caplog: pytest.LogCaptureFixture) -> None:
    task.change(training__epochs=1)
    with caplog.at_level(logging.WARNING, "nnet3"):
        task.run(resume=True)
    assert "there is no checkpoint to go on from: the run begins" in caplog.text


def test_changes_that_matter_are_refused(task: Task, caplog: pytest.LogCaptureFixture) -> None:
    task.change(training__epochs=1)
    task.run()
    task.change(training__momentum=0.5, training__max_skipped=3, checkpoints__every=7)
    with pytest.raises(Nnet3Error) as error:
        task.run(resume=True)
    assert "something has changed:\n  training.momentum: was 0.0, now 0.5\n" in str(error.value)
    assert "--allow-changes" in str(error.value)
    with caplog.at_level(logging.WARNING, "nnet3"):
        assert task.run(resume=True, allow_changes=True) == 0
    assert "training.momentum: was 0.0, now 0.5" in caplog.text


def test_another_network_is_refused(task: Task) -> None:
    task.change(training__epochs=1)
    task.run()
    config = task.folder / "net.config"
    config.write_text(config.read_text().replace("dim=8", "dim=7"))
    with pytest.raises(Nnet3Error, match=r"model.contents: was "):
        task.run(resume=True)
    with pytest.raises(TrainingError, match="the checkpoint is of another network: it differs in parameters 'affine1"):
        task.run(resume=True, allow_changes=True)


def test_files_have_the_rates_and_proportions_of_their_moment(task: Task) -> None:
    task.change(training__dropout_schedule='"0,0.4"', combination__models=0)
    task.run()
    nnet = nnet3.load_nnet(task.exp / "final.raw")
    assert nnet.components["dropout"].dropout_proportion == pytest.approx(0.4 * 35 / 36)
    updatable = nnet.components["affine1"].updatable
    assert updatable is not None
    assert updatable.learning_rate == pytest.approx(0.02 * 0.1 ** (35 / 36))
    expected = task.final
    (task.exp / "final.raw").unlink()
    task.run(resume=True)
    assert task.final == expected


def test_other_data_are_refused_and_other_threads_warned_of(task: Task, caplog: pytest.LogCaptureFixture) -> None:
    task.change(training__epochs=1)
    task.run()
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(threads + 1)
        with caplog.at_level(logging.WARNING, "nnet3"):
            task.run(resume=True)
    finally:
        torch.set_num_threads(threads)
    assert f"threads: was {threads}, now {threads + 1}: results will not be the same to the last bit" in caplog.text
    task.write_examples(task.folder / "train.ark", 90, 1)
    with pytest.raises(Nnet3Error, match=r"training examples: was 100, now 90"):
        task.run(resume=True)


def test_what_cannot_begin_is_refused(task: Task) -> None:
    net = task.folder / "net.config"
    wrong: list[tuple[dict[str, object], str]] = [
        ({"model__file": '"none.config"'}, "[model] file: expected a file, got 'none.config': No such file"),
        ({"model__file": f'"{net}"', "training__device": '"tpu0"'}, "[training] device: expected cpu, cuda or cuda:N"),
        ({"training__device": '"cpu"', "data__train": '"ark:none.ark"'}, "none.ark"),
        (
            {"data__train": "[]"},
            "plain.toml:6:1: [data] train: expected tables of training examples such as ark:train.ark, got none",
        ),
        (
            {"data__train": '"none.ark"'},
            "plain.toml:6:1: [data] train: expected a table of examples such as ark:train.ark, or a list of such, got",
        ),
        ({"data__train": f'"ark:{task.folder}/train.ark"', "data__minibatch_size": '"7:x"'}, "expected a rule such as"),
        ({"data__minibatch_size": 400}, "100 examples, 0 damaged, minibatch size 400"),
        ({"data__minibatch_size": 8, "training__dropout_schedule": '"lstm*=0,0"'}, "got 'lstm*', which fits none"),
        ({"training__dropout_schedule": '"0"'}, "[training] dropout-schedule: expected a schedule, got '0'"),
    ]
    for changes, message in wrong:
        task.change(**changes)
        with pytest.raises(Nnet3Error) as error:
            task.run()
        assert message in str(error.value), changes
        assert not task.exp.exists(), changes


@pytest.mark.parametrize("device", ["tpu0", "cuda:99"])
def test_a_wrong_device_leaves_no_folder(task: Task, device: str) -> None:
    task.change(training__device=f'"{device}"')
    with pytest.raises(Nnet3Error, match=r"\[training\] device: expected "):
        task.run()
    assert not task.exp.exists()


def test_a_wrong_config_is_shown_where_it_is_wrong(task: Task) -> None:
    (task.folder / "net.config").write_text("input-node name=input dimm=5\n")
    with pytest.raises(ConfigError, match=r"net.config:1:"):
        task.run()
    (task.folder / "net.config").write_text("")
    with pytest.raises(ConfigError, match=r"plain.toml:3:1: \[model\] file: "):
        task.run()


def test_folders_that_cannot_be_written(task: Task) -> None:
    (task.folder / "file").write_text("")
    task.change(output__folder=f'"{task.folder}/file/exp"')
    with pytest.raises(Nnet3Error, match=r"file/exp: the run's folder cannot be written: Not a dir"):
        task.run()


def test_a_disk_that_is_full_keeps_the_last_checkpoint(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    task.run()
    expected = task.final
    task.change(output__folder=f'"{task.folder}/other"')
    task.exp = task.folder / "other"
    fsync, calls = os.fsync, 0

    def full(descriptor: int) -> None:
        nonlocal calls
        calls += 1
        if calls > 23:
            raise OSError(28, "No space left on device")
        fsync(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(Nnet3Error, match=r"No space left on device; the last good checkpoint is .*0000\d\d: when"):
            task.run()
    assert "No space left" in task.events("error")[0]["message"]
    assert task.run(resume=True) == 0
    assert task.final == expected


def test_minibatches_with_nan_are_skipped_reported_and_limited(task: Task) -> None:
    task.spoil("train.ark", {"example-17"})
    task.change(data__minibatch_size='"1:8"')
    assert task.run() == 0
    skips = task.events("skip")
    assert len(skips) == 3
    assert skips[-1]["skipped"] == 3
    assert skips[-1]["process"] == 0
    assert all("example-17" in event["keys"] for event in skips)
    assert all("NaN" in event["reason"] or "finite" in event["reason"] for event in skips)
    assert task.events("valid")[-1]["accuracy"] > 0.7
    task.change(training__max_skipped=1, output__folder=f'"{task.folder}/other"')
    task.exp = task.folder / "other"
    with pytest.raises(TrainingError, match=r"2 minibatches have been skipped so far, more than max-skipped = 1"):
        task.run()
    assert len(task.events("skip")) == 2
    with pytest.raises(TrainingError, match="more than max-skipped"):
        task.run(resume=True)
    task.change(training__max_skipped=10)
    assert task.run(resume=True) == 0
    assert len(task.events("skip")) == 3


def test_a_damaged_record_is_an_error_or_skipped(task: Task) -> None:
    path = task.folder / "train.ark"
    contents = path.read_bytes()
    place = contents.index(b"example-50 ") + 40
    path.write_bytes(contents[:place] + b"\xff\xff\xff\xff" + contents[place + 4 :])
    with pytest.raises(Nnet3Error, match="example-50"):
        task.run()
    task.change(data__on_damage='"skip"')
    assert task.run() == 0
    assert task.events("epoch")[-1]["damaged"] == 1


def test_without_combination_the_last_model_is_final(task: Task) -> None:
    task.change(combination__models=0)
    task.run()
    assert task.final == (task.exp / "checkpoints" / "000000036" / "model.raw").read_bytes()
    assert not (task.exp / "models").exists()
    task.change(combination__models=1, data__valid="[]", output__folder=f'"{task.folder}/other"')
    task.exp = task.folder / "other"
    task.run()
    assert task.final == (task.exp / "models" / "000000036.raw").read_bytes()


def test_an_acoustic_model_ends_as_one(task: Task) -> None:
    nnet = nnet3.Nnet.from_config_file(task.folder / "net.config")
    transitions = nnet3.load_transition_model(GOLDEN / "mdl" / "1" / "final.mdl")
    nnet3.AcousticModel(transitions, nnet).save(task.folder / "start.mdl")
    task.change(model__file=f'"{task.folder}/start.mdl"')
    task.run()
    final = nnet3.load(task.exp / "final.mdl")
    assert isinstance(final, nnet3.AcousticModel)
    assert final.priors.sum() == pytest.approx(1.0)
    assert len(task.events("priors")) == 1
    final.nnet.save(task.folder / "network.raw")
    nnet.save(task.folder / "start.raw")
    task.change(model__file=f'"{task.folder}/start.raw"', output__folder=f'"{task.folder}/other"')
    task.exp = task.folder / "other"
    task.run()
    assert task.final == (task.folder / "network.raw").read_bytes()


class _MadeError(Exception):
    pass


@pytest.mark.parametrize(
    "values",
    [
        {
            "max_param_change": 0.5, "momentum": 0.25, "l2_regularize_factor": 0.75, "batchnorm_stats_scale": 0.5,
            "min_deriv_time": -7, "max_deriv_time": 9, "max_deriv_time_relative": 5, "seed": 3,
        },
        {"backstitch_training_scale": 0.3, "backstitch_training_interval": 3, "optimization_level": 4},
        {"deriv_truncate_margin": 2, "threads": 1},
    ],
)  # fmt: skip
def test_settings_reach_the_trainer(task: Task, monkeypatch: pytest.MonkeyPatch, values: dict[str, Any]) -> None:
    made: list[TrainerOptions] = []

    def make(nnet: nnet3.Nnet, options: TrainerOptions, *_: object, **__: object) -> None:
        made.append(options)
        raise _MadeError

    monkeypatch.setattr(train_model_module, "Trainer", make)
    threads: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", threads.append)
    task.change(**{f"training__{name}": value for name, value in values.items()})
    with pytest.raises(_MadeError):
        task.run()
    expected = TrainingSection(**values)
    names = {field.name for field in dataclasses.fields(TrainerOptions) if hasattr(expected, field.name)}
    assert len(names) == 12
    times = expected.deriv_times_for(1, 1)
    assert {name: getattr(made[0], name) for name in names - {"max_skipped"}} == {
        name: times.get(name, getattr(expected, name)) for name in names - {"max_skipped"}
    }
    assert made[0].max_skipped > 1e9
    assert threads == ([values["threads"]] if "threads" in values else [])


def test_an_xconfig_will_do(task: Task) -> None:
    path = task.folder / "net.xconfig"
    path.write_text(
        "input name=input dim=5\nrelu-batchnorm-layer name=tdnn1 dim=8 input=Append(-1,0,1)\n"
        "output-layer name=output dim=3\n"
    )
    task.change(model__file=f'"{path}"')
    task.run()
    assert task.events("valid")[-1]["accuracy"] > 0.6
