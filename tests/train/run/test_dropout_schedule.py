"""Dropout schedules as Kaldi's scripts read them."""

from __future__ import annotations

import pytest

import nnet3
from nnet3.errors import ConfigError, TrainingError
from nnet3.train.run.dropout_schedule import DropoutSchedule, parse_dropout_schedule

NNET = nnet3.Nnet.from_config(
    """
    input-node name=input dim=2
    component name=tdnn.dropout type=DropoutComponent dim=2 dropout-proportion=0.3
    component name=lstm.dropout type=DropoutComponent dim=2 dropout-proportion=0.3
    component-node name=a component=tdnn.dropout input=input
    component-node name=b component=lstm.dropout input=a
    output-node name=output input=b
    """
)


@pytest.mark.parametrize(
    ("schedule", "done", "proportion"),
    [
        ("0,0@0.20,0.5@0.50,0", 0.1, 0.0),
        ("0,0@0.20,0.5@0.50,0", 0.35, 0.25),
        ("0,0@0.20,0.5@0.50,0", 0.5, 0.5),
        ("0,0@0.20,0.5@0.50,0", 0.75, 0.25),
        ("0,0@0.20,0.5@0.50,0", 1.0, 0.0),
        ("0.1,0.3", 0.5, 0.2),
        ("0,0.4,0", 0.25, 0.2),  # at half of training if nothing is said
        ("0,0.2@0.5,0.6@0.5,0.6", 0.4999999, 0.2),  # below it the first of two
        ("0,0.2@0.5,0.6@0.5,0.6", 0.5, 0.6),
        ("0,0.5@0,0.5", 0.0, 0.5),
        ("0.5,0.5@1,0", 0.9999, 0.5),
        ("0.5,0.5@1,0", 1.0, 0.0),
    ],
)
def test_proportions(schedule: str, done: float, proportion: float) -> None:
    (piece,) = parse_dropout_schedule(schedule)
    assert piece.proportion(done) == pytest.approx(proportion, abs=1e-6)


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        ("0.5", "has no first and last proportion"),
        ("0,x@0.5,0", "'x@0.5': expected a number from 0 to 1, got 'x'"),
        ("0,0.5@1.5,0", "expected a number from 0 to 1, got '1.5'"),
        ("0,2@0.5,0", "expected a number from 0 to 1, got '2'"),
        ("0,0.5@0.6,0.5@0.5,0", "'0.5@0.5' comes before the point at 0.6"),
        ("0@0,0.5", "'0@0': the first proportion is at 0"),
        ("0,nan", "got 'nan'"),
        ("a=b=", "has no first and last"),
    ],
)
def test_mistakes(schedule: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_dropout_schedule(schedule)
    assert message in str(error.value)


def _proportions() -> list[float | None]:
    return [component.dropout_proportion for component in NNET.components.values()]


def test_components_are_set_by_pattern() -> None:
    assert DropoutSchedule(NNET, "").apply(0.5) is None
    assert _proportions() == [0.3, 0.3]
    schedule = DropoutSchedule(NNET, "0,0.4 lstm*=0.1,0.1")
    assert schedule.apply(0.5) == pytest.approx(0.2)
    assert _proportions() == [pytest.approx(0.2), 0.1]
    with pytest.raises(TrainingError, match=r"for 'cnn\*', but no dropout component .* there are: tdnn.dropout, lstm"):
        DropoutSchedule(NNET, "cnn*=0,0")
