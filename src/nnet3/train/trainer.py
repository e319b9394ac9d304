"""The trainer: one minibatch after the other, Kaldi's arithmetic (docs/training.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nnet3.compiler import ComputationCache
from nnet3.compiler.cache import default_cache
from nnet3.components import RandomSource
from nnet3.compute import NnetComputer
from nnet3.compute.recent import RecentComputers
from nnet3.nnet import Nnet
from nnet3.train.l2 import add_l2
from nnet3.train.max_change import add_with_max_change
from nnet3.train.minibatch import Minibatch
from nnet3.train.objectives import Objective, ObjectiveByNode, ObjectiveStats, OutputResult
from nnet3.train.options import TrainerOptions


@dataclass(frozen=True)
class StepResult:
    """What a minibatch gave: statistics by output node, and why it was skipped, if it was.

    A skipped minibatch has changed nothing; what it gave is not finite and not in `stats`.
    """

    stats: dict[str, ObjectiveStats]
    skipped: str | None = None

    @property
    def total(self) -> ObjectiveStats:
        """The sum over all output nodes."""
        result = ObjectiveStats()
        for stats in self.stats.values():
            result.add(stats)
        return result


class Trainer:
    """Trains a network in place. Computations are compiled once for each structure of minibatch."""

    def __init__(
        self,
        nnet: Nnet,
        options: TrainerOptions | None = None,
        objective: Objective | None = None,
        cache: ComputationCache | None = None,
    ) -> None:
        """`objective`: by default linear or quadratic, as each output node says; `cache`: where computations are
        kept, by default in that of the process.
        """
        self.nnet, self.options = nnet, options or TrainerOptions()
        self.objective = ObjectiveByNode(nnet) if objective is None else objective
        self.cache = default_cache() if cache is None else cache
        self._rng = RandomSource(self.options.seed)
        nnet.seed_random(self.options.seed)
        if self.options.zero_component_stats:
            nnet.zero_stats()
        self._delta = nnet.copy()
        self._delta.scale_(0.0)
        self._computers = RecentComputers()
        self.num_skipped = 0

    def train_minibatch(self, minibatch: Minibatch, learning_rate: float | None = None) -> StepResult:
        """One step: forward, backward into the delta, the delta onto the model within max-change.

        `learning_rate` is the underlying rate of this and all later steps; components multiply it by their factors.
        """
        if learning_rate is not None:
            self._delta.set_learning_rate(learning_rate)
        stats = {result.name: result.stats for result in self._forward_backward(minibatch)}
        add_l2(self._delta, self.nnet, self.options.l2_regularize_factor * minibatch.num_sequences)
        momentum = self.options.momentum
        added = add_with_max_change(self.nnet, self._delta, self.options.max_param_change, scale=1.0 - momentum)
        self._delta.scale_(momentum if added else 0.0)
        for component in self.nnet.components.values():
            if component.has_running_statistics:
                component.scale_stats_(float(np.float32(self.options.batchnorm_stats_scale)))
        if not added:
            self.num_skipped += 1
            return StepResult({}, "the gradient is not finite")
        return StepResult(stats)

    def _forward_backward(self, minibatch: Minibatch) -> Sequence[OutputResult]:
        computer = self._computer(minibatch)
        for io in minibatch.inputs:
            computer.accept_input(io.name, io.matrix)
        computer.run()
        results: list[OutputResult] = []
        for target in minibatch.targets:
            outputs = [computer.get_output(name) for name in self.objective.outputs(target)]
            results += self.objective.evaluate(target, outputs, rng=self._rng, with_derivs=True)
        for result in results:
            assert result.deriv is not None, "an objective that gives no derivative"
            computer.accept_input(result.name, result.deriv)
        computer.run()
        return results

    def _computer(self, minibatch: Minibatch) -> NnetComputer:
        outputs = [self.objective.outputs(target) for target in minibatch.targets]
        request = minibatch.request(outputs, train=True, store_stats=self.options.store_component_stats)

        def make() -> NnetComputer:
            computation = self.cache.compile(self.nnet, request)
            return NnetComputer(computation, self.nnet, self._delta, nnet_to_store_stats=self.nnet, check_finite=False)

        return self._computers.get(request.key(), make)
