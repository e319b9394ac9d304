"""The trainer: a step by hand, momentum, l2, learning rates, statistics, refused steps, evaluation."""

from __future__ import annotations

import math

import pytest
import torch

from nnet3.errors import TrainingError
from nnet3.nnet import Nnet
from nnet3.train import MatrixTarget, Minibatch, NetworkInput, Trainer, TrainerOptions
from nnet3.train.minibatch import grid

CONFIG = """
input-node name=input dim=2
component name=affine type=AffineComponent input-dim=2 output-dim=1 {affine}
component-node name=affine component=affine input=input
output-node name=output input=affine objective=quadratic
"""
X = torch.tensor([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
Y = torch.tensor([[1.0], [-1.0], [0.5]])
FREE = {"max_param_change": 0.0}


def network(affine: str = "") -> Nnet:
    return Nnet.from_config(CONFIG.format(affine=affine), seed=3)


def minibatch(x: torch.Tensor = X) -> Minibatch:
    rows = grid(3, [0])
    return Minibatch([NetworkInput("input", rows, x)], [MatrixTarget("output", rows, Y)])


def gradient(nnet: Nnet) -> tuple[torch.Tensor, torch.Tensor]:
    linear, bias = nnet.components["affine"].parameters().values()
    error = Y - (X @ linear.t() + bias)
    return error.t() @ X, error.sum(0)


def test_a_step_is_rate_times_the_summed_gradient() -> None:
    nnet = network("learning-rate-factor=0.5")
    start, (linear, bias) = nnet.copy(), gradient(nnet)
    stats = Trainer(nnet, TrainerOptions(**FREE)).train_minibatch(minibatch(), 0.1).total
    before, after = (list(n.components["affine"].parameters().values()) for n in (start, nnet))
    torch.testing.assert_close(after[0], before[0] + 0.05 * linear)
    torch.testing.assert_close(after[1], before[1] + 0.05 * bias)
    error = Y - (X @ before[0].t() + before[1])
    assert stats.objective == pytest.approx(-0.5 * float(error.square().sum()))


def test_momentum() -> None:
    """theta += (1 - m) D with D = m D + rate g."""
    nnet = network()
    weights, delta = nnet.flat_parameters()[0].clone(), torch.zeros(3)
    trainer = Trainer(nnet, TrainerOptions(momentum=0.75, **FREE))
    for _ in range(3):
        delta = 0.75 * delta + 0.1 * torch.cat([part.flatten() for part in gradient(nnet)])
        weights = weights + 0.25 * delta
        trainer.train_minibatch(minibatch(), 0.1)
        torch.testing.assert_close(nnet.flat_parameters()[0], weights)


def test_l2_pulls_to_zero_by_the_number_of_sequences() -> None:
    nnet = network("l2-regularize=0.02")
    expected = nnet.flat_parameters()[0].clone()
    expected += 0.1 * torch.cat([part.flatten() for part in gradient(nnet)]) - 2 * 3 * 0.5 * 0.1 * 0.02 * expected
    Trainer(nnet, TrainerOptions(l2_regularize_factor=0.5, **FREE)).train_minibatch(minibatch(), 0.1)
    torch.testing.assert_close(nnet.flat_parameters()[0], expected)


def test_a_step_that_is_not_finite_is_refused_and_forgotten() -> None:
    nnet = network()
    before = nnet.flat_parameters()[0].clone()
    trainer = Trainer(nnet, TrainerOptions(momentum=0.5))
    trainer.train_minibatch(minibatch(X * math.nan), 0.1)
    assert trainer.num_skipped == 1
    assert torch.equal(nnet.flat_parameters()[0], before)
    trainer.train_minibatch(minibatch(), 0.1)
    assert trainer.num_skipped == 1
    assert bool(nnet.flat_parameters()[0].isfinite().all())


def test_batchnorm_statistics_fade_and_start_from_nothing() -> None:
    nnet = Nnet.from_config(
        "input-node name=input dim=2\ncomponent name=norm type=BatchNormComponent dim=2\n"
        "component-node name=norm component=norm input=input\noutput-node name=output input=norm objective=quadratic"
    )
    norm = nnet.components["norm"]
    y, memo = norm.propagate(X)
    norm.store_stats(X, y, memo)
    rows = grid(3, [0])
    batch = Minibatch([NetworkInput("input", rows, X)], [MatrixTarget("output", rows, torch.zeros(3, 2))])
    trainer = Trainer(nnet, TrainerOptions(batchnorm_stats_scale=0.5))
    for _ in range(2):
        trainer.train_minibatch(batch, 0.1)
    assert norm.count == pytest.approx((3 * 0.5 + 3) * 0.5)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"print_interval": 0}, "print_interval must be > 0, got 0"),
        ({"backstitch_training_scale": 0.3, "momentum": 0.1}, "backstitch needs momentum = 0"),
        ({"momentum": 1.0}, "momentum must be >= 0 and < 1, got 1.0"),
    ],
)
def test_options_that_cannot_be_meant(options: dict[str, float], message: str) -> None:
    with pytest.raises(TrainingError, match=message):
        Trainer(network(), TrainerOptions(**options))  # type: ignore[arg-type]
