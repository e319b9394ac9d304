"""Objectives and outputs of held-out data."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import torch

from nnet3.nnet import Nnet
from nnet3.train import Evaluator, MatrixTarget, Minibatch, NetworkInput, evaluate
from nnet3.train.minibatch import grid

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
    assert abs(float(outputs["normalized"].mean())) < 1e-6, "training mode"


def test_public_name_is_the_function_whatever_was_imported_before() -> None:
    command = "import nnet3.train.evaluation; from nnet3.train import evaluate; print(callable(evaluate))"
    assert subprocess.run([sys.executable, "-c", command], capture_output=True, text=True).stdout.strip() == "True"
