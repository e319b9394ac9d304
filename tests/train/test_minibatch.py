"""Minibatches: their requests, sequences, targets; grids and labels."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from nnet3.errors import LostError, NetworkError, Nnet3Error, TrainingError
from nnet3.train import MatrixTarget, Minibatch, NetworkInput
from nnet3.training.train.minibatch import grid, naming, one_hot


def minibatch(num_targets: int = 3) -> Minibatch:
    return Minibatch(
        [NetworkInput("input", grid(3, [0]), torch.zeros(3, 2))],
        [MatrixTarget("output", grid(num_targets, [0]), torch.zeros(3, 1))],
    )


def test_labels_and_grids() -> None:
    assert one_hot(np.array([2, 0]), 3).dense().tolist() == [[0, 0, 1], [1, 0, 0]]
    assert grid(2, [3, 5]).tolist() == [[0, 3, 0], [0, 5, 0], [1, 3, 0], [1, 5, 0]]


def test_requests_follow_from_what_is_trained() -> None:
    request = minibatch().request(train=True)
    assert (request.need_model_derivative, request.store_component_stats) == (True, True)
    assert [io.has_deriv for io in (*request.inputs, *request.outputs)] == [False, True]
    assert not minibatch().request(train=True, store_stats=False).store_component_stats
    assert not minibatch().request(train=False).needs_backward
    assert minibatch().request(train=True, frozen=["a"]).frozen == {"a"}
    two = minibatch().request([("output", "output-xent")], train=True)
    assert [io.name for io in two.outputs] == ["output", "output-xent"]


def test_inputs_and_targets_have_equally_many_sequences() -> None:
    assert minibatch().num_sequences == 3
    with pytest.raises(TrainingError, match="equally many sequences, got input 3, output 2"):
        _ = minibatch(num_targets=2).num_sequences
    assert minibatch(num_targets=0).num_sequences == 3, "rows that are not there say nothing"
    with pytest.raises(TrainingError, match="got no rows"):
        _ = Minibatch([], []).num_sequences


@pytest.mark.parametrize(("key", "expected"), [("a", "minibatch 'a': no"), ("", "no")])
def test_errors_say_which_minibatch(key: str, expected: str) -> None:
    with pytest.raises(Nnet3Error) as caught, naming(Minibatch([], [], key)):
        raise NetworkError("no")
    assert (str(caught.value), type(caught.value)) == (expected, TrainingError if key else NetworkError)


def test_a_lost_process_is_nothing_to_do_with_the_minibatch() -> None:
    named = Minibatch(minibatch().inputs, minibatch().targets, "utt1")
    with pytest.raises(LostError, match=r"^process 1 has lost the others$"), naming(named):
        raise LostError("process 1 has lost the others")


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_targets_know_whether_they_are_finite(value: float) -> None:
    large = torch.full((2, 1), 3e38)
    assert MatrixTarget("output", grid(2, [0]), large).is_finite, "though its sum is not"
    large[1] = value
    assert not MatrixTarget("output", grid(2, [0]), large).is_finite
    sparse = one_hot(np.array([2, 0]), 3)
    assert MatrixTarget("output", grid(2, [0]), sparse).is_finite
    sparse.values[0] = value
    assert not MatrixTarget("output", grid(2, [0]), sparse).is_finite
