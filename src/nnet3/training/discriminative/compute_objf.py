"""Evaluates networks on discriminative examples, and words the results as Kaldi does."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from nnet3.base.options.discriminative import MMI, DebuggingSums
from nnet3.errors import TrainingError
from nnet3.model.nnet import Nnet
from nnet3.training.discriminative.criteria import LatticeCriterion
from nnet3.training.discriminative.objective import DiscriminativeObjective, DiscriminativeValue
from nnet3.training.train.evaluation import Evaluator, with_modes
from nnet3.training.train.minibatch import Minibatch, naming

_XENT = "-xent"


@dataclass
class ObjfSums:
    """Sums over minibatches for one output; `numerator` and `lattice` as in `DiscriminativeValue`."""

    num_frames: float = 0.0
    weight: float = 0.0
    numerator: float = 0.0
    lattice: float = 0.0
    num_count: float = 0.0
    den_count: float = 0.0
    l2_term: float = 0.0
    gradients: Tensor = field(default_factory=lambda: torch.zeros(0))  # (pdfs,) by the output, without the l2 term
    outputs: Tensor = field(default_factory=lambda: torch.zeros(0))  # (pdfs,) probabilities

    def add(self, value: DiscriminativeValue, output: Tensor, l2_regularize: float) -> None:
        """Counts a minibatch in."""
        for name in ("num_frames", "weight", "numerator", "lattice", "num_count", "den_count", "l2_term"):
            setattr(self, name, getattr(self, name) + getattr(value, name))
        of_l2 = l2_regularize * value.weight / value.num_frames * output.double()
        self.gradients = self.gradients + (value.deriv.double() + of_l2).sum(0).cpu()
        self.outputs = self.outputs + output.double().exp().sum(0).cpu()

    def objective(self, criterion: str) -> float:
        """Returns the criterion for each frame."""
        return ((self.numerator - self.lattice) if criterion == MMI else self.lattice) / (self.weight or 1.0)


def objf_sums(
    nnet: Nnet,
    minibatches: Iterable[Minibatch],
    criterion: LatticeCriterion,
    *,
    batchnorm_test_mode: bool = True,
    dropout_test_mode: bool = True,
) -> dict[str, ObjfSums]:
    """Returns the sums over all minibatches by output, NAME-xent before NAME. Raises TrainingError without data, or
    for an output of NaN (but with mmi without priors).

    As in Kaldi, the weight of NAME-xent grows at each minibatch by the whole weight of NAME so far; its objective is
    `lattice`.
    """
    sums = dict[str, ObjfSums]()

    def watch(name: str, value: DiscriminativeValue, output: Tensor) -> None:
        own = sums.setdefault(name, ObjfSums(0.0, gradients=torch.zeros(1), outputs=torch.zeros(1)))
        own.add(value, output, criterion.options.l2_regularize)

    objective = DiscriminativeObjective(criterion, apply_deriv_weights=False, watch=watch)
    tested = with_modes(nnet, batchnorm_test_mode=batchnorm_test_mode, dropout_test_mode=dropout_test_mode)
    evaluator = Evaluator(tested, objective, accuracy=False)
    for minibatch in minibatches:
        before = {name: stats.objective for name, stats in evaluator.stats.items()}
        evaluator.add(minibatch)
        for name, stats in evaluator.stats.items():
            if not objective.fails_alone and not name.endswith(_XENT) and math.isnan(stats.objective):
                with naming(minibatch):
                    raise TrainingError(f"output '{name}' has a value that is not a number")
            if name not in sums and name.endswith(_XENT):
                sums[name] = ObjfSums()
            if name.endswith(_XENT) and name.removesuffix(_XENT) in sums:
                sums[name].lattice += stats.objective - before.get(name, 0.0)
                sums[name].weight += sums[name.removesuffix(_XENT)].weight
    if not any(own.weight for own in sums.values()):
        raise TrainingError("there are no examples to compute an objective on")
    return dict(sorted(sums.items(), reverse=True))


def objf_lines(sums: dict[str, ObjfSums], criterion: str, debugging: DebuggingSums) -> list[str]:
    """Returns the lines that Kaldi's program logs."""
    lines = []
    for name, own in sums.items():
        weight = own.weight or 1.0
        frames, average = f"over {own.weight:g} frames", own.objective(criterion)
        counts = (own.num_count + own.den_count) / weight
        if criterion == MMI:
            lines += [
                f"Number of frames is {own.num_frames:g} (weighted: {own.weight:g}), average (num or den) posterior "
                f"per frame is {own.num_count / weight:g}",
                f"MMI objective function is {own.numerator / weight:g} - {own.lattice / weight:g} = {average:g} per "
                f"frame, {frames}.",
            ]
        else:
            lines += [
                f"Average num+den count of {criterion.upper()} stats is {counts:g} per frame, {frames}",
                f"{criterion.upper()} objective function is {average:g} per frame, {frames}.",
            ]
        if debugging.accumulate_gradients and debugging.num_pdfs:
            shown = _shown(own.gradients / weight, debugging.num_pdfs)
            lines += ["Vector of average gradients wrt output activations is: ", shown]
        if debugging.accumulate_output and debugging.num_pdfs:
            lines += ["Average DNN output is: ", _shown(own.outputs / weight, debugging.num_pdfs)]
        l2 = f" + {own.l2_term / weight:g}" if own.l2_term else ""
        lines.append(f"Overall {criterion} objective for '{name}' is {average:g}{l2} per frame, {frames}.")
    return lines


def _shown(vector: Tensor, num_pdfs: int) -> str:
    """Words a vector; one without elements, of an output NAME-xent, as zeros."""
    vector = vector if len(vector) else torch.zeros(num_pdfs)
    return f" [ {' '.join(f'{value:g}' for value in vector.tolist())} ]"
