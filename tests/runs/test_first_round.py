"""The first round with minibatches of half the size, twice as many of them, and a smaller step: Kaldi's iteration 0."""

from __future__ import annotations

import math

import pytest
import torch

from nnet3.errors import ConfigError
from nnet3.examples import EXAMPLES, Example
from nnet3.model.nnet import Nnet, load_nnet
from nnet3.options import TrainerOptions
from nnet3.training.examples.source import MinibatchSource, Position, SourceOptions
from nnet3.training.runs.parallel import TrainingRounds
from nnet3.training.train.schedules import exponential_rate
from nnet3.training.train.to_minibatch import to_minibatch
from nnet3.training.train.trainer import Trainer
from tests.effort import at_night
from tests.runs.task import Task
from tests.runs.thread_group import run_in_threads

_LIMIT = 0.005  # so low that it shortens each step


def _halved(task: Task, **more: object) -> None:
    task.change(
        training__epochs=1,
        training__max_param_change=_LIMIT,
        combination__models=0,
        distributed__round=3,
        distributed__halve_first_round="true",
        **more,
    )


def _examples_in_order(task: Task) -> list[Example]:
    options = SourceOptions(minibatch_size="1", shuffle_buffer=20)
    source = MinibatchSource([f"ark:{task.folder}/train.ark"], EXAMPLES, lambda example, _: example, options)
    return [made.minibatch for made in source.prepared(Position())]


def test_it_is_training_by_hand(task: Task) -> None:
    _halved(task)
    assert task.run() == 0
    examples = _examples_in_order(task)
    sizes = [4] * 6 + [8] * 9  # of 100 examples, 4 do not fill a minibatch
    nnet = Nnet.from_config_file(task.folder / "net.config")
    small, large = (TrainerOptions(max_param_change=each) for each in (_LIMIT / math.sqrt(2), _LIMIT))
    trainer, done = Trainer(nnet, small), 0
    for number, size in enumerate(sizes):
        trainer.options = small if number < 6 else large
        merged = EXAMPLES.merge(examples[done : done + size], False)
        rate = exponential_rate(0.02, 0.002, done / 96)
        update = trainer.train_minibatch(to_minibatch(merged, nnet.input_dims, nnet.output_dims), rate).updates[0]
        assert update.factor < 1
        done += size
    assert [event["step"] for event in task.events("epoch")] == [len(sizes)]
    final = load_nnet(task.exp / "final.raw")
    assert all(map(torch.equal, final.flat_parameters(), nnet.flat_parameters()))


def test_later_epochs_have_whole_minibatches(task: Task) -> None:
    _halved(task)
    task.change(training__epochs=2)
    assert task.run() == 0
    assert [event["step"] for event in task.events("epoch")] == [15, 15 + 12]


@pytest.mark.parametrize("stop_at", [6, *at_night(3, 9)])
def test_a_run_that_was_cut_goes_on_to_the_same_bits(task: Task, monkeypatch: pytest.MonkeyPatch, stop_at: int) -> None:
    _halved(task)
    task.change(checkpoints__every=3)
    task.use_folder("whole")
    assert task.run() == 0
    whole = task.final
    task.use_folder("parts")
    train = Trainer.train_minibatch

    def cut(self: Trainer, *arguments: object) -> object:
        if self.num_minibatches == stop_at:
            raise KeyboardInterrupt
        return train(self, *arguments)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "train_minibatch", cut)
        with pytest.raises(KeyboardInterrupt):
            task.run()
    assert task.run(resume=True) == 0
    assert [event["step"] for event in task.events("resume")] == [stop_at]
    assert task.final == whole


def test_processes_and_jobs_have_it_alike(task: Task) -> None:
    """Two models at once, and one after the other, for six minibatches each in the first round."""
    _halved(task, distributed__mode='"averaging"')
    task.change(data__minibatch_size=4)
    task.use_folder("processes")
    assert run_in_threads(task) == [0, 0]
    assert [event["step"] for event in task.events("epoch")] == [6 + (100 - 24) // 8]
    task.change(distributed__num_jobs_initial=2, distributed__num_jobs_final=2)
    task.use_folder("jobs")
    assert task.run() == 0
    assert [event["step"] for event in task.events("epoch")] == [12 + (100 - 24) // 4]


def test_minibatches_that_are_made_already_cannot_be_halved(task: Task) -> None:
    _halved(task, data__minibatch_size='"as-it-is"')
    with pytest.raises(ConfigError, match="minibatch-size: as-it-is cannot be halved: leave out halve-first-round"):
        task.run()


def test_where_rounds_begin() -> None:
    assert [step for step in range(12) if TrainingRounds(3).begins_at(step)] == [0, 3, 6, 9]
    assert [step for step in range(13) if TrainingRounds(3, halved=True).begins_at(step)] == [0, 6, 9, 12]
    options = TrainerOptions(max_param_change=2.0)
    for rounds, is_first, expected in (
        (TrainingRounds(3), True, 2.0),
        (TrainingRounds(3, True), True, 2**0.5),
        (TrainingRounds(3, True), False, 2.0),
    ):
        assert rounds.options(options, is_first=is_first).max_param_change == pytest.approx(expected)
