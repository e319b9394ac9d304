"""Options of `cn.train`: of steps, of single parameters, and of checkpoints and reports between minibatches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nnet3.base.options.declaring import Options, again, declared, option
from nnet3.base.options.run import CheckpointsSection, OutputSection
from nnet3.base.options.training import StepOptions, TrainerOptions
from nnet3.base.text.values import Boolean, Integer, Number, at_least
from nnet3.errors import TrainingError

_NUMBER = Number(at_least(0))
_NO_LIMIT = 2**31 - 1


@dataclass(frozen=True)
class ParameterOptions(Options, error=TrainingError):
    """Options by which a parameter learns."""

    learning_rate_factor: float = option(1.0, _NUMBER, "Multiplies the learning rate.")
    max_change: float = option(
        0.0, _NUMBER, "Most that it may change in a minibatch, as a Euclidean norm; 0: no limit."
    )
    l1: float = option(0.0, _NUMBER, "Adds l1 times the sum of absolute values to what is minimized.")
    l2: float = option(0.0, _NUMBER, "Adds l2 times the sum of squares to what is minimized.")
    natural_gradient: bool = option(
        False, Boolean(), "By natural gradient, where it is the first operand of a product, or of a component with it."
    )


@dataclass(frozen=True)
class NetworkTrainingOptions(ParameterOptions):
    """Options by which a computational network learns. Raises TrainingError for values that cannot be meant."""

    momentum: float = again(StepOptions, "momentum", 0.0)
    max_param_change: float = again(StepOptions, "max_param_change", 0.0)
    clip_norm: float = option(0.0, _NUMBER, "Most that the gradient may be, as a Euclidean norm; 0: no limit.")
    backstitch_training_scale: float = again(StepOptions, "backstitch_training_scale", 0.0)
    backstitch_training_interval: int = again(StepOptions, "backstitch_training_interval", 1)
    max_skipped: int = again(StepOptions, "max_skipped", 0)
    validate_every: int = option(
        0, Integer(at_least(0)), "Minibatches between validations; 0: at the ends of epochs.", steers=False
    )
    patience: int = option(
        0, Integer(at_least(0)), "Epochs without a better held-out criterion that end training, at the best; 0: never."
    )
    checkpoint_every: int = again(CheckpointsSection, "every", 1000)
    keep: int = again(CheckpointsSection, "keep", 2)
    print_every: int = again(OutputSection, "print_every", 100)
    curves: bool = again(OutputSection, "curves", True)
    tensorboard: bool = again(OutputSection, "tensorboard", True)

    def conflicts(self) -> Iterator[tuple[str, str]]:
        if self.backstitch_training_scale > 0 and self.momentum > 0:
            yield "momentum", f"backstitch needs momentum = 0, got {self.momentum:g}"

    @property
    def of_all(self) -> ParameterOptions:
        """The options of parameters of which nothing else is said."""
        return ParameterOptions(**{item.name: getattr(self, item.name) for item in declared(ParameterOptions)})

    def trainer_options(self, seed: int) -> TrainerOptions:
        """Returns the options of the trainer; what is skipped is counted by the run."""
        names = {item.name for item in declared(type(self))} & {item.name for item in declared(TrainerOptions)}
        own = {name: getattr(self, name) for name in names}
        return TrainerOptions(**own | {"max_skipped": _NO_LIMIT}, batchnorm_stats_scale=1.0, seed=seed)

    def steers(self, name: str) -> bool:
        """Returns true if different values of an option lead to different parameters."""
        return next(item.steers for item in declared(type(self)) if item.name == name)

    @property
    def of_own_step(self) -> list[str]:
        """The options given that another optimizer has, or does without."""
        own = (
            *declared(StepOptions),
            *(item for item in declared(ParameterOptions) if item.name not in ("l1", "l2", "natural_gradient")),
        )
        names = {item.name for item in own} - {"max_skipped"}
        return [i.name for i in declared(type(self)) if i.name in names and getattr(self, i.name) != i.default]
