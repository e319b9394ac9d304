"""The objective of sequence training, in the form that trainers use."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from nnet3.chain.denominator import OUTPUT, Denominator
from nnet3.chain.objective_value import ChainValue, chain_value
from nnet3.chain.target import ChainTarget
from nnet3.components import RandomSource
from nnet3.errors import TrainingError
from nnet3.nnet import Nnet
from nnet3.options import ChainOptions
from nnet3.train.minibatch import Target
from nnet3.train.objectives import ObjectiveStats, OutputResult


class ChainObjective:
    """LF-MMI for each `ChainTarget`; with `xent_regularize` also for the output NAME-xent, if NAME is the target's.

    Reported are sums of what the derivatives are of, deriv-weights apart; the l2 term is the auxiliary one.
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

    def with_second_output(self, nnet: Nnet) -> ChainObjective:
        """Returns an objective that looks at the output `output-xent` too, if the network has one."""
        if f"{OUTPUT}-xent" not in nnet.output_names:
            return self
        return ChainObjective(self.denominator, ChainOptions(xent_regularize=1.0))


def _reported(value: ChainValue, target: ChainTarget) -> float:
    """Returns the objective as Kaldi reports it: the weight does not scale the numerator of end-to-end supervisions."""
    if value.failed or not target.supervision.end_to_end:
        return value.objective
    return value.num_log_prob - target.supervision.weight * value.den_log_prob


def _weighted(deriv: Tensor | None, weights: Tensor | None) -> Tensor | None:
    if deriv is None or weights is None or len(weights) == 0:
        return deriv
    return deriv.mul_(weights.to(deriv).unsqueeze(1))
