"""Minibatch training with natural gradient, max-change and a falling learning rate (docs/formulas.md)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from nnet3.compiler import ComputationCache, ComputationRequest
from nnet3.compiler.cache import default_cache
from nnet3.compute import NnetComputer
from nnet3.compute.recent import RecentComputers
from nnet3.errors import TrainingError
from nnet3.nnet import Nnet
from nnet3.nnet.nodes import DescriptorNode
from nnet3.train.l2 import add_l2
from nnet3.train.max_change import add_with_max_change
from nnet3.train.minibatch import Minibatch
from nnet3.train.objectives import ObjectiveStats, objective


@dataclass(frozen=True)
class TrainerOptions:
    """The learning rate falls geometrically from the first to the last minibatch.

    With momentum m a step is 1 - m times the sum of the gradients so far, each m times less than the next one, so that
    the effective learning rate does not depend on m.
    """

    num_epochs: int = 10
    initial_learning_rate: float = 0.01
    final_learning_rate: float = 0.001
    max_param_change: float = 2.0
    momentum: float = 0.0
    batchnorm_stats_scale: float = 0.8
    l2_regularize_factor: float = 1.0
    seed: int = 0


@dataclass(frozen=True)
class Progress:
    """Where training stands after a minibatch."""

    epoch: int
    minibatch: int
    num_minibatches: int  # of the whole training
    learning_rate: float
    train: ObjectiveStats  # of this minibatch
    seconds: float  # since the start
    refused: int  # steps that were infinite or NaN and therefore not taken


class Trainer:
    """Trains a network in place. Computations are compiled once for each structure of minibatch."""

    def __init__(self, nnet: Nnet, options: TrainerOptions | None = None, cache: ComputationCache | None = None):
        """`cache`: where computations are kept; by default in that of the process."""
        self.nnet, self.cache = nnet, default_cache() if cache is None else cache
        self.options = options or TrainerOptions()
        if self.options.initial_learning_rate <= 0 or self.options.final_learning_rate <= 0:
            raise TrainingError("learning rates must be > 0")
        if not 0.0 <= self.options.momentum < 1.0:
            raise TrainingError(f"momentum must be >= 0 and < 1, got {self.options.momentum}")
        nnet.seed_random(self.options.seed)
        nnet.zero_stats()
        self._delta = nnet.copy()
        self._delta.scale_(0.0)
        self._computers = RecentComputers()
        self.compile_seconds = 0.0
        self.num_refused = 0

    def train(
        self,
        make_minibatches: Callable[[int], Sequence[Minibatch]],
        on_progress: Callable[[Progress], None] | None = None,
    ) -> None:
        """Train for all epochs; `make_minibatches(epoch)` gives the minibatches of one, as many in each."""
        start, number = time.perf_counter(), 0
        for epoch in range(self.options.num_epochs):
            minibatches = make_minibatches(epoch)
            total = len(minibatches) * self.options.num_epochs
            for minibatch in minibatches:
                rate = self._learning_rate(number / total)
                stats = self.train_minibatch(minibatch, rate)
                number += 1
                if on_progress is not None:
                    seconds = time.perf_counter() - start
                    on_progress(Progress(epoch, number, total, rate, stats, seconds, self.num_refused))

    def train_minibatch(self, minibatch: Minibatch, learning_rate: float) -> ObjectiveStats:
        """One step: forward, backward into the delta, the delta onto the model within max-change."""
        self._delta.set_learning_rate(learning_rate)
        computer = self._computer(minibatch)
        stats = ObjectiveStats()
        for io in minibatch.inputs:
            computer.accept_input(io.name, io.matrix)
        computer.run()
        for io in minibatch.supervisions:
            node = self.nnet.node(io.name)
            assert isinstance(node, DescriptorNode)
            own, deriv = objective(node.objective or "linear", computer.get_output(io.name), io.matrix)
            computer.accept_input(io.name, deriv)
            stats.add(own)
        computer.run()
        add_l2(self._delta, self.nnet, self.options.l2_regularize_factor * minibatch.num_sequences)
        momentum = self.options.momentum
        added = add_with_max_change(self.nnet, self._delta, self.options.max_param_change, scale=1.0 - momentum)
        self.num_refused += not added
        self._delta.scale_(momentum if added else 0.0)
        for component in self.nnet.components.values():
            if component.has_running_statistics:
                component.scale_stats_(float(np.float32(self.options.batchnorm_stats_scale)))
        return stats

    def _learning_rate(self, done: float) -> float:
        first, last = self.options.initial_learning_rate, self.options.final_learning_rate
        return first * math.exp(done * math.log(last / first))

    def _computer(self, minibatch: Minibatch) -> NnetComputer:
        request = minibatch.request(train=True)

        def make() -> NnetComputer:
            start = time.perf_counter()
            computation = self.cache.compile(self.nnet, request)
            computer = NnetComputer(
                computation, self.nnet, self._delta, nnet_to_store_stats=self.nnet, check_finite=False
            )
            self.compile_seconds += time.perf_counter() - start
            return computer

        return self._computers.get(request.key(), make)


def evaluate(nnet: Nnet, minibatches: Sequence[Minibatch]) -> tuple[ObjectiveStats, list[np.ndarray]]:
    """Objective and accuracy in test mode, and the first output of each minibatch (rows, columns)."""
    tested = nnet.copy()
    tested.set_test_mode(True)
    total, outputs = ObjectiveStats(), []
    computers, cache = RecentComputers(), default_cache()
    for minibatch in minibatches:
        request = minibatch.request(train=False)
        computer = computers.get(request.key(), partial(_computer_for, tested, request, cache))
        for io in minibatch.inputs:
            computer.accept_input(io.name, io.matrix)
        computer.run()
        for io in minibatch.supervisions:
            node = tested.node(io.name)
            assert isinstance(node, DescriptorNode)
            total.add(objective(node.objective or "linear", computer.get_output(io.name), io.matrix)[0])
        outputs.append(computer.get_output(minibatch.supervisions[0].name).cpu().numpy())
    return total, outputs


def _computer_for(nnet: Nnet, request: ComputationRequest, cache: ComputationCache) -> NnetComputer:
    return NnetComputer(cache.compile(nnet, request), nnet)
