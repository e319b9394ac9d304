"""What the objective says of a network on held-out minibatches, and what can be learnt on the way."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor

from nnet3.components import RandomSource
from nnet3.driver import ComputationCache, default_cache
from nnet3.nnet import Nnet
from nnet3.runtime import NnetComputer
from nnet3.runtime.recent import RecentComputers
from nnet3.train.minibatch import MatrixTarget, Minibatch, naming
from nnet3.train.objectives import Objective, ObjectiveByNode, ObjectiveStats, OutputResult, count_correct
from nnet3.train.running_state import device_of


class Evaluator:
    """Runs a network as it is over minibatches and adds up in `stats` what the objective says, by output node.

    `correct_by_column` has for each node with matrices as targets the weight of the rows that are right, and of all
    rows, by the column that would be right: (2, columns).

    With `store_stats` the network's components store their statistics; `gradient` (a `nnet.gradient_copy()`) collects
    plain gradients of the objective, if given.
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
        """`accuracy`: whether to count, for targets that are matrices, how often the largest output is right."""
        self.nnet, self.gradient, self.store_stats, self.accuracy = nnet, gradient, store_stats, accuracy
        self.objective = ObjectiveByNode(nnet) if objective is None else objective
        self.stats: dict[str, ObjectiveStats] = {}
        self.correct_by_column: dict[str, Tensor] = {}
        self._cache = default_cache() if cache is None else cache
        self._computers = RecentComputers()
        self._rng = RandomSource(0)

    @property
    def average(self) -> float:
        """Of the objectives of all output nodes, per unit of their weights."""
        total = ObjectiveStats()
        for stats in self.stats.values():
            total.add(stats)
        return total.average + total.average_auxiliary

    @torch.no_grad()
    def add(self, minibatch: Minibatch) -> dict[str, np.ndarray]:
        """Count one minibatch in; returns its outputs (rows, columns) by node."""
        with naming(minibatch):
            return self._add(minibatch)

    def _add(self, minibatch: Minibatch) -> dict[str, np.ndarray]:
        names = [self.objective.outputs(target) for target in minibatch.targets]
        computer = self._computer(minibatch, names)
        for io in minibatch.inputs:
            computer.accept_input(io.name, io.matrix)
        computer.run()
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

    def _computer(self, minibatch: Minibatch, names: list[tuple[str, ...]]) -> NnetComputer:
        request = minibatch.request(names, train=self.gradient is not None, store_stats=self.store_stats)

        def make() -> NnetComputer:
            computation = self._cache.compile(self.nnet, request)
            device = device_of(self.nnet)
            return NnetComputer(
                computation, self.nnet, self.gradient, device, nnet_to_store_stats=self.nnet, check_finite=False
            )

        return self._computers.get(request.key(), make)


def evaluate(
    nnet: Nnet, minibatches: Iterable[Minibatch], objective: Objective | None = None
) -> dict[str, ObjectiveStats]:
    """Objective and accuracy in test mode, by output node."""
    evaluator = Evaluator(nnet.in_test_mode(), objective)
    for minibatch in minibatches:
        evaluator.add(minibatch)
    return evaluator.stats


def with_modes(nnet: Nnet, *, batchnorm_test_mode: bool, dropout_test_mode: bool) -> Nnet:
    """A network with the same parameter tensors in these modes; where they are False, in those that it has.

    It draws random numbers of its own, the same whenever it is made.
    """
    twin = nnet.in_test_mode()
    twin.seed_random(0)
    for name, component in twin.components.items():
        for (_, leaf), (_, original) in zip(component.leaves(), nnet.components[name].leaves(), strict=True):
            wanted = batchnorm_test_mode if leaf.has_running_statistics else dropout_test_mode
            leaf.set_test_mode(wanted or original.test_mode)
    return twin
