"""Objective and outputs of a network on held-out minibatches."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from nnet3.compiler import ComputationCache
from nnet3.compiler.cache import default_cache
from nnet3.components import RandomSource
from nnet3.compute import NnetComputer
from nnet3.compute.recent import RecentComputers
from nnet3.nnet import Nnet
from nnet3.train.minibatch import MatrixTarget, Minibatch
from nnet3.train.objectives import Objective, ObjectiveByNode, ObjectiveStats, count_correct


class Evaluator:
    """Runs a network as it is over minibatches and adds up what the objective says, by output node."""

    def __init__(self, nnet: Nnet, objective: Objective | None = None, cache: ComputationCache | None = None) -> None:
        self.nnet = nnet
        self.objective = ObjectiveByNode(nnet) if objective is None else objective
        self.stats: dict[str, ObjectiveStats] = {}
        self._cache = default_cache() if cache is None else cache
        self._computers = RecentComputers()
        self._rng = RandomSource(0)

    def add(self, minibatch: Minibatch, *, accuracy: bool = True) -> dict[str, np.ndarray]:
        """Count one minibatch in; returns its outputs (rows, columns) by node."""
        names = [self.objective.outputs(target) for target in minibatch.targets]
        request = minibatch.request(names, train=False)
        computer = self._computers.get(
            request.key(), lambda: NnetComputer(self._cache.compile(self.nnet, request), self.nnet, check_finite=False)
        )
        for io in minibatch.inputs:
            computer.accept_input(io.name, io.matrix)
        computer.run()
        given = {}
        for target, own in zip(minibatch.targets, names, strict=True):
            outputs = [computer.get_output(name) for name in own]
            for result in self.objective.evaluate(target, outputs, rng=self._rng, with_derivs=False):
                self.stats.setdefault(result.name, ObjectiveStats()).add(result.stats)
            if accuracy and isinstance(target, MatrixTarget):
                correct, counted = count_correct(target, outputs[0])
                self.stats[target.name].add(ObjectiveStats(correct=correct, counted=counted))
            given.update({name: output.cpu().numpy() for name, output in zip(own, outputs, strict=True)})
        return given


def evaluate(
    nnet: Nnet, minibatches: Iterable[Minibatch], objective: Objective | None = None
) -> dict[str, ObjectiveStats]:
    """Objective and accuracy in test mode, by output node."""
    evaluator = Evaluator(nnet.in_test_mode(), objective)
    for minibatch in minibatches:
        evaluator.add(minibatch)
    return evaluator.stats
