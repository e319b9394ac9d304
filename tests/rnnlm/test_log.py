"""The log of RNNLM training."""

from __future__ import annotations

from nnet3.training.rnnlm.log import OUTPUT, RnnlmLog
from nnet3.training.train.objectives import ObjectiveStats
from nnet3.training.train.step_result import StepResult


def test_averages_are_those_of_full_intervals_of_the_rest_and_of_all() -> None:
    lines = list[str]()
    log = RnnlmLog(2, lines.append)
    for number, objective in enumerate((-2.0, -4.0, -9.0)):
        log.add(number, StepResult({OUTPUT: ObjectiveStats(objective, weight=1.0)}))
    log.finish()
    assert [line.partition(" words")[0] for line in lines] == [
        "Objf for minibatches 0 to 1 is (-3 + 0) = -3 over 2",
        "Objf for minibatches 2 to 2 is (-9 + 0) = -9 over 1",
        "Overall objf is (-5 + 0) = -5 over 3",
    ]
