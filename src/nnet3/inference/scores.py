"""Scores: log-likelihoods, scaled, or probabilities, from the outputs of a network."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real

import torch
from torch import Tensor

from nnet3.engine.ir.matrices import is_finite
from nnet3.errors import ArgumentError, NetworkError, NumericalError, shown
from nnet3.model.nnet import AcousticModel, Nnet

_ROWS_AT_ONCE = 4096


@dataclass(frozen=True)
class Scoring:
    """The scores scale (y - log_priors) of outputs y (rows, dim), or with `exponentiate` the exponential of that.

    `log_priors` is (dim,), or None for none. Raises ArgumentError for a scale that is no finite number.
    """

    log_priors: Tensor | None = None
    scale: float = 1.0
    exponentiate: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.scale, Real) or not math.isfinite(self.scale):
            raise ArgumentError(f"the scale of scores must be a finite number, got {shown(self.scale)}")

    def apply(self, outputs: Tensor) -> Tensor:
        """Returns the scores of outputs (rows, dim). Raises NumericalError if they are not finite."""
        scores = outputs
        if self.log_priors is not None:
            scores = scores - self.log_priors.to(scores)
        if self.scale != 1.0:
            scores = scores * self.scale
        if self.exponentiate:
            scores = scores.exp()
        for start in range(0, len(scores), _ROWS_AT_ONCE):  # for hours of speech, masks of the whole would be large
            _check_finite(scores[start : start + _ROWS_AT_ONCE], start, self.exponentiate)
        return scores


def _check_finite(scores: Tensor, first_row: int, exponentiated: bool) -> None:
    if not is_finite(scores):
        row, column = torch.nonzero(~scores.isfinite())[0].tolist()
        how = " after exp: is the output a log-probability?" if exponentiated else ""
        raise NumericalError(f"the result is not finite, first in row {first_row + row}, column {column}{how}")


def log_priors(model: AcousticModel) -> Tensor | None:
    """Returns the logarithms of a model's priors (pdfs,), None without priors. Raises NetworkError for a prior of 0."""
    if len(model.priors) == 0:
        return None
    zeros = torch.nonzero(model.priors == 0).flatten().tolist()
    if zeros:
        others = f" (and of {len(zeros) - 1} others)" if len(zeros) > 1 else ""
        raise NetworkError(
            f"the prior of pdf {zeros[0]}{others} is 0, which makes its likelihood infinite: set other priors, for "
            "instance with `nnet3 am-adjust-priors`, which has a floor, or do without priors"
        )
    return model.priors.log()


def priors_of(model: Nnet | AcousticModel) -> Tensor:
    """Returns the logarithms of a model's priors (pdfs,). Raises NetworkError if it has none, or a prior of 0."""
    priors = log_priors(model) if isinstance(model, AcousticModel) else None
    if priors is None:
        kind = "this acoustic model has none" if isinstance(model, AcousticModel) else "a raw network has none"
        raise NetworkError(f"use_priors was asked for, but {kind}: do without, or set them (am.priors = ...)")
    return priors
