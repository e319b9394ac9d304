"""NnetInTraining: a network of components and its delta, as the trainer sees them (docs/training.md)."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from torch import Tensor

from nnet3.base.options.compiling import CompileOptions
from nnet3.base.options.training import TrainerOptions
from nnet3.engine.driver import ComputationCache
from nnet3.model.components.random_source import RandomSource, SharedNumbers
from nnet3.model.components.row_sums import RowReduction
from nnet3.model.nnet import Nnet
from nnet3.training.train.gradient import Gradient
from nnet3.training.train.minibatch import Minibatch, naming
from nnet3.training.train.objectives import Objective, ObjectiveStats
from nnet3.training.train.running_state import (
    Before,
    KeptTensor,
    load_network_state,
    natural_gradients,
    network_state,
    statistics,
)
from nnet3.training.train.trainable import Trainable
from nnet3.training.train.trainer_state import read_state, write_state
from nnet3.training.train.update import Update, add_l2, add_with_max_change, constrain_orthonormal


class NnetInTraining(Trainable[Minibatch]):
    """`delta`, a copy of the network, collects the next step, and has the components' rates and limits.

    `stats_in_delta`: collect statistics in the delta, too, and add them to the network as parameters are added.
    Components draw single numbers from `scalars`, if given.
    """

    def __init__(
        self,
        nnet: Nnet,
        options: TrainerOptions,
        objective: Objective,
        cache: ComputationCache | None,
        reduction: RowReduction | None,
        compile_options: CompileOptions | None,
        *,
        stats_in_delta: bool = False,
        scalars: SharedNumbers | None = None,
    ) -> None:
        self.nnet = nnet
        if options.zero_component_stats:
            nnet.zero_stats()
        self.delta = nnet.copy()
        self.delta.scale_(0.0)
        self.delta_is_zero = True
        compile_options = options.compile_options(compile_options)
        self.gradient = Gradient(
            nnet, self.delta, objective, cache, reduction, compile_options,
            store_stats=options.store_component_stats, stats_in_delta=stats_in_delta, scalars=scalars,
        )  # fmt: skip

    def key(self, minibatch: Minibatch) -> str:
        return minibatch.key

    def set_learning_rate(self, rate: float) -> None:
        self.delta.set_learning_rate(rate)

    def before(self) -> Before:
        """A delta that is zero is not copied: it will be zero again."""
        kept = [self.nnet] if self.delta_is_zero else [self.nnet, self.delta]
        return Before(
            [each for net in kept for each in statistics(net).values()],
            natural_gradients(self.delta).values(),
            () if self.delta_is_zero else self.delta.flat_parameters(),
            lambda: map(KeptTensor, self.nnet.flat_parameters()),
            partial(self.scale_delta, 0.0) if self.delta_is_zero else lambda: None,
        )

    def begin(self, minibatch: Minibatch) -> int:
        with naming(minibatch):
            return self.gradient.begin(minibatch)

    def add_gradient(self, minibatch: Minibatch, seed: int) -> dict[str, ObjectiveStats]:
        return self.gradient.add(minibatch, seed, delta_is_zero=self.delta_is_zero)

    def add_penalties(self, scale: float) -> None:
        add_l2(self.delta, self.nnet, scale)

    def update(self, max_param_change: float, *, limit: float, scale: float) -> Update:
        return add_with_max_change(self.nnet, self.delta, max_param_change, limit=limit, scale=scale)

    def scale_delta(self, scale: float) -> None:
        self.delta.scale_(scale)
        self.delta_is_zero = scale == 0.0

    def freeze_natural_gradient(self, frozen: bool) -> None:
        self.delta.freeze_natural_gradient(frozen)

    def scale_statistics(self, scale: float) -> None:
        for component in self.nnet.components.values():
            if component.has_running_statistics:
                component.scale_stats_(float(np.float32(scale)))

    def constrain(self, seed: int) -> None:
        constrain_orthonormal(self.nnet, RandomSource(seed))

    def state(self) -> dict[str, Tensor]:
        return write_state(self.nnet, self.delta)

    def load_state(self, state: dict[str, Tensor]) -> None:
        read_state(state, self.nnet, self.delta)
        self.delta_is_zero = not any(bool(buffer.any()) for buffer in self.delta.flat_parameters())

    def contents(self) -> dict[str, Any]:
        return {**network_state(self.nnet)}

    def load_contents(self, contents: dict[str, Any]) -> None:
        load_network_state(self.nnet, contents)
