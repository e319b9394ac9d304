"""The linear objective: sum of y p. With log-probabilities as outputs it is (minus) the cross-entropy."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from nnet3.components import RandomSource
from nnet3.kaldi_io.sparse import SparseMatrix
from nnet3.train.minibatch import Target
from nnet3.train.objectives.matrix_target import elements, matrix_target
from nnet3.train.objectives.protocol import ObjectiveStats, OutputResult


class LinearObjective:
    """F = sum y p for an output y and its target p; weight: sum p; derivative p. A sparse target stays sparse in F."""

    def outputs(self, target: Target) -> tuple[str, ...]:
        return (target.name,)

    def evaluate(
        self, target: Target, outputs: Sequence[Tensor], *, rng: RandomSource, with_derivs: bool
    ) -> Sequence[OutputResult]:
        (y,) = outputs
        matrix = matrix_target(target, y).matrix
        if isinstance(matrix, SparseMatrix):
            rows, cols, values = elements(matrix, y)
            stats = ObjectiveStats(float(y[rows, cols] @ values), weight=float(values.sum()))
            deriv = y.new_zeros(y.shape).index_put_((rows, cols), values) if with_derivs else None
        else:
            p = matrix.to(y)
            stats = ObjectiveStats(float((y * p).sum()), weight=float(p.sum()))
            deriv = p if with_derivs else None
        return [OutputResult(target.name, stats, deriv)]
