"""Dropout schedules in Kaldi's syntax: worked examples, patterns, mistakes."""

from __future__ import annotations

import pytest

from nnet3.base.options.dropout_schedule import DropoutSchedule
from nnet3.errors import TrainingError
from nnet3.model.nnet import Nnet
from nnet3.train import exponential_rate
from nnet3.training.train.schedules import set_dropout


def values(text: str, *shares: float) -> list[float]:
    return [proportion for done in shares for _, proportion in DropoutSchedule.parse(text).proportions(done)]


def test_the_schedule_of_the_recipes() -> None:
    found = values("0,0@0.20,0.5@0.50,0", 0.0, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0)
    assert found == pytest.approx([0.0, 0.0, 0.0, 0.25, 0.5, 0.25, 0.0])


def test_a_value_without_a_place_stands_in_the_middle() -> None:
    assert values("0,0.5,0", 0.25, 0.5, 0.75) == pytest.approx([0.25, 0.5, 0.25])
    assert values("1,0@1,0", 0.0, 0.25, 1.0) == pytest.approx([1.0, 0.75, 0.0])
    assert values("0.1,0.3", 0.0, 0.5, 1.0) == pytest.approx([0.1, 0.2, 0.3])
    assert values("0,0.2,0.4,0", 0.25, 0.5, 0.75) == pytest.approx([0.1, 0.4, 0.2]), "both in the middle: a jump"


def test_two_values_at_one_place_are_a_jump() -> None:
    assert values("0,0.4@0.5,0@0.5,0.2", 0.25, 0.4999999, 0.5, 0.75) == pytest.approx([0.2, 0.4, 0.0, 0.1], abs=1e-6)


def test_patterns_are_applied_in_order() -> None:
    config = "input-node name=input dim=2\n"
    for name in ("lstm1.drop", "tdnn1.drop", "cnn.drop"):
        config += f"component name={name} type=DropoutComponent dim=2 dropout-proportion=0.9\n"
        config += f"component-node name={name} component={name} input=input\n"
    nnet = Nnet.from_config(config + "output-node name=output input=Sum(Sum(lstm1.drop, tdnn1.drop), cnn.drop)\n")
    set_dropout(nnet, DropoutSchedule.parse("*.drop=0,0.4 lstm*=0,0.2"), 0.5)
    found = {name: component.dropout_proportion for name, component in nnet.components.items()}
    assert found == pytest.approx({"lstm1.drop": 0.1, "tdnn1.drop": 0.2, "cnn.drop": 0.2})
    set_dropout(nnet, DropoutSchedule.parse("0.2,0.2"), 0.5)
    assert {component.dropout_proportion for component in nnet.components.values()} == {0.2}
    set_dropout(nnet, DropoutSchedule.parse("cnn*=0.7,0.7"), 0.0)
    assert nnet.components["cnn.drop"].dropout_proportion == 0.7
    assert nnet.components["tdnn1.drop"].dropout_proportion == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("0.5", "at least a value at the beginning and one at the end"),
        ("0@0.1,0", "take no @, got '0@0.1'"),
        ("0,0.1@0.9", "take no @, got '0.1@0.9'"),
        ("0,1.5@0.2,0", "'1.5@0.2' must be a number from 0 to 1"),
        ("0,x,0", "'x' must be a number"),
        ("0,0.1@nan,0", "'0.1@nan' must be a number"),
        ("0,0.1@0.7,0.2@0.3,0", "must not fall"),
    ],
)
def test_impossible_schedules_are_refused(text: str, message: str) -> None:
    with pytest.raises(TrainingError, match=message):
        DropoutSchedule.parse(text)


def test_rates_fall_by_equal_ratios() -> None:
    rates = [exponential_rate(0.01, 0.0001, done / 4) for done in range(5)]
    assert rates == pytest.approx([0.01 * 10 ** (-k / 2) for k in range(5)])


@pytest.mark.parametrize(("first", "last"), [(0.0, 1.0), (1.0, -1.0)])
def test_rates_that_cannot_be_meant(first: float, last: float) -> None:
    with pytest.raises(TrainingError, match="learning rates must be > 0"):
        exponential_rate(first, last, 0.5)
