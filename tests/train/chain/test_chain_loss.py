"""The loss for PyTorch."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

import nnet3
from nnet3.errors import ArgumentError, GradientError, TrainingError
from nnet3.train.chain import ChainOptions, Denominator, Supervision, chain_loss, chain_value
from nnet3.train.chain.supervision import concatenate
from train.chain.chain_data import random_acceptor, random_graph

FRAMES, SEQUENCES, PDFS = 4, 3, 5
DENOMINATOR = Denominator(random_graph(3), 0.1)
SUPERVISION = Supervision(
    0.5, SEQUENCES, FRAMES, PDFS, (concatenate([random_acceptor(s, FRAMES, PDFS) for s in range(SEQUENCES)]),)
)


def _output(seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(FRAMES * SEQUENCES, PDFS, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def test_it_is_public() -> None:
    assert nnet3.chain_loss is chain_loss


@pytest.mark.parametrize("seed", range(3))
def test_gradients(seed: int) -> None:
    """By the output, with all terms; that by the second output is of its part alone."""

    def loss(y: Tensor) -> Tensor:
        return chain_loss(y, SUPERVISION, DENOMINATOR, l2_regularize=0.3)

    assert torch.autograd.gradcheck(loss, (_output(seed).requires_grad_(),))
    y = _output(seed)

    def with_xent(z: Tensor) -> Tensor:
        return chain_loss(y, SUPERVISION, DENOMINATOR, xent_output=z, xent_regularize=0.2, reduction="sum")

    assert torch.autograd.gradcheck(with_xent, (_output(seed + 1).requires_grad_(),))


def test_both_layouts_are_the_same() -> None:
    flat = _output().requires_grad_()
    batch = _output().view(FRAMES, SEQUENCES, PDFS).transpose(0, 1).clone().requires_grad_()
    losses = [chain_loss(y, SUPERVISION, DENOMINATOR) for y in (flat, batch)]
    for loss in losses:
        loss.backward()
    assert losses[0].item() == losses[1].item()
    assert flat.grad is not None
    assert batch.grad is not None
    torch.testing.assert_close(batch.grad.transpose(0, 1).reshape(flat.shape), flat.grad)


def test_it_is_the_negative_objective() -> None:
    y = _output()
    value = chain_value(y, SUPERVISION, DENOMINATOR, ChainOptions(l2_regularize=0.1), with_posteriors=True)
    xent = _output(1).log_softmax(1)
    loss = chain_loss(y, SUPERVISION, DENOMINATOR, l2_regularize=0.1, xent_output=xent, reduction="sum")
    assert value.posteriors is not None
    expected = value.objective + value.l2_term + 0.1 * float((xent * value.posteriors).sum())
    assert loss.item() == pytest.approx(-expected)
    mean = chain_loss(y, SUPERVISION, DENOMINATOR, l2_regularize=0.1, xent_output=xent)
    assert mean.item() == pytest.approx(-expected / (0.5 * FRAMES * SEQUENCES))


def test_deriv_weights_scale_rows_of_the_gradients_alone() -> None:
    weights = torch.arange(12.0)
    grads, losses = [], []
    for given in (None, weights):
        y, xent = _output().requires_grad_(), _output(1).requires_grad_()
        loss = chain_loss(y, SUPERVISION, DENOMINATOR, xent_output=xent, deriv_weights=given)
        loss.backward()
        losses.append(loss.item())
        grads.append((y.grad, xent.grad))
    assert losses[0] == losses[1]
    for plain, scaled in zip(*grads, strict=True):
        torch.testing.assert_close(scaled, plain * weights.double().unsqueeze(1))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_types_of_numbers(dtype: torch.dtype) -> None:
    y = _output(dtype=torch.float32).to(dtype).requires_grad_()
    exact = y.detach().double().requires_grad_()
    losses = [chain_loss(value, SUPERVISION, DENOMINATOR) for value in (y, exact)]
    for loss in losses:
        loss.backward()
    assert losses[0].dtype == torch.float32
    assert losses[0].item() == pytest.approx(losses[1].item(), rel=1e-5)
    assert y.grad is not None
    assert exact.grad is not None
    assert y.grad.dtype == dtype
    torch.testing.assert_close(y.grad.double(), exact.grad, atol=2e-3, rtol=2e-2)


@pytest.mark.parametrize("options", [{"out_of_range_regularize": 0.5}, {}], ids=str)
def test_out_of_range_in_half_of_all_calls(options: dict[str, float]) -> None:
    y = (_output() * 0 + 40.0).requires_grad_()
    runs = []
    for _ in range(2):
        generator, sums = torch.Generator().manual_seed(0), []
        for _ in range(100):
            loss = chain_loss(y, SUPERVISION, DENOMINATOR, reduction="sum", generator=generator, **options)
            (grad,) = torch.autograd.grad(loss, y)
            sums.append(round(float(grad.sum()), 6))
        runs.append(sums)
    assert runs[0] == runs[1]
    pull = 2 * options.get("out_of_range_regularize", 0.01) * (40 - 30)
    assert set(runs[0]) == {0, round(60 * pull, 6)}  # of each of 60 outputs
    assert 35 < runs[0].count(0) < 65


def test_nan_gives_no_gradient() -> None:
    y = _output(dtype=torch.float32)
    y[1, 1] = torch.nan
    y.requires_grad_()
    loss = chain_loss(y, SUPERVISION, DENOMINATOR)
    loss.backward()
    assert loss.item() == 10.0
    assert y.grad is not None
    assert not y.grad.any()


def test_it_trains_any_module() -> None:
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.Tanh(), torch.nn.Linear(16, PDFS))
    optimizer = torch.optim.SGD(module.parameters(), lr=0.5)
    features = torch.randn(SEQUENCES, FRAMES, 4)
    losses = []
    for _ in range(30):
        loss = chain_loss(module(features), SUPERVISION, DENOMINATOR)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] - 0.3


def test_without_gradients() -> None:
    with torch.no_grad():
        assert not chain_loss(_output(), SUPERVISION, DENOMINATOR).requires_grad


def test_wrong_arguments() -> None:
    y = _output()
    with pytest.raises(ArgumentError, match="the denominator must be a Denominator"):
        chain_loss(y, SUPERVISION, DENOMINATOR.graph)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="the supervision must be a Supervision"):
        chain_loss(y, None, DENOMINATOR)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="reduction"):
        chain_loss(y, SUPERVISION, DENOMINATOR, reduction="none")
    with pytest.raises(ArgumentError, match="same shape"):
        chain_loss(y, SUPERVISION, DENOMINATOR, xent_output=y[:3])
    with pytest.raises(ArgumentError, match="12 rows"):
        chain_loss(y, SUPERVISION, DENOMINATOR, deriv_weights=torch.ones(3))
    with pytest.raises(ArgumentError, match=r"\(batch, frames, pdfs\)"):
        chain_loss(y[0], SUPERVISION, DENOMINATOR)
    with pytest.raises(ArgumentError, match=r"floats, got torch\.int64"):
        chain_loss(y.long(), SUPERVISION, DENOMINATOR)
    with pytest.raises(ArgumentError, match="xent_output must be a tensor"):
        chain_loss(y, SUPERVISION, DENOMINATOR, xent_output=y.numpy())  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [-0.5, torch.nan, torch.inf])
def test_deriv_weights_must_be_numbers_from_0_on(wrong: float) -> None:
    weights = torch.ones(FRAMES * SEQUENCES)
    weights[7] = wrong
    for given in (weights, weights.numpy()):
        with pytest.raises(ArgumentError, match=f"deriv_weights must be finite and >= 0, got {wrong:g} for row 7"):
            chain_loss(_output(), SUPERVISION, DENOMINATOR, deriv_weights=given)


def test_frames_and_sequences_cannot_be_taken_for_each_other() -> None:
    swapped = torch.zeros(FRAMES, SEQUENCES, PDFS)
    with pytest.raises(TrainingError, match=rf"here \({SEQUENCES}, {FRAMES}, {PDFS}\) as the supervision says, got"):
        chain_loss(swapped, SUPERVISION, DENOMINATOR)


def test_a_supervision_of_no_weight_has_no_loss() -> None:
    y = _output().requires_grad_()
    loss = chain_loss(y, replace(SUPERVISION, weight=0.0), DENOMINATOR)
    loss.backward()
    assert loss.item() == 0.0
    assert y.grad is not None
    assert not y.grad.any()


def test_second_derivatives_are_an_error_and_not_zero() -> None:
    y = _output().requires_grad_()
    (gradient,) = torch.autograd.grad(chain_loss(y, SUPERVISION, DENOMINATOR), y, create_graph=True)
    with pytest.raises(GradientError, match="the gradients of chain_loss cannot be differentiated again"):
        gradient.square().sum().backward()


def test_a_failure_is_said(caplog: pytest.LogCaptureFixture) -> None:
    chain_loss(torch.full_like(_output(), torch.nan), SUPERVISION, DENOMINATOR)
    assert "it counts as -10 per frame, without a gradient" in caplog.text
