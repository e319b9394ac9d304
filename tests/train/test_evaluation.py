"""Objectives and outputs of held-out data."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from nnet3 import ComputationCache, train
from nnet3.components import RandomSource
from nnet3.errors import TrainingError
from nnet3.model.edits.modes import with_modes
from nnet3.model.nnet import Nnet
from nnet3.train import Evaluator, MatrixTarget, Minibatch, NetworkInput, ObjectiveStats, OutputResult, evaluate
from nnet3.training.train.evaluation import count_correct
from nnet3.training.train.minibatch import Target, grid
from tests.train.objective_checks import sparse, target

X = torch.tensor([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
CONFIG = """
input-node name=input dim=2
component name=affine type=AffineComponent input-dim=2 output-dim=1
component-node name=affine component=affine input=input
component name=norm type=BatchNormComponent dim=1
component-node name=norm component=norm input=affine
output-node name=output input=affine objective=quadratic
output-node name=normalized input=norm objective=quadratic
"""


def minibatch() -> Minibatch:
    rows = grid(3, [0])
    names = ["output", "normalized"]
    targets = [MatrixTarget(name, rows, torch.tensor([[1.0], [-1.0], [0.5]])) for name in names]
    return Minibatch([NetworkInput("input", rows, X)], targets)


def test_evaluation_changes_nothing() -> None:
    nnet = Nnet.from_config(CONFIG, seed=1)
    nnet.components["norm"].count = 1.0  # type: ignore[attr-defined]
    before = nnet.info()
    stats = evaluate(nnet, [minibatch(), minibatch()])
    assert nnet.info() == before
    assert (stats["output"].weight, stats["output"].accuracy) == (6.0, 1.0)


def test_outputs_are_of_the_network_as_it_is() -> None:
    nnet = Nnet.from_config(CONFIG, seed=1)
    outputs = Evaluator(nnet).add(minibatch())
    linear, bias = nnet.components["affine"].parameters().values()
    np.testing.assert_allclose(outputs["output"], X @ linear.t() + bias, rtol=1e-5)
    assert outputs.keys() == {"output", "normalized"}
    assert abs(float(outputs["normalized"].mean())) < 1e-6, "training mode"


def test_computations_are_kept_where_one_says_and_run_again() -> None:
    cache = ComputationCache()
    evaluator = Evaluator(Nnet.from_config(CONFIG, seed=1), cache=cache)
    for _ in range(2):
        evaluator.add(minibatch())
    assert len(cache) == 1
    assert {name: stats.weight for name, stats in evaluator.stats.items()} == {"output": 6.0, "normalized": 6.0}


@pytest.mark.parametrize("wanted", [True, False])
def test_accuracy_and_statistics_if_so_asked(wanted: bool) -> None:
    nnet = Nnet.from_config(CONFIG, seed=1)
    evaluator = Evaluator(nnet, accuracy=wanted, store_stats=wanted)
    evaluator.add(minibatch())
    assert evaluator.stats["output"].counted == (0.5 if wanted else 0.0)
    assert nnet.components["norm"].count == (3.0 if wanted else 0.0)  # type: ignore[attr-defined]


@dataclass(frozen=True, eq=False)
class Words:
    """A target that is no matrix."""

    name: str
    indexes: np.ndarray
    is_finite: bool = True


class TwoTerms:
    """An objective of two outputs, with a term that is no part of what is compared."""

    def outputs(self, target: Target) -> tuple[str, ...]:
        return (target.name, "normalized")

    def evaluate(
        self, target: Target, outputs: Sequence[Tensor], *, rng: RandomSource, with_derivs: bool
    ) -> Sequence[OutputResult]:
        assert not with_derivs
        assert [len(output) for output in outputs] == [3, 3]
        weights = zip((target.name, "normalized"), (1.0, 3.0), strict=True)
        return [OutputResult(name, ObjectiveStats(-2.0, -0.5, weight), None) for name, weight in weights]


def test_the_average_is_of_all_outputs_and_terms() -> None:
    evaluator = Evaluator(Nnet.from_config(CONFIG, seed=1), TwoTerms())
    evaluator.add(Minibatch(minibatch().inputs, [Words("output", grid(3, [0]))]))
    assert evaluator.average == -5.0 / 4.0
    assert evaluator.stats["output"] == ObjectiveStats(-2.0, -0.5, 1.0), "no accuracy of what is no matrix"


def test_errors_name_the_minibatch() -> None:
    evaluator = Evaluator(Nnet.from_config(CONFIG, seed=1))
    wrong = Minibatch(minibatch().inputs, [MatrixTarget("output", grid(3, [0]), torch.zeros(3, 2))], "the-key")
    with pytest.raises(TrainingError, match=r"minibatch 'the-key': output 'output' is \(3, 1\), its target \(3, 2\)"):
        evaluator.add(wrong)


@pytest.mark.parametrize("before", [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("wanted", [(False, False), (True, False), (False, True)])
def test_modes_are_those_wanted_besides_those_there_are(before: tuple[bool, bool], wanted: tuple[bool, bool]) -> None:
    drop = "component name=drop type=DropoutComponent dim=1 dropout-proportion=0.5\n"
    nnet = Nnet.from_config(
        CONFIG.replace("output-node name=output", f"{drop}output-node name=output").replace(
            "output-node name=normalized input=norm",
            "component-node name=drop component=drop input=norm\noutput-node name=normalized input=drop",
        )
    )
    for name, mode in zip(("norm", "drop"), before, strict=True):
        nnet.components[name].set_test_mode(mode)
    twin = with_modes(nnet, batchnorm_test_mode=wanted[0], dropout_test_mode=wanted[1])
    assert [nnet.components[name].test_mode for name in ("norm", "drop")] == [*before]
    assert [twin.components[name].test_mode for name in ("norm", "drop")] == [
        one or other for one, other in zip(before, wanted, strict=True)
    ]


def test_public_names_are_what_they_say() -> None:
    assert all(getattr(train, name).__name__ == name for name in train.__all__)
    with pytest.raises(AttributeError, match="nothing"):
        _ = train.nothing  # type: ignore[attr-defined]


def test_public_name_is_the_function_whatever_was_imported_before(new_python: Path) -> None:
    command = "import nnet3.training.train.evaluation; from nnet3.train import evaluate; print(callable(evaluate))"
    assert subprocess.run([new_python, "-c", command], capture_output=True, text=True).stdout.strip() == "True"


Y = torch.tensor([[2.0, 1.0], [2.0, 1.0], [0.0, 5.0], [3.0, 3.0]])


@pytest.mark.parametrize("make", [torch.tensor, sparse])
def test_rows_are_weighted_and_those_without_labels_left_out(make: object) -> None:
    matrix = make([[1.0, 0.0], [0.0, 3.0], [0.0, 0.0], [2.0, 0.0]])  # type: ignore[operator]
    assert count_correct(target(matrix), Y).tolist() == [[3.0, 0.0], [3.0, 3.0]]


@pytest.mark.parametrize("make", [torch.tensor, sparse])
def test_the_first_of_equals_and_soft_labels(make: object) -> None:
    matrix = make([[0.5, 0.5], [0.25, 0.75], [0.25, 0.5], [0.75, 0.25]])  # type: ignore[operator]
    assert count_correct(target(matrix), Y).tolist() == [[2.0, 0.75], [2.0, 1.75]]


@pytest.mark.parametrize("make", [torch.tensor, sparse])
def test_what_is_not_stored_is_zero_and_may_be_the_largest(make: object) -> None:
    matrix = make([[-1.0, 0.0], [-1.0, 0.0], [-1.0, 0.0], [-1.0, -2.0]])  # type: ignore[operator]
    assert count_correct(target(matrix), Y).tolist() == [[-3.0, -1.0], [-3.0, -3.0]]
