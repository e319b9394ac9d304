"""MMI, sMBR and MPFE as a loss that PyTorch can differentiate, for the output of any module."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nnet3.base.options.discriminative import DiscriminativeOptions
from nnet3.errors import ArgumentError, TrainingError, check_kind
from nnet3.model.hmm.transition_model import TransitionModel
from nnet3.training.discriminative.criteria import LatticeCriterion, Material, rows_of_frames
from nnet3.training.discriminative.lattice_levels import LatticeLevels
from nnet3.training.discriminative.supervision import DiscriminativeSupervision, concatenated
from nnet3.training.train.autograd import checked_lengths, uncompiled
from nnet3.training.train.loss_arguments import check_outputs, check_reduction, checked_deriv_weights, rows_of_output
from nnet3.training.train.loss_function import LossCall

_LOSS_OF_FAILURE = 10.0  # per frame


@uncompiled("discriminative_loss is no graph of tensor operations")
def discriminative_loss(
    output: Tensor,
    supervision: DiscriminativeSupervision | Sequence[DiscriminativeSupervision],
    transitions: TransitionModel,
    *,
    criterion: str = "smbr",
    acoustic_scale: float = 0.1,
    silence_phones: Sequence[int] = (),
    one_silence_class: bool = False,
    boost: float = 0.0,
    drop_frames: bool = False,
    priors: Tensor | np.ndarray | None = None,
    lengths: Any = None,
    l2_regularize: float = 0.0,
    xent_output: Tensor | None = None,
    xent_regularize: float = 0.1,
    deriv_weights: np.ndarray | Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Minus a criterion of lattices: how much better the right alignments are than their rivals ("mmi", with `boost`
    boosted), or how many frames of a path have the right pdf ("smbr") or phone ("mpfe") on average.

    `output`: (batch, frames, pdfs), or (frames * batch, pdfs) with all sequences of a frame together;
    log-probabilities if `priors` (pdfs,) are given, whose logarithms are subtracted. `supervision`: one for all
    sequences, or a list with a supervision for each sequence, possibly of different lengths; `transitions`: the
    transition model to which transition-ids of supervisions belong. `acoustic_scale`: multiplies log-likelihoods;
    chain models have 1. `silence_phones`, ascending, `one_silence_class`, `drop_frames`: as in Kaldi
    (docs/discriminative.md).

    `lengths` (batch,): the frames of each sequence of a padded batch, for a list of supervisions; rows beyond have no
    influence, and no gradient. `xent_output`: log-probabilities in the shape of `output`; `xent_regularize` times their
    cross-entropy to the right alignments is added. `deriv_weights`: (frames * batch,) factors >= 0 of the gradient's
    rows; the value stays unchanged. `reduction`: "mean" divides by the number of frames times the supervision's
    weight, "sum" does not.

    The gradient is that of the loss: Kaldi's, times the acoustic scale. Values below -46 count as -46.05 and keep the
    gradient that they would have there. If nothing can be computed, because the output has a NaN, the loss is 10 per
    frame and its gradient 0. Raises TrainingError if output, supervision and transition model do not fit together.
    """
    check_kind(output, Tensor, "the output", "a tensor")
    check_kind(transitions, TransitionModel, "the transition model", "a TransitionModel")
    check_reduction(reduction)
    parts = list(supervision) if isinstance(supervision, Sequence) else [supervision]
    for each in parts:
        check_kind(each, DiscriminativeSupervision, "each supervision", "a DiscriminativeSupervision")
    batch = _Batch.of(parts, output, lengths)
    check_outputs(output, xent_output, (batch.num_sequences, batch.num_rows // batch.num_sequences), output.shape[-1])
    rows = rows_of_output(output)
    if len(rows) != batch.num_rows:
        raise TrainingError(f"the output has {len(rows)} rows, its supervision is of {batch.num_rows}")
    options = DiscriminativeOptions(
        *(criterion, acoustic_scale, tuple(silence_phones), one_silence_class, boost, drop_frames),
        *(0.0 if xent_output is None else xent_regularize, l2_regularize),
    )
    if rows.shape[1] != transitions.num_pdfs:
        raise TrainingError(f"the output has {rows.shape[1]} columns, the transition model {transitions.num_pdfs} pdfs")
    made = LatticeCriterion(options, transitions, _log_priors(priors))
    weights = None if deriv_weights is None else checked_deriv_weights(torch.as_tensor(deriv_weights), len(rows))
    call = _DiscriminativeLoss(made, batch, weights)
    loss = call.applied(rows, None if xent_output is None else rows_of_output(xent_output))
    is_mean = reduction == "mean" and batch.weight != 0.0
    return loss / (batch.weight * batch.material.num_frames) if is_mean else loss


def _log_priors(priors: Tensor | np.ndarray | None) -> Tensor | None:
    if priors is None or len(priors) == 0:
        return None
    values = torch.as_tensor(priors).double()
    if values.dim() != 1 or not (values > 0).all():
        raise ArgumentError("priors must be numbers > 0, one for each pdf")
    return values.log()


@dataclass(frozen=True, eq=False)
class _Batch:
    """The sequences of an output: supervisions, rows of the output, rows that are frames, weight."""

    material: Material
    num_sequences: int
    num_rows: int
    weight: float

    @classmethod
    def of(cls, parts: Sequence[DiscriminativeSupervision], output: Tensor, lengths: Any) -> _Batch:
        """Raises TrainingError or ArgumentError for parts that cannot be one batch, or are not of `lengths`."""
        if not parts or (len(parts) > 1 and any(part.num_sequences != 1 for part in parts)):
            raise TrainingError("give one supervision, or a list with a supervision of one sequence for each sequence")
        if len({part.weight for part in parts}) > 1:
            raise TrainingError("the supervisions of a batch must have equal weights")
        sequences = sum(part.num_sequences for part in parts)
        own = np.concatenate([np.full(part.num_sequences, part.frames_per_sequence) for part in parts])
        frames = output.shape[1] if output.dim() == 3 else len(output) // sequences
        if own.max() > frames:
            raise TrainingError(f"the output has {frames} frames, the supervision {own.max()}")
        if lengths is not None:
            given = checked_lengths(lengths, sequences, frames)
            if not np.array_equal(given, own):
                raise TrainingError(f"lengths are {given.tolist()}, but the supervision is for {own.tolist()} frames")
        alignment = np.concatenate([part.alignment for part in parts])
        if len(parts) == 1:
            levels = parts[0].levels
        else:
            levels = LatticeLevels.of(concatenated([part.lattice for part in parts]), len(alignment))
        return cls(Material(levels, alignment, rows_of_frames(own)), sequences, frames * sequences, parts[0].weight)


@dataclass
class _DiscriminativeLoss(LossCall):
    what = "discriminative_loss"

    criterion: LatticeCriterion
    batch: _Batch
    deriv_weights: Tensor | None
    derivs: tuple[Tensor | None, Tensor | None] = None, None

    def loss(self, output: Tensor, xent_output: Tensor | None) -> Tensor:
        options, scale, material = self.criterion.options, self.batch.weight, self.batch.material
        rows = torch.from_numpy(material.row_of_frame).to(output.device)
        dtype = torch.promote_types(output.dtype, torch.float32)
        deriv = torch.zeros(output.shape, dtype=torch.float64, device=output.device)
        xent_deriv = None if xent_output is None else torch.zeros_like(xent_output, dtype=dtype)
        total = -_LOSS_OF_FAILURE * scale * material.num_frames
        if not bool(output[rows].isnan().any()):
            found = self.criterion.value(output, material)
            total = scale * found.objective
            deriv += found.deriv * (scale * options.acoustic_scale)
            if options.l2_regularize:
                total -= 0.5 * scale * options.l2_regularize * float(output[rows].double().square().sum())
                deriv[rows] -= scale * options.l2_regularize * output[rows].double()
            if xent_output is not None and xent_deriv is not None:
                right = xent_output.reshape(-1)[found.right]
                total += options.xent_regularize * scale * float(right.sum(dtype=torch.float64))
                xent_deriv.view(-1)[found.right] = options.xent_regularize * scale
        if math.isnan(total):  # of another output than the first
            total, deriv = -_LOSS_OF_FAILURE * scale * material.num_frames, torch.zeros_like(deriv)
            xent_deriv = None if xent_deriv is None else torch.zeros_like(xent_deriv)
        self.derivs = self.weighted(deriv.to(dtype)), self.weighted(xent_deriv)
        return torch.as_tensor(-total, dtype=dtype, device=output.device)
