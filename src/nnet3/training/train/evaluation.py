"""Runs networks over held-out minibatches and sums the objective, the accuracy, statistics and gradients."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor

from nnet3.base.kaldi_io.sparse import SparseMatrix
from nnet3.engine.driver import ComputationCache
from nnet3.model.components.random_source import RandomSource
from nnet3.model.edits.modes import with_modes
from nnet3.model.nnet import Nnet
from nnet3.training.train.minibatch import MatrixTarget, Minibatch, MinibatchComputers, Target, naming
from nnet3.training.train.objectives import (
    Objective,
    ObjectiveByNode,
    ObjectiveStats,
    OutputResult,
    matrix_target,
    total_stats,
)


class Evaluator:
    """Runs a network as it is over minibatches and adds up the objective in `stats`, by output node.

    `correct_by_column` has (2, columns) for each node whose targets are matrices: by the right column,
    the weight of the right rows, and of all rows.

    With `store_stats` the network's components store their statistics. `gradient` (a `nnet.gradient_copy()`), if given,
    collects plain gradients of the objective.
    """

    def __init__(
        self,
        nnet: Nnet,
        objective: Objective | None = None,
        cache: ComputationCache | None = None,
        *,
        accuracy: bool = True,
        store_stats: bool = False,
        gradient: Nnet | None = None,
    ) -> None:
        """`accuracy`: count, for targets that are matrices, how often the largest output is right."""
        self.gradient, self.accuracy = gradient, accuracy
        self.objective = ObjectiveByNode(nnet) if objective is None else objective
        self.stats: dict[str, ObjectiveStats] = {}
        self.correct_by_column: dict[str, Tensor] = {}
        self._computers = MinibatchComputers(nnet, gradient, cache, store_stats=store_stats)
        self._rng = RandomSource(0)

    @property
    def average(self) -> float:
        """The sum of all output nodes' objectives and auxiliary terms, per unit of weight."""
        total = total_stats(self.stats.values())
        return total.average + total.average_auxiliary

    def add_all(self, minibatches: Iterable[Minibatch]) -> Evaluator:
        """Adds all minibatches to the sums; returns the evaluator."""
        for minibatch in minibatches:
            self.add(minibatch)
        return self

    @torch.no_grad()
    def add(self, minibatch: Minibatch) -> dict[str, np.ndarray]:
        """Counts one minibatch in; returns its outputs (rows, columns) by node."""
        with naming(minibatch):
            return self._add(minibatch)

    def _add(self, minibatch: Minibatch) -> dict[str, np.ndarray]:
        names = [self.objective.outputs(target) for target in minibatch.targets]
        computer = self._computers.run_forward(minibatch, names)
        given, results = {}, list[OutputResult]()
        for target, own in zip(minibatch.targets, names, strict=True):
            outputs = [computer.get_output(name) for name in own]
            with_derivs = self.gradient is not None
            results += self.objective.evaluate(target, outputs, rng=self._rng, with_derivs=with_derivs)
            if self.accuracy and isinstance(target, MatrixTarget):
                counts = count_correct(target, outputs[0])
                correct, counted = counts.sum(1).tolist()
                self._count(target.name, ObjectiveStats(correct=correct, counted=counted))
                self.correct_by_column[target.name] = counts + self.correct_by_column.get(target.name, 0.0)
            given.update({name: output.cpu().numpy() for name, output in zip(own, outputs, strict=True)})
        for result in results:
            self._count(result.name, result.stats)
            if result.deriv is not None:
                computer.accept_input(result.name, result.deriv)
        if self.gradient is not None:
            computer.run()
        return given

    def _count(self, name: str, stats: ObjectiveStats) -> None:
        self.stats.setdefault(name, ObjectiveStats()).add(stats)


def evaluate(
    nnet: Nnet, minibatches: Iterable[Minibatch], objective: Objective | None = None
) -> dict[str, ObjectiveStats]:
    """Returns sums of objective and accuracy over minibatches, network in test mode, by output node."""
    return Evaluator(nnet.in_test_mode(), objective).add_all(minibatches).stats


def count_correct(target: Target, output: Tensor) -> Tensor:
    """Returns (2, columns), float64: the weight of right rows, and of all rows, by the right column.

    A row weighs the sum of its target; with weight 0 the row does not count. A row is right if its largest output
    stands in the column of the largest value of the target (the first of equal columns). `target` must be a matrix.
    """
    matrix = matrix_target(target, output).matrix
    weight, best = _best_of_rows(matrix) if isinstance(matrix, SparseMatrix) else (matrix.sum(1), matrix.argmax(1))
    weight, best = weight.double().to(output.device), best.to(output.device)
    right = (output.argmax(1) == best) & (weight != 0)
    counts = torch.zeros(2, output.shape[1], dtype=torch.float64, device=output.device)
    return counts.index_add_(1, best, torch.stack([weight.masked_fill(~right, 0.0), weight])).cpu()


def _best_of_rows(matrix: SparseMatrix) -> tuple[Tensor, Tensor]:
    """Returns the sum (rows,) and the column of the largest element (rows,) of each row."""
    if len(matrix.values) == 0 or matrix.values.min() <= 0:  # a zero that is not stored may be the largest
        dense = torch.from_numpy(matrix.dense())
        return dense.sum(1), dense.argmax(1)
    row = matrix.row_of_element()
    order = np.lexsort((matrix.ids, -matrix.values, row))
    first = np.flatnonzero(np.diff(row[order], prepend=-1))
    best = np.zeros(matrix.rows, np.int64)
    best[row[order][first]] = matrix.ids[order][first]
    weight = np.bincount(row, weights=matrix.values, minlength=matrix.rows)
    return torch.from_numpy(weight), torch.from_numpy(best)


class ExampleOutputs:
    """Computes outputs for minibatches; batch-norm and dropout stay in the modes of the network, or are in test mode.

    Outside test mode batch-norm takes the statistics of each minibatch. The network stays as it is.
    """

    def __init__(self, nnet: Nnet, *, batchnorm_test_mode: bool = False, dropout_test_mode: bool = False) -> None:
        modes = {"batchnorm_test_mode": batchnorm_test_mode, "dropout_test_mode": dropout_test_mode}
        self._computers = MinibatchComputers(with_modes(nnet, **modes), None, None, store_stats=False)

    @torch.no_grad()
    def compute(self, minibatch: Minibatch) -> dict[str, Tensor]:
        """Returns the outputs (rows, columns) that the targets name, by node. Errors name the minibatch."""
        names = [target.name for target in minibatch.targets]
        with naming(minibatch):
            computer = self._computers.run_forward(minibatch, [(name,) for name in names])
            return {name: computer.get_output(name) for name in names}
