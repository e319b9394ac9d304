"""The quadratic objective: minus half the squared distance."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from nnet3.components import RandomSource
from nnet3.kaldi_io.sparse import SparseMatrix
from nnet3.train.minibatch import Target
from nnet3.train.objectives.matrix_target import elements, matrix_target
from nnet3.train.objectives.protocol import ObjectiveStats, OutputResult


class QuadraticObjective:
    """F = -1/2 sum (p - y)^2 for an output y and its target p; weight: the number of rows; derivative p - y."""

    def outputs(self, target: Target) -> tuple[str, ...]:
        return (target.name,)

    def evaluate(
        self, target: Target, outputs: Sequence[Tensor], *, rng: RandomSource, with_derivs: bool
    ) -> Sequence[OutputResult]:
        (y,) = outputs
        matrix = matrix_target(target, y).matrix
        if isinstance(matrix, SparseMatrix):
            rows, cols, values = elements(matrix, y)
            difference = (-y).index_put_((rows, cols), values, accumulate=True)
        else:
            difference = matrix.to(y) - y
        stats = ObjectiveStats(-0.5 * float(difference.square().sum()), weight=float(len(y)))
        return [OutputResult(target.name, stats, difference if with_derivs else None)]
