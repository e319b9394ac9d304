"""Averages of the last models, chosen on held-out data."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from nnet3.errors import TrainingError
from nnet3.model.edits.modes import with_modes
from nnet3.model.nnet import Nnet
from nnet3.train import MatrixTarget, Minibatch, NetworkInput, TorchLoss
from nnet3.training.train.combine import combine, recompute_statistics
from nnet3.training.train.minibatch import grid
from nnet3.training.train.objectives import ObjectiveByNode
from tests.train.networks import differing, everything, many, random_minibatch

CONFIG = """
input-node name=input dim=1
component name=scale type=PerElementScaleComponent dim=1
component-node name=scale component=scale input=input
output-node name=output input=scale objective=quadratic
"""
ROWS = grid(1, [0])
DATA = [Minibatch([NetworkInput("input", ROWS, torch.ones(1, 1))], [MatrixTarget("output", ROWS, torch.zeros(1, 1))])]


def models(*values: float) -> list[Callable[[], Nnet]]:
    """Networks that multiply by these numbers; 0 is the best one."""

    def make(value: float) -> Nnet:
        nnet = Nnet.from_config(CONFIG)
        nnet.flat_parameters()[0].fill_(value)
        return nnet

    return [lambda value=value: make(value) for value in values]  # type: ignore[misc]


def combined(*values: float, **options: Any) -> tuple[float, list[str]]:
    lines: list[str] = []
    nnet = combine(models(*values), DATA, say=lines.append, **options)
    return float(nnet.flat_parameters()[0]), lines


def test_the_best_mean_of_the_first_models() -> None:
    value, lines = combined(3.0, -1.0, -2.0, 5.0)  # means 3, 1, 0, 1.25
    assert value == pytest.approx(0.0, abs=1e-6)
    assert lines[0] == "objective function using the last model is -4.5"
    assert lines[1] == "Combining last 2 models, objective function is -0.5"
    assert lines[3] == "Combining last 4 models, objective function is -0.78125"
    assert lines[4].startswith("Using the model averaged over last 3 models, objective function is ")


def test_of_equals_the_first_wins() -> None:
    value, lines = combined(1.0, -3.0)
    assert value == 1.0
    assert "last 1 models" in lines[-1]


@pytest.mark.parametrize(
    ("num_models", "limit", "counts"),
    [
        (10, 3, ["5", "9", "10"]),
        (10, 4, ["4", "7", "10"]),
        (7, 3, ["4", "7"]),
        (7, 1, ["7"]),
        (7, 6, ["3", "5", "7"]),
        (3, 3, ["2", "3"]),
        (2, 1, ["2"]),
    ],
)
def test_models_are_chosen_evenly_if_evaluations_are_few(num_models: int, limit: int, counts: list[str]) -> None:
    """The first, then every g-th one, and the last, with g = ceil(models / limit): the numbers are Kaldi's."""
    _, lines = combined(*(1.0 for _ in range(num_models)), max_objective_evaluations=limit)
    assert [line.split()[2] for line in lines[1:-1]] == counts


def test_an_average_that_is_not_finite_is_never_the_best() -> None:
    value, _ = combined(1.0, math.nan)
    assert value == 1.0
    with pytest.raises(TrainingError, match="no average of the models has a finite objective"):
        combined(math.nan)


def test_what_is_best_is_for_the_objective_to_say() -> None:
    def far(nnet: Nnet) -> TorchLoss:
        return TorchLoss(lambda output, target: -(output - target).square().sum())

    assert combined(3.0, -1.0, -2.0, 5.0, objective=far)[0] == 3.0
    assert combined(3.0, -1.0, 5.0, 9.0, objective=far)[0] == 4.0


def test_statistics_are_for_the_outputs_of_their_own_objective() -> None:
    asked: list[str] = []

    def named(name: str) -> Callable[[Nnet], ObjectiveByNode]:
        def make(nnet: Nnet) -> ObjectiveByNode:
            asked.append(name)
            return ObjectiveByNode(nnet)

        return make

    nnet, data = many(), [random_minibatch(1)]
    combine([lambda: nnet] * 2, data, named("value"), statistics_objective=named("statistics"), say=lambda line: None)
    assert asked == ["value", "value", "statistics"]
    combine([lambda: nnet], data, named("both"), say=lambda line: None)
    assert asked[3:] == ["both", "both"]
    combine(models(1.0), DATA, named("no statistics"), say=lambda line: None)
    assert asked[5:] == ["no statistics"]


RANDOM = """
input-node name=input dim=4
component name=drop type=DropoutComponent dim=4 dropout-proportion=0.5
component-node name=drop component=drop input=input
component name=general type=GeneralDropoutComponent dim=4 dropout-proportion=0.5
component-node name=general component=general input=input
component name=mask type=SpecAugmentTimeMaskComponent dim=4 zeroed-proportion=0.5 time-mask-max-frames=2
component-node name=mask component=mask input=input
component name=affine type=AffineComponent input-dim=12 output-dim=4
component-node name=affine component=affine input=Append(drop, general, mask)
component name=norm type=BatchNormComponent dim=4
component-node name=norm component=norm input=affine
component name=parts type=CompositeComponent num-components=2 component1='type=BatchNormComponent dim=4' \
 component2='type=AffineComponent input-dim=4 output-dim=3'
component-node name=parts component=parts input=norm
output-node name=output input=parts objective=quadratic
""".replace("\\\n", "")


