"""The trainer: a step by hand, momentum, l2, learning rates, statistics, refused steps, evaluation."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from nnet3.errors import TrainingError
from nnet3.nnet import Nnet
from nnet3.train.minibatch import Minibatch, NamedMatrix, grid, one_hot
from nnet3.train.trainer import Progress, Trainer, TrainerOptions, evaluate

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
    return Minibatch([NamedMatrix("input", rows, x)], [NamedMatrix("output", rows, Y)])


def gradient(nnet: Nnet) -> tuple[torch.Tensor, torch.Tensor]:
    linear, bias = nnet.components["affine"].parameters().values()
    error = Y - (X @ linear.t() + bias)
    return error.t() @ X, error.sum(0)


def test_a_step_is_rate_times_the_summed_gradient() -> None:
    nnet = network("learning-rate-factor=0.5")
    start, (linear, bias) = nnet.copy(), gradient(nnet)
    stats = Trainer(nnet, TrainerOptions(**FREE)).train_minibatch(minibatch(), 0.1)
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


def test_learning_rates_fall_geometrically() -> None:
    progress: list[Progress] = []
    options = TrainerOptions(num_epochs=2, initial_learning_rate=0.01, final_learning_rate=0.0001)
    Trainer(network(), options).train(lambda epoch: [minibatch(), minibatch()], progress.append)
    rates = [each.learning_rate for each in progress]
    assert rates == pytest.approx([0.01 * 10 ** (-k / 2) for k in range(4)])
    assert [(each.epoch, each.minibatch, each.num_minibatches) for each in progress] == [
        (0, 1, 4),
        (0, 2, 4),
        (1, 3, 4),
        (1, 4, 4),
    ]


def test_a_step_that_is_not_finite_is_refused_and_forgotten() -> None:
    nnet = network()
    before = nnet.flat_parameters()[0].clone()
    trainer = Trainer(nnet, TrainerOptions(momentum=0.5))
    trainer.train_minibatch(minibatch(X * math.nan), 0.1)
    assert trainer.num_refused == 1
    assert torch.equal(nnet.flat_parameters()[0], before)
    trainer.train_minibatch(minibatch(), 0.1)
    assert trainer.num_refused == 1
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
    batch = Minibatch([NamedMatrix("input", rows, X)], [NamedMatrix("output", rows, torch.zeros(3, 2))])
    trainer = Trainer(nnet, TrainerOptions(batchnorm_stats_scale=0.5))
    for _ in range(2):
        trainer.train_minibatch(batch, 0.1)
    assert norm.count == pytest.approx((3 * 0.5 + 3) * 0.5)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"initial_learning_rate": 0.0}, "learning rates must be > 0"),
        ({"final_learning_rate": -1.0}, "learning rates must be > 0"),
        ({"momentum": 1.0}, "momentum must be >= 0 and < 1, got 1.0"),
    ],
)
def test_options_that_cannot_be_meant(options: dict[str, float], message: str) -> None:
    with pytest.raises(TrainingError, match=message):
        Trainer(network(), TrainerOptions(**options))  # type: ignore[arg-type]


def test_evaluation_changes_nothing_and_gives_outputs() -> None:
    nnet = network()
    before = nnet.info()
    stats, outputs = evaluate(nnet, [minibatch(), minibatch()])
    assert nnet.info() == before
    assert stats.weight == 6.0
    linear, bias = nnet.components["affine"].parameters().values()
    np.testing.assert_allclose(outputs[1], X @ linear.t() + bias, rtol=1e-5)


def test_minibatches() -> None:
    assert one_hot(np.array([2, 0]), 3).tolist() == [[0, 0, 1], [1, 0, 0]]
    assert grid(2, [3, 5]).tolist() == [[0, 3, 0], [0, 5, 0], [1, 3, 0], [1, 5, 0]]
    request = minibatch().request(train=True)
    assert (request.need_model_derivative, request.store_component_stats) == (True, True)
    assert [io.has_deriv for io in (*request.inputs, *request.outputs)] == [False, True]
    assert not minibatch().request(train=False).needs_backward
    assert minibatch().num_sequences == 3
