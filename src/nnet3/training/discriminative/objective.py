"""The objective of discriminative training, in the form that trainers use (docs/discriminative.md)."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from nnet3.base.options.discriminative import MMI, DiscriminativeOptions
from nnet3.errors import TrainingError
from nnet3.inference.scores import log_priors
from nnet3.model.components.random_source import RandomSource
from nnet3.model.hmm.transition_model import TransitionModel
from nnet3.model.nnet import AcousticModel
from nnet3.training.discriminative.criteria import LatticeCriterion, Material, rows_of_frames
from nnet3.training.discriminative.supervision import DiscriminativeSupervision, DiscriminativeTarget
from nnet3.training.train.minibatch import Target
from nnet3.training.train.objectives import ObjectiveStats, OutputResult

_LOG = logging.getLogger("nnet3")
_LATTICE_OF_FAILURE = -10.0  # per unit of weight


@dataclass(frozen=True, eq=False)
class DiscriminativeValue:
    """Sums over all sequences, and the derivative by the output. All but the counts are times the supervision's weight.

    numerator: for mmi the log-likelihood of the right alignments, else 0. lattice: for mmi the log-sum over the
    lattice, else the expected accuracy. num_count, den_count: the sums of the absolute values of the derivative's
    positive and negative elements. weight: the supervision's weight times the number of frames. deriv: (rows, pdfs),
    the derivative of `l2_term` plus, as in Kaldi, 1 / acoustic_scale times the derivative of `objective`. posteriors:
    (rows, pdfs), the supervision's weight at the pdfs of the right alignments, else 0.
    """

    is_mmi: bool
    numerator: float
    lattice: float
    num_count: float
    den_count: float
    l2_term: float
    weight: float
    num_frames: int
    num_floored: int
    failed: bool
    deriv: Tensor
    posteriors: Tensor

    @property
    def objective(self) -> float:
        """The criterion, which is to be maximised, without the l2 term."""
        return self.numerator - self.lattice if self.is_mmi else self.lattice


@torch.no_grad()
def discriminative_value(
    output: Tensor,
    supervision: DiscriminativeSupervision,
    transitions: TransitionModel,
    options: DiscriminativeOptions | None = None,
    log_priors: Tensor | None = None,
) -> DiscriminativeValue:
    """Returns the objective for `output` (frames * sequences, pdfs), rows frame by frame.

    NaN is a failure for mmi without priors: derivatives are zero, the lattice counts -10 per frame, the l2 term acts
    nevertheless. Raises TrainingError for NaN in other criteria, and for arguments that do not fit together.
    """
    criterion = LatticeCriterion(options or DiscriminativeOptions(), transitions, log_priors)
    return _value(output, supervision, criterion)


def _value(output: Tensor, supervision: DiscriminativeSupervision, criterion: LatticeCriterion) -> DiscriminativeValue:
    options, scale = criterion.options, supervision.weight
    if len(output) != supervision.num_frames:
        raise TrainingError(f"the output has {len(output)} rows, its supervision is of {supervision.num_frames}")
    lengths = np.full(supervision.num_sequences, supervision.frames_per_sequence)
    found = criterion.value(output, Material(supervision.levels, supervision.alignment, rows_of_frames(lengths)))
    weight = scale * supervision.num_frames
    numerator, lattice, deriv = scale * found.numerator, scale * found.lattice, found.deriv
    failed = math.isnan(found.objective)
    if failed and not found.is_mmi:
        raise TrainingError(f"{options.criterion} cannot be computed: the output has a value that is not a number")
    if failed:
        _LOG.warning("the objective of a minibatch is not a number: its lattice counts as -10 per frame, no gradient")
        lattice, deriv = _LATTICE_OF_FAILURE * weight, torch.zeros_like(deriv)
    counts = float(deriv.clamp(min=0).sum()), float(-deriv.clamp(max=0).sum())
    dtype = torch.promote_types(output.dtype, torch.float32)
    deriv = deriv.mul_(scale)
    l2_term = 0.0
    if options.l2_regularize:
        l2_term = -0.5 * scale * options.l2_regularize * float(output.double().square().sum())
        deriv.add_(output.double(), alpha=-scale * options.l2_regularize)
    posteriors = torch.zeros(output.shape, dtype=dtype, device=output.device)
    posteriors.view(-1)[found.right] = scale
    return DiscriminativeValue(
        *(found.is_mmi, numerator, lattice, *counts, l2_term, weight),
        num_frames=supervision.num_frames,
        num_floored=found.num_floored,
        failed=failed,
        deriv=deriv.to(dtype),
        posteriors=posteriors,
    )


#: Called with the name of an output, and its value and rows.
Watcher = Callable[[str, DiscriminativeValue, Tensor], None]


class DiscriminativeObjective:
    """A criterion for each `DiscriminativeTarget`; with `xent_regularize` also the output NAME-xent.

    Reports sums of the differentiated terms, before deriv-weights and acoustic scale; the l2 term is the auxiliary
    objective. An output of NaN gives an objective of NaN, except for mmi without priors.
    """

    def __init__(
        self, criterion: LatticeCriterion, apply_deriv_weights: bool = True, watch: Watcher | None = None
    ) -> None:
        """`watch` is told every value."""
        self.criterion, self.apply_deriv_weights, self._watch = criterion, apply_deriv_weights, watch

    @classmethod
    def of_model(
        cls, model: AcousticModel, options: DiscriminativeOptions, apply_deriv_weights: bool = True
    ) -> DiscriminativeObjective:
        """Returns the objective with the transition model and the priors of an acoustic model."""
        return cls(LatticeCriterion(options, model.transition_model, log_priors(model)), apply_deriv_weights)

    @property
    def options(self) -> DiscriminativeOptions:
        return self.criterion.options

    @property
    def fails_alone(self) -> bool:
        """True if an output of NaN is a failure, which counts -10 per frame, instead of an error."""
        return self.options.criterion == MMI and self.criterion.log_priors is None

    def outputs(self, target: Target) -> tuple[str, ...]:
        return (target.name, f"{target.name}-xent") if self.options.xent_regularize else (target.name,)

    def evaluate(
        self, target: Target, outputs: Sequence[Tensor], *, rng: RandomSource, with_derivs: bool
    ) -> Sequence[OutputResult]:
        if not isinstance(target, DiscriminativeTarget):
            raise TrainingError(f"output '{target.name}' needs a lattice, got a {type(target).__name__}")
        output = outputs[0]
        if not self.fails_alone and bool(output.isnan().any()):
            stats = ObjectiveStats(math.nan, weight=target.supervision.weight * target.supervision.num_frames)
            derivs = torch.zeros_like(output) if with_derivs else None
            return [OutputResult(name, stats, derivs) for name in self.outputs(target)]
        value = _value(output, target.supervision, self.criterion)
        if value.num_floored:
            _LOG.info("Floored %d probabilities from nnet.", value.num_floored)
        if self._watch is not None:
            self._watch(target.name, value, output)
        counts = value.num_count + value.den_count
        stats = ObjectiveStats(value.objective, value.l2_term, value.weight, num_den_count=counts)
        weights = torch.from_numpy(target.deriv_weights) if self.apply_deriv_weights else output.new_zeros(0)
        results = [OutputResult(target.name, stats, _weighted(value.deriv, weights) if with_derivs else None)]
        if len(outputs) > 1:
            objective = float((outputs[1].double() * value.posteriors).sum())
            deriv = _weighted(value.posteriors.mul_(self.options.xent_regularize), weights) if with_derivs else None
            results.append(OutputResult(f"{target.name}-xent", ObjectiveStats(objective, weight=value.weight), deriv))
        return results


def _weighted(deriv: Tensor, weights: Tensor) -> Tensor:
    return deriv.mul_(weights.to(deriv).unsqueeze(1)) if len(weights) else deriv
