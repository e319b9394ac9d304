"""What the trainer says, word for word."""

from __future__ import annotations

import torch

from nnet3.training.train.objectives import ObjectiveStats
from nnet3.training.train.step_result import StepResult
from nnet3.training.train.training_log import TrainingLog
from nnet3.training.train.update import Update


def test_the_log_has_kaldis_lines() -> None:
    lines: list[str] = []
    log = TrainingLog(2, lines.append)
    short = Update({"b": 0.5, "a": 0.25}, 0.8, {"b": 1.5, "a": 0.75}, 2.0, ("a", "b", "c"))
    for number in range(5):
        stats = {"output": ObjectiveStats(-1.0 * number, weight=10.0)}
        stats["other"] = ObjectiveStats(-1.0, -0.25, 0.5)
        log.add(number, StepResult(stats, updates=(short if number == 3 else Update(),)))
    log.finish()
    assert lines == [
        "Average objective function for 'output' for minibatches 0-1 is -0.05 over 20 frames.",
        "Average objective function for 'other' for minibatches 0-1 is -2 + -0.5 = -2.5 over 1 frames.",
        "Per-component max-change active on 2 / 3 Updatable Components. (Smallest factor=0.25 on a with "
        "max-change=0.75). Global max-change factor was 0.8 with max-change=2.",
        "Average objective function for 'output' for minibatches 2-3 is -0.25 over 20 frames.",
        "Average objective function for 'other' for minibatches 2-3 is -2 + -0.5 = -2.5 over 1 frames.",
        "Overall average objective function for 'other' is -2 + -0.5 = -2.5 over 2.5 frames.",
        "[this line is to be parsed by a script:] log-prob-per-frame=-2",
        "Overall average objective function for 'output' is -0.2 over 50 frames.",
        "[this line is to be parsed by a script:] log-prob-per-frame=-0.2",
        "For a, per-component max-change was enforced 20 % of the time.",
        "For b, per-component max-change was enforced 20 % of the time.",
        "The global max-change was enforced 20 % of the time.",
    ]


def test_an_output_of_few_minibatches_tells_how_many_they_are() -> None:
    lines: list[str] = []
    log = TrainingLog(2, lines.append)
    for number in (0, 4, 5, 7):
        log.add(number, StepResult({"output": ObjectiveStats(-1.0 - number, weight=2.0)}))
    assert lines == [
        "Average objective function for 'output' using 1 minibatches in minibatch range 0-3 is -0.5 over 2 frames.",
        "Average objective function for 'output' for minibatches 4-5 is -2.75 over 4 frames.",
    ]


def test_skipped_minibatches_say_nothing() -> None:
    lines: list[str] = []
    log = TrainingLog(1, lines.append)
    first, second = ({"output": ObjectiveStats(value, weight=1.0)} for value in (-1.0, -2.0))
    log.add(0, StepResult(first, second))
    log.add(1, StepResult())
    log.add(2, StepResult({"output": ObjectiveStats(-3.0, weight=1.0)}))
    assert lines == ["Average objective function for 'output' for minibatches 0-1 is -1 over 1 frames."]
    assert log.totals["output_backstitch"].objective == -2.0


def test_sums_go_on_where_they_were() -> None:
    """Exactly, though no single-precision number is 0.1, and in the middle of an interval."""
    lines: list[list[str]] = [[], []]
    logs = [TrainingLog(3, own.append) for own in lines]
    short = Update({"a": 0.25}, 0.8, {"a": 0.75}, 2.0, ("a", "b", "c"))

    def add(log: TrainingLog, number: int) -> None:
        stats = {"output": ObjectiveStats(0.1, 0.2, 0.3, 0.4, 1e9 + 0.5)}
        log.add(number, StepResult(stats, stats, (Update(), short)))

    for number in range(2):
        add(logs[0], number)
    state = logs[0].state()
    logs[1].load_state({name: value.clone() for name, value in state.items()})
    lines[0].clear()
    for log in logs:
        for number in range(2, 5):
            add(log, number)
        log.finish()
    assert lines[0] == lines[1]
    assert len(lines[0]) == 3 * 1 + 2 + 4 + 2
    assert lines[0][-2] == "For a, per-component max-change was enforced 50 % of the time."
    assert lines[0][-1] == "The global max-change was enforced 50 % of the time."
    assert logs[0].totals == logs[1].totals
    for name, value in logs[0].state().items():
        assert torch.equal(value, logs[1].state()[name])