def modes(nnet: Nnet) -> dict[str, bool]:
    return {
        name + prefix: leaf.test_mode
        for name, component in nnet.components.items()
        for prefix, leaf in component.leaves()
    }


@pytest.mark.parametrize("batchnorm", [False, True])
@pytest.mark.parametrize("dropout", [False, True])
def test_test_modes_are_for_the_evaluations_alone(batchnorm: bool, dropout: bool) -> None:
    """What is combined can be trained on: it has the modes that the last model has."""
    nnet, data = Nnet.from_config(RANDOM), [random_minibatch(1)]
    for _, leaf in (leaf for component in nnet.components.values() for leaf in component.leaves()):
        if leaf.has_running_statistics:
            x = torch.randn(5, 4)
            leaf.store_stats(x, *leaf.propagate(x))
    options: dict[str, bool] = {"batchnorm_test_mode": batchnorm, "dropout_test_mode": dropout}
    for tested in ((), ("drop",), ("general", "norm"), ("mask",)):
        for name, component in nnet.components.items():
            component.set_test_mode(name in tested)
        seen: list[dict[str, bool]] = []

        def look(nnet: Nnet, seen: list[dict[str, bool]] = seen) -> ObjectiveByNode:
            seen.append(modes(nnet))
            return ObjectiveByNode(nnet)

        result = combine([lambda: nnet, lambda: nnet], data, look, say=lambda line: None, **options)
        first, second, recomputed = seen
        assert first == second
        for name, mode in first.items():
            option = batchnorm if name in ("norm", "partscomponent1.") else dropout
            assert mode == (modes(nnet)[name] or (option and name not in ("affine", "partscomponent2.")))
        assert recomputed == modes(nnet) == modes(result)


def spread(nnet: Nnet) -> float:
    """The variance that batch-norm has stored of the first column."""
    norm: Any = nnet.components["norm"]
    return float(norm.stats_var[0])


def test_dropout_stays_as_it_is_while_statistics_are_computed_again() -> None:
    config = "input-node name=input dim=4\ncomponent name=drop type=DropoutComponent dim=4 dropout-proportion=0.5\n"
    config += "component-node name=drop component=drop input=input\ncomponent name=norm type=BatchNormComponent dim=4\n"
    config += "component-node name=norm component=norm input=drop\noutput-node name=output input=norm\n"
    rows = grid(50, [0])
    ones = torch.ones(50, 4)
    data = [Minibatch([NetworkInput("input", rows, ones)], [MatrixTarget("output", rows, ones)]) for _ in range(2)]
    nnet = Nnet.from_config(config)
    found = [combine([lambda: nnet], data, say=lambda line: None) for _ in range(2)]
    assert spread(found[0]) == pytest.approx(0.25, abs=0.1)  # of zeros and ones
    assert spread(found[0]) == spread(found[1])
    assert found[0].components["norm"].count == 100.0  # type: ignore[attr-defined]
    nnet.components["drop"].set_test_mode(True)
    assert spread(combine([lambda: nnet], data, say=lambda line: None)) == 0.0


def test_neighbours_do_not_drop_the_same() -> None:
    """Components that a file has given all begin with the same random numbers."""
    nnet = with_modes(Nnet.from_config(RANDOM), batchnorm_test_mode=True, dropout_test_mode=False)
    draws = [nnet.components[name].rng.uniform() for name in ("drop", "general", "mask")]
    assert len(set(draws)) == 3
    again = with_modes(nnet, batchnorm_test_mode=True, dropout_test_mode=False)
    assert draws == [again.components[name].rng.uniform() for name in ("drop", "general", "mask")]


def test_statistics_of_batchnorm_are_those_of_the_examples() -> None:
    nnet, data = many(), [random_minibatch(1), random_minibatch(2)]
    result = combine([lambda: nnet], data, say=lambda line: None)
    assert result.components["norm"].count == 40.0  # type: ignore[attr-defined]
    again = result.copy()
    recompute_statistics(again, data)
    assert differing(everything(result), everything(again)) == []


def test_batchnorm_in_test_mode_keeps_its_statistics() -> None:
    nnet, data = many(), [random_minibatch(1)]
    recompute_statistics(nnet, [random_minibatch(2)])
    nnet.set_test_mode(True)
    result = combine([lambda: nnet], data, say=lambda line: None)
    for name in ("stats_sum", "stats_sumsq", "count"):
        assert torch.equal(everything(result)[f"norm.{name}"], everything(nnet)[f"norm.{name}"])
    assert spread(nnet) > 0


def test_a_model_of_another_form_is_numbered() -> None:
    other = Nnet.from_config(CONFIG.replace("=scale", "=other"))
    with pytest.raises(TrainingError, match="model 3 of 3: networks to be added must have the same components"):
        combine([*models(1.0, 2.0), lambda: other], DATA)


def test_nothing_to_combine() -> None:
    with pytest.raises(TrainingError, match="0 models and 1 examples"):
        combine([], DATA)
    with pytest.raises(TrainingError, match="max_objective_evaluations must be > 0, got 0"):
        combined(1.0, max_objective_evaluations=0)
