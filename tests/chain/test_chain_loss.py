"""The loss for PyTorch."""

from __future__ import annotations

import warnings
from dataclasses import replace

import pytest
import torch
from torch import Tensor

import nnet3
from nnet3.chain import ChainOptions, Denominator, Supervision, chain_loss, chain_value
from nnet3.errors import ArgumentError, GradientError, ModelFormatError, TrainingError
from nnet3.training.chain.supervision import concatenate
from tests.chain.chain_data import random_acceptor, random_cyclic_acceptor, random_graph
from tests.effort import EFFORT, at_night

FRAMES, SEQUENCES, PDFS = 4, 3, 5
DENOMINATOR = Denominator(random_graph(3), 0.1)
SUPERVISION = Supervision(
    0.5, SEQUENCES, FRAMES, PDFS, (concatenate([random_acceptor(s, FRAMES, PDFS) for s in range(SEQUENCES)]),)
)


def _output(seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(FRAMES * SEQUENCES, PDFS, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def test_it_is_public() -> None:
    assert nnet3.chain_loss is chain_loss


@pytest.mark.parametrize("seed", [0, *at_night(1, 2)])
def test_gradients_are_those_of_finite_differences(seed: int) -> None:
    """By the output, with all terms; that by the second output is of its part alone."""

    def loss(y: Tensor) -> Tensor:
        return chain_loss(y, SUPERVISION, DENOMINATOR, l2_regularize=0.3)

    assert torch.autograd.gradcheck(loss, (_output(seed).requires_grad_(),), fast_mode=EFFORT == 1)
    y = _output(seed)

    def with_xent(z: Tensor) -> Tensor:
        return chain_loss(y, SUPERVISION, DENOMINATOR, xent_output=z, xent_regularize=0.2, reduction="sum")

    assert torch.autograd.gradcheck(with_xent, (_output(seed + 1).requires_grad_(),), fast_mode=EFFORT == 1)


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


# ---- beyond -30 .. 30 ----


beyond_range = pytest.mark.filterwarnings("ignore:chain_loss is given an output of:RuntimeWarning")


def _large(seed: int = 0) -> Tensor:
    y = _output(seed)
    y[1, 2], y[4, 0], y[7, 3] = 41.0, -35.0, 33.0
    return y


@beyond_range
def test_outputs_beyond_range_have_a_loss_and_its_gradient() -> None:
    y = _large().requires_grad_()

    def loss(y: Tensor) -> Tensor:
        return chain_loss(y, SUPERVISION, DENOMINATOR, out_of_range_regularize=0.3)

    assert torch.autograd.gradcheck(loss, (y,), fast_mode=EFFORT == 1)
    first, second = (torch.autograd.grad(loss(y), y)[0] for _ in range(2))
    assert torch.equal(first, second), "nothing is drawn"


@beyond_range
def test_the_pull_is_the_mean_of_kaldis() -> None:
    y = _large().requires_grad_()
    grads = []
    for scale in (0.0, 0.5):
        loss = chain_loss(y, SUPERVISION, DENOMINATOR, reduction="sum", out_of_range_regularize=scale)
        grads += torch.autograd.grad(loss, y)
    beyond = (y - y.clamp(-30, 30)).detach()
    torch.testing.assert_close(grads[1] - grads[0], 0.5 * beyond)


@beyond_range
@pytest.mark.parametrize("shift", [50.0, -70.0])
def test_a_constant_added_to_all_outputs_changes_nothing_anywhere(shift: float) -> None:
    """Each path has one output a frame, above and below."""
    y = _output()
    plain = chain_loss(y, SUPERVISION, DENOMINATOR)
    moved = chain_loss(y + shift, SUPERVISION, DENOMINATOR, out_of_range_regularize=0.0)
    in_float32 = chain_loss((y + shift).float(), SUPERVISION, DENOMINATOR, out_of_range_regularize=0.0)
    torch.testing.assert_close(moved, plain)
    torch.testing.assert_close(in_float32, plain.float(), atol=1e-4, rtol=1e-4)


def test_outputs_beyond_range_are_warned_of_once_a_place() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            chain_loss(_large(), SUPERVISION, DENOMINATOR)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert "given an output of 41, beyond -30 .. 30: there Kaldi cuts" in str(caught[0].message)


# ---- sequences of unequal lengths ----

LENGTHS = [3, 6, 4, 6, 1]


def _supervisions(end_to_end: bool, weight: float = 1.0) -> list[Supervision]:
    if end_to_end:
        fsts = [random_cyclic_acceptor(seed, PDFS) for seed in range(5)]
    else:
        fsts = [random_acceptor(seed, frames, PDFS) for seed, frames in enumerate(LENGTHS)]
    return [Supervision(weight, 1, frames, PDFS, (fst,), end_to_end) for fst, frames in zip(fsts, LENGTHS, strict=True)]


@pytest.mark.parametrize("padding", [0, 2])
@pytest.mark.parametrize("layout", ["batch", "flat"])
@pytest.mark.parametrize("beyond", [1.0, torch.nan])
@pytest.mark.parametrize("end_to_end", [False, True], ids=["chunks", "end to end"])
def test_unequal_lengths_are_as_one_by_one(end_to_end: bool, beyond: float, layout: str, padding: int) -> None:
    supervisions = _supervisions(end_to_end, weight=0.5)
    frames = 6 + padding
    y = torch.randn(5, frames, PDFS, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    xent = y.log_softmax(2)
    for row, length in enumerate(LENGTHS):
        y[row, length:] = xent[row, length:] = beyond
    y.requires_grad_()
    xent.requires_grad_()
    options = {"l2_regularize": 0.1, "xent_regularize": 0.2}
    losses = [
        chain_loss(
            y[row : row + 1, :length],
            supervision,
            DENOMINATOR,
            xent_output=xent[row : row + 1, :length],
            reduction="sum",
            **options,
        )
        for row, (supervision, length) in enumerate(zip(supervisions, LENGTHS, strict=True))
    ]
    expected = torch.autograd.grad(sum(losses), (y, xent))
    outputs = [y, xent] if layout == "batch" else [each.transpose(0, 1).reshape(-1, PDFS) for each in (y, xent)]
    loss = chain_loss(
        outputs[0], supervisions, DENOMINATOR, xent_output=outputs[1], lengths=LENGTHS, reduction="sum", **options
    )
    torch.testing.assert_close(loss, sum(losses))
    torch.testing.assert_close(torch.autograd.grad(loss, (y, xent)), expected)
    mean = chain_loss(
        outputs[0], supervisions, DENOMINATOR, xent_output=outputs[1], lengths=torch.tensor(LENGTHS), **options
    )
    torch.testing.assert_close(mean, sum(losses) / (0.5 * sum(LENGTHS)))


def test_lengths_come_from_the_supervisions() -> None:
    y = torch.randn(5, 6, PDFS, dtype=torch.float64).requires_grad_()
    loss = chain_loss(y, _supervisions(False), DENOMINATOR)
    assert loss == chain_loss(y, _supervisions(False), DENOMINATOR, lengths=LENGTHS)
    two = y[:2].detach().requires_grad_()
    assert torch.autograd.gradcheck(
        lambda y: chain_loss(y, _supervisions(False)[:2], DENOMINATOR), (two,), fast_mode=EFFORT == 1
    )
    equal = chain_loss(y[:1, :3], _supervisions(False)[:1], DENOMINATOR)
    assert equal == chain_loss(y[:1, :3], _supervisions(False)[0], DENOMINATOR)


def test_one_end_to_end_supervision_with_lengths() -> None:
    whole = Supervision(1.0, 5, 6, PDFS, tuple(each.fsts[0] for each in _supervisions(True)), end_to_end=True)
    y = torch.randn(5, 6, PDFS, dtype=torch.float64)
    torch.testing.assert_close(
        chain_loss(y, whole, DENOMINATOR, lengths=LENGTHS), chain_loss(y, _supervisions(True), DENOMINATOR)
    )


@beyond_range
def test_unequal_lengths_beyond_range() -> None:
    y = 30 * torch.randn(5, 6, PDFS, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    loss = chain_loss(y, _supervisions(False), DENOMINATOR, reduction="sum")
    one_by_one = [
        chain_loss(y[row : row + 1, :length], supervision, DENOMINATOR, reduction="sum")
        for row, (supervision, length) in enumerate(zip(_supervisions(False), LENGTHS, strict=True))
    ]
    torch.testing.assert_close(loss, sum(one_by_one))


def test_lengths_that_do_not_fit() -> None:
    y = torch.zeros(5, 6, PDFS)
    with pytest.raises(ArgumentError, match="lengths must be 5 integers"):
        chain_loss(y, _supervisions(False), DENOMINATOR, lengths=[3, 4])
    with pytest.raises(ArgumentError, match="lengths must be from 1 to the 6 frames of the batch, got 0 to 7"):
        chain_loss(y, _supervisions(True), DENOMINATOR, lengths=[0, 7, 1, 1, 1])
    with pytest.raises(TrainingError, match=r"supervision is for \[3, 6, 4, 6, 1\] frames"):
        chain_loss(y, _supervisions(False), DENOMINATOR, lengths=[3, 6, 4, 6, 2])
    with pytest.raises(TrainingError, match="need a list of supervisions, one for each"):
        chain_loss(_output(), SUPERVISION, DENOMINATOR, lengths=[4, 4, 3])
    with pytest.raises(TrainingError, match="the output has 5 frames, the supervision 6"):
        chain_loss(y[:, :5], _supervisions(False), DENOMINATOR)
    with pytest.raises(ModelFormatError, match="only if their weight are equal"):
        chain_loss(y, [*_supervisions(False)[:4], _supervisions(False, weight=2.0)[4]], DENOMINATOR)
    with pytest.raises(ArgumentError, match="each supervision must be a Supervision"):
        chain_loss(y, [*_supervisions(False)[:4], None], DENOMINATOR)  # type: ignore[list-item]
    assert chain_loss(_output(), SUPERVISION, DENOMINATOR, lengths=[4, 4, 4]) == chain_loss(
        _output(), SUPERVISION, DENOMINATOR
    )


# ---- transformations ----


def test_grad_of_torch_func_works_and_vmap_is_refused() -> None:
    y = _output()
    (expected,) = torch.autograd.grad(chain_loss(z := y.clone().requires_grad_(), SUPERVISION, DENOMINATOR), z)
    torch.testing.assert_close(torch.func.grad(lambda y: chain_loss(y, SUPERVISION, DENOMINATOR))(y), expected)
    with pytest.raises(GradientError, match=r"torch\.vmap cannot run"):
        torch.vmap(lambda y: chain_loss(y, SUPERVISION, DENOMINATOR))(torch.stack([y, y]))


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")
def test_a_compiled_step_calls_it_as_it_is() -> None:
    torch._dynamo.reset()
    seen: list[torch.fx.GraphModule] = []

    def backend(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> torch.fx.GraphModule:
        seen.append(graph)
        return graph

    def step(y: Tensor) -> Tensor:
        return 2 * chain_loss(torch.tanh(y), SUPERVISION, DENOMINATOR)

    y, z = _output().requires_grad_(), _output().requires_grad_()
    loss, expected = torch.compile(step, backend=backend)(y), step(z)
    assert loss == expected
    loss.backward()
    expected.backward()
    torch.testing.assert_close(y.grad, z.grad)
    assert len({str(node.target) for graph in seen for node in graph.graph.nodes if node.op.startswith("call")}) == 2


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


def test_without_gradients_none_is_required() -> None:
    with torch.no_grad():
        assert not chain_loss(_output(), SUPERVISION, DENOMINATOR).requires_grad


def test_wrong_arguments_are_refused() -> None:
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
