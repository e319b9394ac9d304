"""Kaldi's averaging of models, with processes played by threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor

import nnet3
from nnet3.options import TrainerOptions
from nnet3.training.runs.averaged_models import AveragedModels, JobCounts
from nnet3.training.runs.packing import same
from nnet3.training.runs.parallel import TrainingRounds
from nnet3.training.runs.process_group import ProcessGroup
from nnet3.training.train.minibatch import MatrixTarget, Minibatch, NetworkInput, grid
from nnet3.training.train.objectives import ObjectiveByNode, ObjectiveStats
from nnet3.training.train.trainer import Trainer
from tests.runs.thread_group import in_threads

SIZE = 2
NNET = nnet3.Nnet.from_config(
    """
    input-node name=input dim=3
    component name=affine type=AffineComponent input-dim=3 output-dim=2 l2-regularize=0.1
    component name=norm type=BatchNormComponent dim=2
    component-node name=affine component=affine input=input
    component-node name=norm component=norm input=affine
    output-node name=output input=norm objective=quadratic
    """,
    seed=1,
)


def _minibatch(seed: int) -> Minibatch:
    generator = torch.Generator().manual_seed(seed)
    indexes = grid(4, range(5))
    x, p = (torch.randn(20, columns, generator=generator) for columns in (3, 2))
    return Minibatch([NetworkInput("input", indexes, x)], [MatrixTarget("output", indexes, p)])


def _in_threads(work: Callable[[AveragedModels, int], None], round_size: int) -> list[nnet3.Nnet]:
    """What happens to the models of two processes."""

    def run(group: ProcessGroup) -> nnet3.Nnet:
        nnet = NNET.copy()
        work(AveragedModels(nnet, OPTIONS, ObjectiveByNode(nnet), group, TrainingRounds(round_size)), group.rank)
        return nnet

    nnets = []
    for result in in_threads(SIZE, run):
        assert isinstance(result, nnet3.Nnet), result
        nnets.append(result)
    return nnets


OPTIONS = TrainerOptions(l2_regularize_factor=1.0)


def _alone(start: nnet3.Nnet, seeds: Sequence[int]) -> tuple[nnet3.Nnet, float]:
    """A process of two by hand, and its objective."""
    nnet = start.copy()
    trainer = Trainer(nnet, TrainerOptions(l2_regularize_factor=0.5))
    stats = [trainer.train_minibatch(_minibatch(seed), 0.02).total for seed in seeds]
    return nnet, sum(each.objective for each in stats)


def _parameters(nnet: nnet3.Nnet) -> Tensor:
    return nnet.flat_parameters()[0]


def test_the_first_round_keeps_the_best_and_later_ones_average() -> None:
    agree: list[bool] = []

    def work(models: AveragedModels, rank: int) -> None:
        for step in range(4):
            models.train_minibatch(_minibatch(10 * rank + step), 0.01)
            agree.append(models.models_agree)
            models.after_minibatch(step + 1)
            assert models.models_agree == (step % 2 == 1)

    nnets = _in_threads(work, round_size=2)
    assert not any(agree)
    assert torch.equal(_parameters(nnets[0]), _parameters(nnets[1]))
    first = [_alone(NNET, [10 * rank, 10 * rank + 1]) for rank in range(SIZE)]
    best, _ = max(first, key=lambda each: each[1])
    second = [_alone(best, [10 * rank + 2, 10 * rank + 3])[0] for rank in range(SIZE)]
    mean = (_parameters(second[0]) + _parameters(second[1])) / 2
    torch.testing.assert_close(_parameters(nnets[0]), mean, rtol=1e-6, atol=1e-7)
    counts = [nnet.components["norm"].count for nnet in second]  # type: ignore[attr-defined]
    assert nnets[0].components["norm"].count == pytest.approx(sum(counts) / 2)  # type: ignore[attr-defined]


def test_a_state_in_the_middle_of_a_round_goes_on_to_the_same_bits() -> None:
    ends: list[list[nnet3.Nnet]] = []
    for stops_at in (None, 3, 4):

        def work(models: AveragedModels, rank: int, stops_at: int | None = stops_at) -> None:
            for step in range(6):
                if step == stops_at:
                    state = models.state()
                    for _ in range(2):
                        models.train_minibatch(_minibatch(99), 0.01)
                    models.load_state(state)
                    assert same(models.state(), state)
                models.train_minibatch(_minibatch(10 * rank + step), 0.01)
                models.after_minibatch(step + 1)

        ends.append(_in_threads(work, round_size=2))
    assert all(torch.equal(_parameters(nnets[0]), _parameters(ends[0][0])) for nnets in ends)


def test_a_model_that_is_much_worse_does_not_count() -> None:
    def work(models: AveragedModels, rank: int) -> None:
        for step in range(2):
            bad = step == 1 and rank == 1
            minibatch = _minibatch(step)
            if bad:
                target = minibatch.targets[0]
                assert isinstance(target, MatrixTarget)
                minibatch = Minibatch(minibatch.inputs, [MatrixTarget("output", target.indexes, target.matrix * 1e3)])
            models.train_minibatch(minibatch, 0.01)
            models.after_minibatch(step + 1)

    nnets = _in_threads(work, round_size=1)
    expected, _ = _alone(_alone(NNET, [0])[0], [1])
    assert all(torch.equal(_parameters(nnet), _parameters(expected)) for nnet in nnets)


def _after_rounds(objectives: list[float], weights: list[float], round_number: int) -> list[float]:
    """What the only parameters of processes are after such a round, where they were 1, 10, 100, ..."""

    def run(group: ProcessGroup) -> float:
        nnet = NNET.copy()
        models = AveragedModels(nnet, OPTIONS, ObjectiveByNode(nnet), group, TrainingRounds(1))
        models.load_state({**models.state(), "round": round_number, "steps": 1})
        models._stats = ObjectiveStats(objectives[group.rank], 0.0, weights[group.rank])
        nnet.components["affine"].parameters()["bias_params"].fill_(10.0**group.rank)
        models.after_minibatch(1)
        assert models.models_agree
        return float(nnet.components["affine"].parameters()["bias_params"][0])

    results = in_threads(len(objectives), run)
    assert all(result == results[0] for result in results), results
    return [result for result in results if isinstance(result, float)]


NAN = float("nan")


@pytest.mark.parametrize(
    ("objectives", "weights", "round_number", "expected"),
    [
        ([-6.0, -2.0, -3.0], [2.0, 2.0, 2.0], 0, 10.0),
        ([-6.0, -2.0, -3.0], [6.0, 1.0, 1.0], 0, 1.0),  # by the average of a frame
        ([0.0, -9.0, -8.0], [0.0, 1.0, 1.0], 0, 100.0),  # one that has seen nothing is no good
        ([NAN, -9.0, -8.0], [1.0, 1.0, 1.0], 0, 100.0),
        ([0.0, 0.0, 0.0], [0.0, 0.0, 0.0], 0, 1.0),
        ([-6.0, -2.0, -3.0], [2.0, 2.0, 2.0], 1, 55.0),
        ([-6.0, -2.0, -3.0], [1.0, 1.0, 1.0], 1, 55.0),  # exactly 1 below the best is still good
        ([-3.25, -2.0, -3.0], [1.0, 1.0, 1.0], 2, 55.0),
        ([-2.5, -2.0, -3.0], [1.0, 1.0, 1.0], 1, 37.0),
        ([NAN, -9.0, -8.0], [1.0, 1.0, 1.0], 3, 55.0),
        ([0.0, -9.0, -8.0], [0.0, 1.0, 1.0], 3, 55.0),
    ],
)
def test_whose_models_count(objectives: list[float], weights: list[float], round_number: int, expected: float) -> None:
    assert _after_rounds(objectives, weights, round_number) == [pytest.approx(expected)] * 3


def test_a_model_that_does_not_count_leaves_no_nan() -> None:
    def run(group: ProcessGroup) -> bool:
        nnet = NNET.copy()
        models = AveragedModels(nnet, OPTIONS, ObjectiveByNode(nnet), group, TrainingRounds(1))
        models._stats = ObjectiveStats(-1.0 if group.is_first else NAN, 0.0, 1.0)
        if not group.is_first:
            nnet.flat_parameters()[0].fill_(NAN)
        models.load_state({**models.state(), "steps": 1})
        models.finish()
        return torch.equal(_parameters(nnet), _parameters(NNET))

    assert in_threads(2, run) == [True, True]


def test_auxiliary_terms_count() -> None:
    def run(group: ProcessGroup) -> float:
        nnet = NNET.copy()
        models = AveragedModels(nnet, OPTIONS, ObjectiveByNode(nnet), group, TrainingRounds(1))
        models.load_state({**models.state(), "steps": 1})
        models._stats = ObjectiveStats(-1.0 - group.rank, -5.0 * group.is_first, 1.0)
        return models._shares()[0]

    assert in_threads(2, run) == [0.0, 1.0]


def test_processes_draw_differently_and_each_round_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds: dict[int, list[int]] = {0: [], 1: []}

    def work(models: AveragedModels, rank: int) -> None:
        for step in range(4):
            models.train_minibatch(_minibatch(step), 0.01)
            assert models._trainer is not None
            seeds[rank].append(models._trainer.options.seed)
            models.after_minibatch(step + 1)
        assert models.sum_of([1.0, 10.0 * rank]) == [2.0, 10.0]

    _in_threads(work, round_size=2)
    assert all(own[0] == own[1] and own[2] == own[3] for own in seeds.values())
    assert len({own[step] for own in seeds.values() for step in (0, 2)}) == 4


def test_the_last_round_may_be_short_and_an_empty_one_is_none() -> None:
    def work(models: AveragedModels, rank: int) -> None:
        for step in range(2):
            models.train_minibatch(_minibatch(10 * rank + step), 0.01)
        models.after_minibatch(2)
        assert not models.models_agree
        models.finish()
        assert models.models_agree
        before = models.state()
        assert (before["round"], before["steps"], before["trainer"]) == (1, 0, None)
        models.finish()
        assert same(models.state(), before)

    nnets = _in_threads(work, round_size=3)
    assert torch.equal(_parameters(nnets[0]), _parameters(nnets[1]))


def test_a_process_whose_minibatches_were_all_skipped_has_no_statistics_to_average() -> None:
    """Those of the others are averaged all the same, and stay what they are."""
    attention = "num-heads=1 key-dim=1 value-dim=2 output-context=false time-stride=1 num-left-inputs=0 "
    attention += "num-right-inputs=1 num-left-inputs-required=0 num-right-inputs-required=0"
    nnet = nnet3.Nnet.from_config(
        f"""
        input-node name=input dim=3
        component name=relu type=RectifiedLinearComponent dim=3
        component-node name=relu component=relu input=input
        component name=attention type=RestrictedAttentionComponent {attention}
        component name=affine type=AffineComponent input-dim=3 output-dim=6
        component-node name=affine component=affine input=relu
        component-node name=attention component=attention input=affine
        output-node name=output input=attention objective=quadratic
        """
    )

    def work(group: ProcessGroup) -> tuple[list[float], list[tuple[int, ...]]]:
        own = nnet.copy()
        models = AveragedModels(own, OPTIONS, ObjectiveByNode(own), group, TrainingRounds(1))
        for step in range(2):  # of the first round only the best model is kept
            minibatch = _minibatch(step)
            if group.rank == 0:
                minibatch.inputs[0].matrix[0, 0] = float("nan")
            assert (models.train_minibatch(minibatch, 0.01).skipped is not None) == (group.rank == 0)
            models.after_minibatch(step + 1)
        relu, attention = own.components["relu"], own.components["attention"]
        return [relu.count, attention.stats_count], [
            tuple(relu.value_sum.shape),
            tuple(attention.posterior_stats.shape),
        ]

    first, second = in_threads(2, work)
    assert not isinstance(first, Exception), first
    assert first == second
    assert first[0][0] == 20
    assert first[1] == [(3,), (1, 2)]


def test_the_number_of_jobs_grows_by_whole_models_of_each_process() -> None:
    counts = JobCounts(2, 8)
    assert [counts.of_process(done, 1) for done in (0.0, 0.25, 0.5, 1.0)] == [2, 4, 5, 8]
    assert [counts.of_process(done, 2) for done in (0.0, 0.5, 1.0)] == [1, 3, 4]
    assert counts.of_process(0.0, 16) == 1


def _of_jobs(steps: int, stops_at: int | None = None) -> nnet3.Nnet:
    """A process alone that trains two models a round, of two minibatches each."""
    nnet = NNET.copy()
    models = AveragedModels(nnet, OPTIONS, ObjectiveByNode(nnet), ProcessGroup(), TrainingRounds(2), JobCounts(2, 2))
    for step in range(steps):
        if step == stops_at:
            state = models.state()
            for more in range(3):
                models.train_minibatch(_minibatch(99), 0.01)
                models.after_minibatch(step + more + 1)
            models.load_state(state)
            assert same(models.state(), state)
        rank, round_ = step // 2 % 2, step // 4
        models.begin_minibatch(step, step / steps)
        models.train_minibatch(_minibatch(10 * rank + 2 * round_ + step % 2), 0.01)
        assert models.jobs == 2
        models.after_minibatch(step + 1)
        assert models.models_agree == (step % 4 == 3)
    models.finish()
    return nnet


def test_jobs_one_after_the_other_do_what_processes_do_at_once() -> None:
    def work(models: AveragedModels, rank: int) -> None:
        for step in range(4):
            models.train_minibatch(_minibatch(10 * rank + step), 0.01)
            models.after_minibatch(step + 1)

    expected, alone = _in_threads(work, round_size=2)[0], _of_jobs(8)
    torch.testing.assert_close(_parameters(alone), _parameters(expected), rtol=1e-6, atol=1e-7)
    counts = [nnet.components["norm"].count for nnet in (alone, expected)]  # type: ignore[attr-defined]
    assert counts[0] == pytest.approx(counts[1])


@pytest.mark.parametrize("stops_at", range(1, 10))
def test_jobs_go_on_to_the_same_bits(stops_at: int) -> None:
    """The end leaves out jobs of the last round, or a part of one."""
    assert torch.equal(_parameters(_of_jobs(10, stops_at)), _parameters(_of_jobs(10)))


def test_the_rate_is_held_over_a_round() -> None:
    found = []
    for rates in ([0.01, 0.02], [0.01, 0.01]):
        nnet = NNET.copy()
        models = AveragedModels(
            nnet, OPTIONS, ObjectiveByNode(nnet), ProcessGroup(), TrainingRounds(2), JobCounts(1, 1)
        )
        for step, rate in enumerate(rates):
            models.begin_minibatch(step, 0.0)
            models.train_minibatch(_minibatch(step), rate)
            models.after_minibatch(step + 1)
        found.append(_parameters(nnet))
    assert torch.equal(*found)
