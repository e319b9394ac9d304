"""The objective of sequence training: its value and derivatives (docs/chain.md), and the form that trainers use."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from nnet3.base.options.chain import ChainOptions
from nnet3.errors import TrainingError
from nnet3.model.components.random_source import RandomSource
from nnet3.model.nnet import Nnet
from nnet3.training.chain.denominator import LARGEST_OUTPUT, OUTPUT, Denominator
from nnet3.training.chain.numerator import make_trellis
from nnet3.training.chain.supervision import ChainTarget, Supervision
from nnet3.training.chain.trellis import PathSums, sum_paths
from nnet3.training.train.minibatch import Target
from nnet3.training.train.objectives import ObjectiveStats, OutputResult

_LOG = logging.getLogger("nnet3")
_OBJECTIVE_OF_FAILURE = -10.0  # per unit of weight


@dataclass(frozen=True, eq=False)
class ChainValue:
    """Sums over all sequences, and derivatives of something to be maximised.

    num_log_prob and den_log_prob are not scaled by the weight of the supervision; `objective` is that weight times
    their difference. `weight` is the number of frames times that of the supervision. `deriv` (rows, pdfs) is the
    derivative of `objective` + `l2_term` (and of the pull back into range); `posteriors` (rows, pdfs) are the
    numerator's times the weight.
    """

    num_log_prob: float
    den_log_prob: float
    objective: float
    l2_term: float
    weight: float
    failed: bool
    deriv: Tensor | None
    posteriors: Tensor | None


@torch.no_grad()
def chain_value(
    output: Tensor,
    supervision: Supervision,
    denominator: Denominator,
    options: ChainOptions,
    *,
    with_deriv: bool = True,
    with_posteriors: bool = False,
    pull_into_range: bool = False,
    clipped: bool = True,
    lengths: np.ndarray | None = None,
) -> ChainValue:
    """Returns the objective for `output` (frames * sequences, pdfs), all sequences of a frame together.

    `lengths` (sequences,): the frames of sequences of different lengths; outputs beyond must be 0, and have no
    derivatives. `clipped`: the denominator cuts outputs off at -30 and 30, the numerator does not.

    Where numerator or denominator fail (an output that is NaN, say), derivatives are zero and the objective is -10 per
    frame; an l2 term acts all the same. Raises TrainingError if sizes differ, or if the denominator does not have the
    sequences of the first supervisions, because it belongs to other examples.
    """
    rows, columns = output.shape
    if rows != supervision.num_frames or columns != supervision.label_dim:
        shape = f"{supervision.num_frames} x {supervision.label_dim}"
        raise TrainingError(f"the output is {rows} x {columns}, its supervision is for {shape}")
    num_frames = supervision.num_frames if lengths is None else int(lengths.sum())
    denominator.belonging.look_at(supervision)
    scale, weight = supervision.weight, supervision.weight * num_frames
    den = denominator.forward_backward(
        output, supervision.num_sequences, lengths=lengths, clipped=clipped, with_posteriors=with_deriv
    )
    num = sum_paths(make_trellis(supervision, output.device, lengths), output)
    num_log_prob, den_log_prob = float(num.log_probs.sum()), float(den.log_probs.sum())
    objective = scale * (num_log_prob - den_log_prob)
    failed = den.failed or not math.isfinite(objective)
    deriv = posteriors = None
    if with_posteriors:
        posteriors = torch.zeros_like(output, dtype=torch.promote_types(output.dtype, torch.float32))
        if not failed:
            _add_posteriors(posteriors, num, scale)
    if with_deriv:
        assert den.posteriors is not None, "they were asked for"
        deriv = den.posteriors.reshape(rows, columns)
        if failed:
            deriv.zero_()
        else:
            deriv.mul_(-scale * (1.0 + options.lwf_den_scale if supervision.end_to_end else 1.0))
            _add_posteriors(deriv, num, scale)
            if pull_into_range:
                beyond = output - output.clamp(-LARGEST_OUTPUT, LARGEST_OUTPUT)
                deriv.add_(beyond, alpha=-2.0 * options.out_of_range_regularize)
    if failed:
        _LOG.warning(
            "the objective of a minibatch cannot be computed (log-probability of the numerator %g, of the denominator "
            "%g): it counts as %g per frame, without a gradient",
            num_log_prob,
            den_log_prob,
            _OBJECTIVE_OF_FAILURE,
        )
        objective = _OBJECTIVE_OF_FAILURE * weight
    l2, l2_term = scale * options.l2_regularize, 0.0
    if l2 != 0.0 and not (supervision.end_to_end and not math.isfinite(num_log_prob)):
        l2_term = -0.5 * l2 * float(output.double().square().sum())
        if deriv is not None:
            deriv.add_(output, alpha=-l2)
    return ChainValue(num_log_prob, den_log_prob, objective, l2_term, weight, failed, deriv, posteriors)


def _add_posteriors(matrix: Tensor, num: PathSums, scale: float) -> None:
    matrix.view(-1).index_add_(0, num.positions, num.posteriors.to(matrix.dtype), alpha=scale)


class ChainObjective:
    """LF-MMI for each `ChainTarget`; with `xent_regularize` also for the output NAME-xent, if NAME is the target's.

    `denominator`: the graph of all phone sequences; `options`: scales of terms. `apply_deriv_weights`: multiply
    derivatives by the example's weights of frames. Reports sums of the differentiated terms, before deriv-weights; the
    l2 term is the auxiliary objective.
    """

    def __init__(
        self, denominator: Denominator, options: ChainOptions | None = None, apply_deriv_weights: bool = True
    ) -> None:
        self.denominator, self.options = denominator, options or ChainOptions()
        self.apply_deriv_weights = apply_deriv_weights

    def outputs(self, target: Target) -> tuple[str, ...]:
        return (target.name, f"{target.name}-xent") if self.options.xent_regularize else (target.name,)

    def evaluate(
        self, target: Target, outputs: Sequence[Tensor], *, rng: RandomSource, with_derivs: bool
    ) -> Sequence[OutputResult]:
        if not isinstance(target, ChainTarget):
            raise TrainingError(
                f"output '{target.name}' needs a supervision of sequences, got a {type(target).__name__}"
            )
        value = chain_value(
            outputs[0],
            target.supervision,
            self.denominator,
            self.options,
            with_deriv=with_derivs,
            with_posteriors=len(outputs) > 1,
            pull_into_range=with_derivs and rng.uniform() < 0.5,
        )
        stats = ObjectiveStats(_reported(value, target), auxiliary=value.l2_term, weight=value.weight)
        weights = outputs[0].new_tensor(target.deriv_weights) if self.apply_deriv_weights else None
        results = [OutputResult(target.name, stats, _weighted(value.deriv, weights))]
        if len(outputs) > 1:
            assert value.posteriors is not None, "they were asked for"
            objective = float((outputs[1].double() * value.posteriors).sum())
            deriv = value.posteriors.mul_(self.options.xent_regularize) if with_derivs else None
            xent = ObjectiveStats(objective, weight=value.weight)
            results.append(OutputResult(f"{target.name}-xent", xent, _weighted(deriv, weights)))
        return results

    def with_second_outputs(self, nnet: Nnet, name: str = OUTPUT) -> ChainObjective:
        """Returns an objective for outputs `name` and NAME-xent, if the network has NAME-xent, else itself."""
        if f"{name}-xent" not in nnet.output_names:
            return self
        return ChainObjective(self.denominator, ChainOptions(xent_regularize=1.0))


class ChainObjectives:
    """LF-MMI for several outputs, such as languages, with a denominator for each."""

    def __init__(self, by_output: Mapping[str, ChainObjective]) -> None:
        self.by_output = dict(by_output)

    def outputs(self, target: Target) -> tuple[str, ...]:
        return self._own(target).outputs(target)

    def evaluate(
        self, target: Target, outputs: Sequence[Tensor], *, rng: RandomSource, with_derivs: bool
    ) -> Sequence[OutputResult]:
        return self._own(target).evaluate(target, outputs, rng=rng, with_derivs=with_derivs)

    def with_second_outputs(self, nnet: Nnet) -> ChainObjectives:
        """Returns objectives for the outputs NAME-xent too, where the network has NAME-xent."""
        return ChainObjectives({name: own.with_second_outputs(nnet, name) for name, own in self.by_output.items()})

    def _own(self, target: Target) -> ChainObjective:
        if target.name not in self.by_output:
            raise TrainingError(
                f"there is no denominator for output '{target.name}', but for {', '.join(self.by_output)}"
            )
        return self.by_output[target.name]


def _reported(value: ChainValue, target: ChainTarget) -> float:
    """Returns the objective as Kaldi reports it: the weight does not scale the numerator of end-to-end supervisions."""
    if value.failed or not target.supervision.end_to_end:
        return value.objective
    return value.num_log_prob - target.supervision.weight * value.den_log_prob


def _weighted(deriv: Tensor | None, weights: Tensor | None) -> Tensor | None:
    if deriv is None or weights is None or len(weights) == 0:
        return deriv
    return deriv.mul_(weights.to(deriv).unsqueeze(1))
