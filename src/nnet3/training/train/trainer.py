"""The trainer: minibatch after minibatch, Kaldi's arithmetic (docs/training.md)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from nnet3.base.options.compiling import CompileOptions
from nnet3.base.options.training import TrainerOptions as TrainerOptions
from nnet3.engine.driver import ComputationCache
from nnet3.errors import TrainingError
from nnet3.model.components.random_source import RandomSource
from nnet3.model.components.row_sums import RowReduction
from nnet3.model.nnet import Nnet
from nnet3.training.examples.c_random import CRandom
from nnet3.training.train.minibatch import Minibatch
from nnet3.training.train.nnet_in_training import NnetInTraining
from nnet3.training.train.objectives import Objective, ObjectiveByNode
from nnet3.training.train.step_result import StepResult
from nnet3.training.train.trainable import Restorable, Trainable, UnusableError
from nnet3.training.train.trainer_state import check_state
from nnet3.training.train.training_log import TrainingLog
from nnet3.training.train.update import Update

_LOG = logging.getLogger("nnet3.train")
_COUNTERS = ("num_minibatches", "num_skipped", "first_seed", "backstitch_phase")


M = TypeVar("M")


class MinibatchTrainer(Generic[M]):
    """Trains a model of any kind in place (see `trainable`); `Trainer` is for networks of components.

    `num_minibatches` counts the minibatches given, `num_skipped` the skipped minibatches; `first_seed` says
    what is random, `backstitch_phase` modulo the interval on which minibatches backstitch falls: the first number Kaldi
    draws, whatever the components. `log` adds up the objectives and prints them as Kaldi does.
    """

    def __init__(
        self,
        model: Trainable[M],
        options: TrainerOptions,
        *,
        say: Callable[[str], None] = _LOG.info,
        log: TrainingLog | None = None,
    ) -> None:
        """`log`: by default one in the words of nnet3-train."""
        self.model, self.options = model, options
        self.first_seed = RandomSource(self.options.seed).integer(0, 100000)
        self.backstitch_phase = CRandom(self.options.seed).integer(0, 100000)
        self.num_minibatches = self.num_skipped = 0
        self.log = log or TrainingLog(self.options.print_interval, say)

    # ---- one minibatch ----

    @torch.no_grad()
    def train_minibatch(self, minibatch: M, learning_rate: float | None = None) -> StepResult:
        """Runs forward, then backward into the delta, and adds it to the model within max-change; with backstitch,
        twice.

        `learning_rate` is the underlying rate of this and all later steps; components multiply the rate by their
        factors. If a value turns up that is not finite, nothing changes and the result says so. Raises TrainingError
        for a minibatch that does not fit the network, and when more minibatches had to be skipped than the options
        allow.
        """
        if learning_rate is not None:
            self.model.set_learning_rate(learning_rate)
        number = self.num_minibatches
        before = self.model.before()
        try:
            num_sequences = self.model.begin(minibatch)
            step = self._backstitch_steps if self._has_backstitch(number) else self._plain_step
            result = step(minibatch, number, num_sequences, before)
        except UnusableError as reason:
            before.restore()
            result = StepResult(skipped=str(reason))
        except BaseException:
            before.restore()
            raise
        self.num_minibatches += 1
        self.log.add(number, result)
        if result.skipped is not None:
            self._count_skipped(minibatch, result.skipped)
        return result

    def _plain_step(self, minibatch: M, number: int, num_sequences: int, before: Restorable) -> StepResult:
        options = self.options
        stats = self.model.add_gradient(minibatch, self._seed(number))
        self.model.add_penalties(options.l2_regularize_factor * num_sequences)
        update = self._update(before, scale=1.0 - options.momentum)
        self.model.scale_statistics(options.batchnorm_stats_scale)
        self.model.constrain(self._seed(number) - 1)
        self.model.scale_delta(options.momentum)
        return StepResult(stats, updates=(update,))

    def _backstitch_steps(self, minibatch: M, number: int, num_sequences: int, before: Restorable) -> StepResult:
        """Goes back by alpha times the usual step, then forward by 1 + alpha times the step of the new point."""
        alpha = self.options.backstitch_training_scale
        try:
            self.model.freeze_natural_gradient(True)
            stats = self.model.add_gradient(minibatch, self._seed(number))
        finally:
            self.model.freeze_natural_gradient(False)
        back = self._update(before, limit=alpha, scale=-alpha)
        self.model.constrain(self._seed(number) - 1)
        self.model.scale_delta(0.0)
        again = self.model.add_gradient(minibatch, self._seed(number))
        self.model.add_penalties(self.options.l2_regularize_factor * num_sequences / (1.0 + alpha))
        forward = self._update(before, limit=1.0 + alpha, scale=1.0 + alpha)
        self.model.scale_statistics(self.options.batchnorm_stats_scale)
        self.model.scale_delta(0.0)
        return StepResult(stats, again, (back, forward))

    def _update(self, before: Restorable, *, limit: float = 1.0, scale: float = 1.0) -> Update:
        before.keep_parameters()
        update = self.model.update(self.options.max_param_change, limit=limit, scale=scale)
        if update.not_finite is not None:
            raise UnusableError(f"the gradient of component '{update.not_finite}' is not finite")
        return update

    def _has_backstitch(self, number: int) -> bool:
        interval = self.options.backstitch_training_interval
        return self.options.backstitch_training_scale > 0 and number % interval == self.backstitch_phase % interval

    def _seed(self, number: int) -> int:
        """Returns the seed of a minibatch's random numbers, equal in a continued and an uninterrupted run."""
        return (self.first_seed + number) * 1_000_003

    def _count_skipped(self, minibatch: M, reason: str) -> None:
        self.num_skipped += 1
        key = self.model.key(minibatch)
        name = f"minibatch '{key}'" if key else f"minibatch {self.num_minibatches - 1}"
        _LOG.warning("%s is skipped: %s", name, reason)
        if self.num_skipped > self.options.max_skipped:
            raise TrainingError(
                f"{self.num_skipped} of {self.num_minibatches} minibatches had to be skipped, more than max_skipped = "
                f"{self.options.max_skipped} allows; the last one is {name}: {reason}; the network is as before it"
            )

    # ---- continuing ----

    def state(self) -> dict[str, Tensor]:
        """Returns the needs of a later `load_state`, besides the network's file, to go on with the same bits.

        Names and tensors (copies; numbers are tensors without axes): counters as `trainer.COUNTER`, the model's state
        (the delta, natural-gradient estimates, learning rates, the exact statistics of the network, rounded in its
        file), the log as `log.*`.
        """
        counters = {f"trainer.{name}": torch.tensor(getattr(self, name), dtype=torch.int64) for name in _COUNTERS}
        return counters | self.model.state() | {f"log.{name}": tensor for name, tensor in self.log.state().items()}

    @torch.no_grad()
    def load_state(self, state: dict[str, Tensor]) -> None:
        """Goes on where `state` was made, with the network of that moment. Raises TrainingError for another network."""
        check_state(state, self.state())
        self.model.load_state(state)
        self.log.load_state({name.removeprefix("log."): value for name, value in state.items() if name[:4] == "log."})
        for name in _COUNTERS:
            setattr(self, name, int(state[f"trainer.{name}"]))

    def contents(self) -> dict[str, Any]:
        """Returns copies of the parameters and exact statistics of the model, as a checkpoint keeps them."""
        return self.model.contents()

    def load_contents(self, contents: dict[str, Any]) -> None:
        """Goes back to earlier contents; parameters stay the same tensors. TrainingError for another network's."""
        self.model.load_contents(contents)


class Trainer(MinibatchTrainer[Minibatch]):
    """Trains a network in place. Computations are compiled once for each structure of minibatch."""

    model: NnetInTraining

    def __init__(
        self,
        nnet: Nnet,
        options: TrainerOptions | None = None,
        objective: Objective | None = None,
        cache: ComputationCache | None = None,
        *,
        reduction: RowReduction | None = None,
        compile_options: CompileOptions | None = None,
        say: Callable[[str], None] = _LOG.info,
    ) -> None:
        """`options`: of steps, by default `TrainerOptions()`. `objective`: by default linear or quadratic, as each
        output node says. `cache`: keeps computations, by default the cache of the process. `reduction` adds up over
        processes that share the minibatches: a process gets its own sequences of a minibatch, and all processes end
        with equal parameters. `say` takes the lines of the log.
        """
        self.nnet, self.reduction, options = nnet, reduction, options or TrainerOptions()
        self.objective = ObjectiveByNode(nnet) if objective is None else objective
        model = NnetInTraining(nnet, options, self.objective, cache, reduction, compile_options)
        super().__init__(model, options, say=say)
