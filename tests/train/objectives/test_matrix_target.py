"""Targets that do not fit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from nnet3.components import RandomSource
from nnet3.errors import TrainingError
from nnet3.train.objectives import LinearObjective
from tests.train.objectives.check import evaluate


def test_sizes_must_agree() -> None:
    with pytest.raises(TrainingError, match=r"output 'output' is \(2, 3\), its target \(2, 4\)"):
        evaluate("linear", torch.zeros(2, 3), torch.zeros(2, 4))


def test_a_target_of_another_kind() -> None:
    @dataclass
    class Words:
        name: str
        indexes: np.ndarray
        is_finite: bool = True

    words = Words("output", np.zeros((1, 3), np.int32))
    with pytest.raises(TrainingError, match="'output' wants a matrix, got a Words"):
        LinearObjective().evaluate(words, [torch.zeros(1, 2)], rng=RandomSource(0), with_derivs=True)
