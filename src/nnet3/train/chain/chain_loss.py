"""The objective as a loss that PyTorch can differentiate, for the output of any module."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from nnet3.errors import ArgumentError, TrainingError, check_kind
from nnet3.train.chain.denominator import Denominator
from nnet3.train.chain.objective_value import ChainOptions, chain_value
from nnet3.train.chain.supervision import Supervision
from nnet3.train.first_derivatives import only_once


def chain_loss(
    output: Tensor,
    supervision: Supervision,
    denominator: Denominator,
    *,
    l2_regularize: float = 0.0,
    out_of_range_regularize: float = 0.01,
    xent_output: Tensor | None = None,
    xent_regularize: float = 0.1,
    deriv_weights: np.ndarray | Tensor | None = None,
    reduction: str = "mean",
    generator: torch.Generator | None = None,
) -> Tensor:
    """LF-MMI as a loss: log-probability of all sequences minus that of the sequences that the supervision allows.

    `output`: (batch, frames, pdfs), or (frames * batch, pdfs) with all sequences of a frame together; no softmax, it
    may take any values (float32 inside for lower precisions). `xent_output`: log-probabilities of the same shape, for
    which `xent_regularize` times the cross-entropy to the numerator's posteriors is added. `deriv_weights`: (frames *
    batch,) factors >= 0 of the gradient's rows, which do not change the value. `reduction`: "mean" divides by the
    number of frames times the supervision's weight, "sum" does not. With probability 1/2, drawn from `generator`, the
    gradient also pulls outputs beyond -30 .. 30 back, by 2 * out_of_range_regularize.

    If nothing can be computed, for instance because the output has a NaN, the loss is 10 per frame and its gradient 0.
    Raises TrainingError if output, supervision and denominator do not fit together.
    """
    check_kind(output, Tensor, "the output", "a tensor")
    check_kind(supervision, Supervision, "the supervision", "a Supervision")
    check_kind(denominator, Denominator, "the denominator", "a Denominator")
    _check_outputs(output, xent_output, supervision)
    if reduction not in ("mean", "sum"):
        raise ArgumentError(f"reduction must be 'mean' or 'sum', got {reduction!r}")
    options = ChainOptions(l2_regularize, out_of_range_regularize, 0.0 if xent_output is None else xent_regularize)
    pull = bool(torch.rand((), generator=generator) < 0.5)
    rows = _rows(output)
    xent_rows = None if xent_output is None else _rows(xent_output)
    weights = None if deriv_weights is None else _checked_weights(torch.as_tensor(deriv_weights), len(rows))
    loss: Tensor = _ChainLoss.apply(rows, xent_rows, supervision, denominator, options, weights, pull)
    is_mean = reduction == "mean" and supervision.weight != 0.0
    return loss / (supervision.weight * supervision.num_frames) if is_mean else loss


def _check_outputs(output: Tensor, xent_output: Tensor | None, supervision: Supervision) -> None:
    if not output.is_floating_point():
        raise ArgumentError(f"the output must be floats, got {output.dtype}")
    sequences, frames = supervision.num_sequences, supervision.frames_per_sequence
    if output.dim() == 3 and output.shape[:2] != (sequences, frames):
        raise TrainingError(
            f"an output of three axes must be (batch, frames, pdfs), here ({sequences}, {frames}, "
            f"{supervision.label_dim}) as the supervision says, got {tuple(output.shape)}"
        )
    if xent_output is None:
        return
    check_kind(xent_output, Tensor, "xent_output", "a tensor")
    if (xent_output.shape, xent_output.device) != (output.shape, output.device):
        both = " and ".join(f"{tuple(each.shape)} on {each.device}" for each in (output, xent_output))
        raise ArgumentError(f"output and xent_output must have the same shape and device, got {both}")


def _checked_weights(weights: Tensor, num_rows: int) -> Tensor:
    if weights.shape != (num_rows,):
        raise ArgumentError(f"deriv_weights must have one number for each of {num_rows} rows, got {weights.shape}")
    wrong = (~(weights.isfinite() & (weights >= 0))).nonzero()
    if len(wrong):
        row = int(wrong[0])
        raise ArgumentError(f"deriv_weights must be finite and >= 0, got {float(weights[row]):g} for row {row}")
    return weights


def _rows(output: Tensor) -> Tensor:
    """(frames * batch, pdfs), all sequences of a frame together."""
    if output.dim() not in (2, 3):
        raise ArgumentError(
            f"an output must be (batch, frames, pdfs) or (frames * batch, pdfs), got {tuple(output.shape)}"
        )
    return output if output.dim() == 2 else output.transpose(0, 1).reshape(-1, output.shape[2])


class _ChainLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        output: Tensor,
        xent_output: Tensor | None,
        supervision: Supervision,
        denominator: Denominator,
        options: ChainOptions,
        deriv_weights: Tensor | None,
        pull_into_range: bool,
    ) -> Tensor:
        with_deriv = ctx.needs_input_grad[0]
        value = chain_value(
            output,
            supervision,
            denominator,
            options,
            with_deriv=with_deriv,
            with_posteriors=xent_output is not None,
            pull_into_range=with_deriv and pull_into_range,
        )
        total = value.objective + value.l2_term
        if xent_output is not None:
            assert value.posteriors is not None, "they were asked for"
            total += options.xent_regularize * float((xent_output * value.posteriors).sum(dtype=torch.float64))
        derivs = [value.deriv, value.posteriors]
        if deriv_weights is not None:
            derivs = [None if deriv is None else deriv * deriv_weights.to(deriv).unsqueeze(1) for deriv in derivs]
        ctx.derivs, ctx.xent_regularize, ctx.type = derivs, options.xent_regularize, output.dtype
        ctx.xent_type = None if xent_output is None else xent_output.dtype
        return torch.as_tensor(-total, dtype=torch.promote_types(output.dtype, torch.float32), device=output.device)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        deriv, posteriors = ctx.derivs
        by_output = by_xent = None
        with torch.no_grad():
            if deriv is not None and ctx.needs_input_grad[0]:
                by_output = (deriv * -upstream).to(ctx.type)
            if posteriors is not None and ctx.needs_input_grad[1]:
                by_xent = (posteriors * (-ctx.xent_regularize * upstream)).to(ctx.xent_type)
        return *only_once((by_output, by_xent), "chain_loss"), None, None, None, None, None
