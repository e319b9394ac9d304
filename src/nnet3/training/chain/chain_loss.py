"""The objective as a loss that PyTorch can differentiate, for the output of any module."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nnet3.base.options.chain import ChainOptions
from nnet3.errors import TrainingError, check_kind
from nnet3.training.chain.denominator import LARGEST_OUTPUT, Denominator
from nnet3.training.chain.objective import chain_value
from nnet3.training.chain.supervision import Supervision, merge_ragged
from nnet3.training.train.autograd import checked_lengths, uncompiled
from nnet3.training.train.loss_arguments import check_outputs, check_reduction, checked_deriv_weights, rows_of_output
from nnet3.training.train.loss_function import LossCall


@uncompiled("chain_loss is no graph of tensor operations")
def chain_loss(
    output: Tensor,
    supervision: Supervision | Sequence[Supervision],
    denominator: Denominator,
    *,
    lengths: Any = None,
    l2_regularize: float = 0.0,
    out_of_range_regularize: float = 0.01,
    xent_output: Tensor | None = None,
    xent_regularize: float = 0.1,
    deriv_weights: np.ndarray | Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    """LF-MMI as a loss: the log-probability of all sequences minus the log-probability of the sequences allowed by the
    supervision.

    `output`: (batch, frames, pdfs), or (frames * batch, pdfs) with all sequences of a frame together; no softmax,
    any values (float32 inside for lower precisions). `supervision`: one for all sequences, or a list with a supervision
    for each sequence, possibly of different lengths.

    `lengths` (batch,): the frames of each sequence of a padded batch. They are needed with an end-to-end supervision
    without lengths, unless given as a list; rows beyond have no influence, and no gradient. `xent_output`:
    log-probabilities in the shape of `output`; `xent_regularize` times their cross-entropy to the numerator's
    posteriors is added. `deriv_weights`: (frames * batch,) factors >= 0 of the gradient's rows; the value stays
    unchanged. `reduction`: "mean" divides by the number of frames times the supervision's weight, "sum" does not.

    A warning names outputs beyond -30 .. 30: a network that learns well has no such scores. The loss does not cut
    scores off (Kaldi does, in the denominator alone). The loss adds out_of_range_regularize / 2 times the sum of
    squares of the excess; the gradient of this term is the mean of the pull that Kaldi applies at random.

    If nothing can be computed, for instance because the output has a NaN, the loss is 10 per frame and its gradient 0.
    Raises TrainingError if output, supervision and denominator do not fit together.
    """
    check_kind(output, Tensor, "the output", "a tensor")
    check_kind(denominator, Denominator, "the denominator", "a Denominator")
    supervision, counts = _of_batch(supervision, lengths, output)
    check_outputs(
        output, xent_output, (supervision.num_sequences, supervision.frames_per_sequence), supervision.label_dim
    )
    check_reduction(reduction)
    options = ChainOptions(l2_regularize, out_of_range_regularize, 0.0 if xent_output is None else xent_regularize)
    rows = rows_of_output(output)
    xent_rows = None if xent_output is None else rows_of_output(xent_output)
    if counts is not None:
        beyond = torch.from_numpy((np.arange(supervision.frames_per_sequence)[:, np.newaxis] >= counts).reshape(-1, 1))
        beyond = beyond.to(rows.device)
        rows = rows.masked_fill(beyond, 0.0)
        xent_rows = None if xent_rows is None else xent_rows.masked_fill(beyond, 0.0)
    weights = None if deriv_weights is None else checked_deriv_weights(torch.as_tensor(deriv_weights), len(rows))
    with_deriv = rows.requires_grad and torch.is_grad_enabled()
    loss = _ChainLoss(supervision, counts, denominator, options, weights, with_deriv).applied(rows, xent_rows)
    is_mean = reduction == "mean" and supervision.weight != 0.0
    num_frames = supervision.num_frames if counts is None else int(counts.sum())
    return loss / (supervision.weight * num_frames) if is_mean else loss


def _of_batch(
    supervision: Supervision | Sequence[Supervision], lengths: Any, output: Tensor
) -> tuple[Supervision, np.ndarray | None]:
    """Returns one supervision for all sequences of the output, and their frames where different from the output's."""
    known: np.ndarray | None = None
    if isinstance(supervision, list | tuple) and supervision:
        for each in supervision:
            check_kind(each, Supervision, "each supervision", "a Supervision")
        supervision, known = merge_ragged(supervision)
    check_kind(supervision, Supervision, "the supervision", "a Supervision or a list of them")
    assert isinstance(supervision, Supervision)
    sequences = supervision.num_sequences
    frames = output.shape[1] if output.dim() == 3 else len(output) // sequences
    if known is None and not supervision.end_to_end:
        known = np.full(sequences, supervision.frames_per_sequence)
    if lengths is not None:
        counts = checked_lengths(lengths, sequences, frames)
    elif known is not None and known.min() < known.max():
        counts = known
    else:
        return supervision, None
    if known is not None and not np.array_equal(counts, known):
        raise TrainingError(
            f"lengths are {counts.tolist()}, but the supervision is for {known.tolist()} frames: sequences of unequal "
            "lengths need a list of supervisions, one for each"
        )
    if counts.max() > frames:
        raise TrainingError(f"the output has {frames} frames, the supervision {counts.max()}")
    if counts.min() == frames:
        return supervision, None
    return replace(supervision, frames_per_sequence=frames), counts


@dataclass
class _ChainLoss(LossCall):
    what = "chain_loss"

    supervision: Supervision
    lengths: np.ndarray | None
    denominator: Denominator
    options: ChainOptions
    deriv_weights: Tensor | None
    with_deriv: bool
    derivs: tuple[Tensor | None, Tensor | None] = None, None

    def loss(self, output: Tensor, xent_output: Tensor | None) -> Tensor:
        beyond = _beyond_range(output)
        value = chain_value(
            output,
            self.supervision,
            self.denominator,
            self.options,
            with_deriv=self.with_deriv,
            with_posteriors=xent_output is not None,
            clipped=beyond is None,
            lengths=self.lengths,
        )
        total = value.objective + value.l2_term
        if beyond is not None and not value.failed:
            pull = self.options.out_of_range_regularize
            total -= 0.5 * pull * float(beyond.double().square().sum())
            if value.deriv is not None:
                value.deriv.add_(beyond, alpha=-pull)
        if xent_output is not None:
            assert value.posteriors is not None, "they were asked for"
            total += self.options.xent_regularize * float((xent_output * value.posteriors).sum(dtype=torch.float64))
        self.derivs = self.weighted(value.deriv), self.weighted(value.posteriors)
        return torch.as_tensor(-total, dtype=torch.promote_types(output.dtype, torch.float32), device=output.device)

    @property
    def factors(self) -> tuple[float, float]:
        return 1.0, self.options.xent_regularize


def _beyond_range(output: Tensor) -> Tensor | None:
    """Returns how much each output is beyond -30 .. 30; None if none is."""
    largest = float(output.abs().max())
    if not LARGEST_OUTPUT < largest < math.inf:
        return None
    warnings.warn(
        f"chain_loss is given an output of {largest:g}, beyond -{LARGEST_OUTPUT:g} .. {LARGEST_OUTPUT:g}: there "
        "Kaldi cuts the denominator off, and numbers of the two differ. A smaller learning rate, l2_regularize or a "
        "normalised last layer keep outputs small",
        RuntimeWarning,
        stacklevel=8,
    )
    return output - output.clamp(-LARGEST_OUTPUT, LARGEST_OUTPUT)
