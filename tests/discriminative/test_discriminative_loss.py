"""The loss for PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import nnet3
from nnet3.discriminative import DiscriminativeOptions, discriminative_loss, discriminative_value
from nnet3.errors import ArgumentError, GradientError, TrainingError
from tests.discriminative.small_supervision import PDFS, random_output, random_supervision, toy_transitions
from tests.effort import EFFORT

RNG = np.random.default_rng(0)
SUPERVISION = random_supervision(RNG, sequences=3, frames=4, with_epsilons=True)
OUTPUT = random_output(RNG, SUPERVISION)
MODEL = toy_transitions()
TERMS: list[dict[str, Any]] = [
    {"criterion": "mmi"},
    {"criterion": "mmi", "boost": 0.3, "silence_phones": (1,), "acoustic_scale": 1.0},
    {"criterion": "smbr", "priors": np.array([0.2, 0.5, 0.3])},
    {"criterion": "mpfe", "silence_phones": (1, 3), "one_silence_class": True, "l2_regularize": 0.2},
]


def test_it_is_public() -> None:
    assert nnet3.discriminative_loss is discriminative_loss


@pytest.mark.parametrize("terms", TERMS)
def test_gradients_are_those_of_finite_differences(terms: dict[str, Any]) -> None:
    """By both outputs; log-softmax keeps the output below 0 where priors need that."""

    def loss(y: Tensor, z: Tensor) -> Tensor:
        second = {"xent_output": z.log_softmax(1), "xent_regularize": 0.2}
        return discriminative_loss(y.log_softmax(1), SUPERVISION, MODEL, **terms, **second)

    given = (OUTPUT.clone().requires_grad_(), random_output(RNG, SUPERVISION).requires_grad_())
    assert torch.autograd.gradcheck(loss, given, atol=1e-6, fast_mode=EFFORT == 1)


def test_it_is_the_negative_objective_and_kaldis_gradient_times_the_scale() -> None:
    options = DiscriminativeOptions(criterion="mmi", acoustic_scale=0.3)
    value = discriminative_value(OUTPUT, SUPERVISION, MODEL, options)
    y = OUTPUT.clone().requires_grad_()
    loss = discriminative_loss(y, SUPERVISION, MODEL, criterion="mmi", acoustic_scale=0.3, reduction="sum")
    loss.backward()
    assert loss.item() == pytest.approx(-value.objective)
    assert y.grad is not None
    torch.testing.assert_close(y.grad, -0.3 * value.deriv)
    mean = discriminative_loss(OUTPUT, SUPERVISION, MODEL, criterion="mmi", acoustic_scale=0.3)
    assert mean.item() == pytest.approx(-value.objective / 12)


def test_layouts_lists_and_padded_batches_are_the_same() -> None:
    parts = [random_supervision(RNG, 1, frames) for frames in (4, 2, 3)]
    padded = torch.randn(3, 5, PDFS, dtype=torch.float64).requires_grad_()
    lengths = [4, 2, 3]
    together = discriminative_loss(padded, parts, MODEL, lengths=lengths, reduction="sum")
    together.backward()
    alone = sum(
        float(discriminative_loss(padded[n : n + 1, :length].detach(), part, MODEL, reduction="sum"))
        for n, (part, length) in enumerate(zip(parts, lengths, strict=True))
    )
    assert together.item() == pytest.approx(alone)
    assert padded.grad is not None
    for number, length in enumerate(lengths):
        assert not padded.grad[number, length:].any()
    assert padded.grad.any()
    flat = padded.detach().transpose(0, 1).reshape(15, PDFS)
    assert discriminative_loss(flat, parts, MODEL, reduction="sum").item() == pytest.approx(alone)


def test_deriv_weights_scale_rows_of_the_gradient_alone() -> None:
    weights = torch.arange(12.0)
    grads, losses = [], []
    for given in (None, weights):
        y = OUTPUT.clone().requires_grad_()
        loss = discriminative_loss(y, SUPERVISION, MODEL, deriv_weights=given)
        loss.backward()
        assert y.grad is not None
        losses.append(loss.item())
        grads.append(y.grad)
    assert losses[0] == losses[1]
    torch.testing.assert_close(grads[1], grads[0] * weights.unsqueeze(1).double())


@pytest.mark.parametrize("criterion", ["mmi", "smbr"])
def test_an_output_that_is_nan_has_no_gradient(criterion: str) -> None:
    y = OUTPUT.clone()
    y[2, 1] = torch.nan
    y.requires_grad_()
    loss = discriminative_loss(y, SUPERVISION, MODEL, criterion=criterion)
    loss.backward()
    assert loss.item() == 10
    assert y.grad is not None
    assert not y.grad.any()


def test_low_precision_and_second_derivatives() -> None:
    y = OUTPUT.bfloat16().requires_grad_()
    loss = discriminative_loss(y, SUPERVISION, MODEL)
    loss.backward()
    assert loss.dtype == torch.float32
    assert y.grad is not None
    assert y.grad.dtype == torch.bfloat16
    x = OUTPUT.clone().requires_grad_()
    (grad,) = torch.autograd.grad(discriminative_loss(x, SUPERVISION, MODEL), x, create_graph=True)
    with pytest.raises(GradientError, match="discriminative_loss"):
        grad.sum().backward()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"reduction": "none"}, ArgumentError, "'mean' or 'sum'"),
        ({"criterion": "mce"}, TrainingError, "mce"),
        ({"priors": np.zeros(3)}, ArgumentError, "priors must be"),
        ({"priors": np.ones(2) / 2}, TrainingError, "priors of 2 pdfs"),
        ({"lengths": [4, 4, 3]}, TrainingError, "lengths are"),
        ({"deriv_weights": np.ones(3)}, ArgumentError, "one number for each of 12 rows"),
        ({"xent_output": OUTPUT[:3]}, ArgumentError, "same shape"),
        ({"output": OUTPUT.long()}, ArgumentError, "floats"),
        ({"output": OUTPUT.view(4, 3, PDFS)}, TrainingError, "the output has 3 frames"),
        ({"output": OUTPUT[:11]}, TrainingError, "the output has 3 frames"),
        ({"output": torch.zeros(13, PDFS)}, TrainingError, "13 rows"),
        ({"supervision": []}, TrainingError, "give one supervision"),
        ({"supervision": [SUPERVISION, SUPERVISION]}, TrainingError, "of one sequence"),
        ({"supervision": "x"}, ArgumentError, "each supervision"),
        ({"output": torch.cat([OUTPUT, OUTPUT], -1)}, TrainingError, "the output has .* columns, the transition model"),
    ],
)
def test_arguments_that_cannot_be_meant(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    given = {"output": OUTPUT, "supervision": SUPERVISION, "transitions": MODEL} | arguments
    with pytest.raises(error, match=message):
        discriminative_loss(**given)
