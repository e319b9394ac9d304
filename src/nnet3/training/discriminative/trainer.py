"""The trainer of nnet3-discriminative-train: steps without limits of components (docs/discriminative.md)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from nnet3.base.options.discriminative import MMI
from nnet3.base.options.training import TrainerOptions
from nnet3.engine.driver import ComputationCache
from nnet3.model.nnet import Nnet
from nnet3.training.discriminative.objective import DiscriminativeObjective
from nnet3.training.train.minibatch import Minibatch
from nnet3.training.train.nnet_in_training import NnetInTraining
from nnet3.training.train.objectives import ObjectiveStats
from nnet3.training.train.trainer import MinibatchTrainer
from nnet3.training.train.training_log import TrainingLog
from nnet3.training.train.update import Update, add_with_max_change


class PlainStepNnet(NnetInTraining):
    """A network whose steps know neither limits nor penalties of components, nor constraints.

    Where a step may be shortened or goes on into the next one, statistics are a part of the step.
    """

    def add_penalties(self, scale: float) -> None:
        pass

    def update(self, max_param_change: float, *, limit: float, scale: float) -> Update:
        add = partial(add_with_max_change, self.nnet, self.delta, max_param_change, of_components=False)
        return add(limit=limit, scale=scale)

    def scale_statistics(self, scale: float) -> None:
        pass

    def constrain(self, seed: int) -> None:
        pass


class DiscriminativeLog(TrainingLog):
    """The words of nnet3-discriminative-train."""

    def __init__(self, interval: int, say: Callable[[str], None], criterion: str) -> None:
        super().__init__(interval, say)
        self._criterion = criterion

    def finish(self) -> None:
        for name, total in sorted(self.totals.items(), reverse=True):
            weight = total.weight or 1.0
            frames = f"over {total.weight:g} frames"
            sign = -1.0 if self._criterion == MMI and name.endswith("-xent") else 1.0
            average = sign * total.average
            self.say(f"Average num+den count of stats is {total.num_den_count / weight:g} per frame, {frames}.")
            if total.auxiliary:
                self.say(f"Average l2 norm of output per frame is {total.average_auxiliary:g} {frames}.")
            self.say(f"Overall average objective function for '{name}' is {average:g} {frames}.")
            self.say(f"[this line is to be parsed by a script:] {self._criterion}-per-frame={average:g}")

    def _count(self, update: Update) -> None:
        if update.factor < 1.0:
            length = update.limit / update.factor
            self.say(
                f"Parameter change too big: {length:g} > --max-param-change={update.limit:g}, "
                f"scaling by {update.factor:g}"
            )

    def _averaged(self, stats: ObjectiveStats) -> str:
        return f"{stats.average:g} over {stats.weight:g} frames."


class DiscriminativeTrainer(MinibatchTrainer[Minibatch]):
    """Trains a network in place as nnet3-discriminative-train does.

    Only some options act: momentum, max_param_change, and the options of statistics, derivative times and the log.
    """

    def __init__(
        self,
        nnet: Nnet,
        options: TrainerOptions,
        objective: DiscriminativeObjective,
        cache: ComputationCache | None = None,
        *,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        options = replace(options, backstitch_training_scale=0.0)
        in_delta = bool(options.momentum or options.max_param_change)
        model = PlainStepNnet(nnet, options, objective, cache, None, None, stats_in_delta=in_delta)
        log = DiscriminativeLog(options.print_interval, say, objective.options.criterion)
        super().__init__(model, options, say=say, log=log)
