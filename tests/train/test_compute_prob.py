"""Objective and accuracy against Kaldi's program, and in the modes that are asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import nnet3
from nnet3.errors import TrainingError
from nnet3.training.train.compute_prob import column_lines, evaluated, gradient_lines, report_lines
from nnet3.training.train.objectives import ObjectiveStats
from tests.shared_data import golden_cases
from tests.train.examples_of import read_minibatches
from tests.train.networks import differing, everything, many, random_minibatch


@pytest.mark.parametrize("path", golden_cases("train", "prob.log"), ids=lambda path: path.name)
@pytest.mark.parametrize("collapse", [True, False])
def test_golden_objectives_are_computed_again(path: Path, collapse: bool) -> None:
    nnet = nnet3.load(path / "plain.raw")
    stats = evaluated(nnet, read_minibatches(path / "merged.ark", nnet), collapse=collapse).stats
    log = (path / "prob.log").read_text()
    lines = report_lines(nnet, stats)
    assert len(lines) == 2
    for line in lines:
        what, _, value = line.partition(" is ")
        (logged,) = [entry.partition(" is ")[2] for entry in log.splitlines() if f") {what} is " in entry]
        assert value.split()[1:] == logged.split()[1:]
        assert float(value.split()[0]) == pytest.approx(float(logged.split()[0]), rel=1e-4)


def test_modes_differ_and_the_network_is_left_as_it_was() -> None:
    nnet = many()
    norm: Any = nnet.components["norm"]
    y, memo = norm.propagate(random_minibatch(0).inputs[0].matrix.new_ones(5, 10))
    norm.store_stats(y, y, memo)
    before, data = everything(nnet), [random_minibatch(1)]
    values = {
        (batchnorm, dropout): evaluated(
            nnet, data, batchnorm_test_mode=batchnorm, dropout_test_mode=dropout, collapse=False
        )
        .stats["output"]
        .average
        for batchnorm in (True, False)
        for dropout in (True, False)
    }
    assert len(set(values.values())) == 4
    assert evaluated(nnet, data).stats["output"].average == pytest.approx(values[True, True])
    assert differing(before, everything(nnet)) == []
    assert not norm.test_mode


def test_lines_are_those_of_kaldi() -> None:
    stats = {"output": ObjectiveStats(-3.0, -0.5, 2.0, 1.0, 4.0)}
    assert report_lines(many(), stats) == [
        "Overall log-likelihood for 'output' is -1.5 + -0.25 = -1.75 per frame, over 2 frames.",
        "Overall accuracy for 'output' is 0.25 per frame, over 4 frames.",
    ]


def test_accuracy_by_column() -> None:
    nnet, data = many(), [random_minibatch(seed) for seed in (1, 2)]
    evaluator = evaluated(nnet, data, batchnorm_test_mode=False)
    own = evaluated(nnet, data, batchnorm_test_mode=False).stats["output"]
    assert evaluator.stats["output"] == own
    assert evaluator.correct_by_column["output"].sum(1).tolist() == pytest.approx([own.correct, own.counted])
    evaluator.correct_by_column["output"] = torch.tensor([[1.0, 0.0, 3.0], [4.0, 0.0, 3.0]])
    assert column_lines(evaluator) == [
        "Overall per-dim accuracy vector for 'output' is [ 0.25 -1 1 ] per frame, over 7 frames."
    ]


def test_no_examples_are_an_error() -> None:
    with pytest.raises(TrainingError, match="no examples"):
        evaluated(many(), [])


@pytest.mark.parametrize("path", golden_cases("train", "prob.log"), ids=lambda path: path.name)
def test_a_step_along_the_gradient_raises_the_objective_by_its_square(path: Path) -> None:
    nnet = nnet3.load(path / "plain.raw").to(dtype=torch.float64)
    data = [m.to(dtype=torch.float64) if hasattr(m, "to") else m for m in read_minibatches(path / "merged.ark", nnet)]
    before = evaluated(nnet, data, gradient=True)
    assert before.gradient is not None
    square = sum(before.gradient.squared_norms().values())
    (*_, line) = gradient_lines(before.gradient)
    assert line == f"Norm of the gradient is {square**0.5:g}"
    step = 1e-4 / square**0.5
    nnet.add_scaled_(before.gradient, dict.fromkeys(nnet.components, step))
    after = evaluated(nnet, data).stats["output"].objective
    assert after - before.stats["output"].objective == pytest.approx(step * square, rel=1e-2)
