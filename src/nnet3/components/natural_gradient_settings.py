"""Settings of natural gradient as attributes of the components that have it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from nnet3.components.field_table import Field, show
from nnet3.components.kinds import NUMBER, POSITIVE, SIZE
from nnet3.components.natural_gradient import OnlineNaturalGradient


class Setting:
    """An attribute of the component that is a setting of one or more of its preconditioners, the same in all.

    To be set before they are first used.
    """

    def __init__(self, setting: str, *preconditioners: str) -> None:
        self.setting = setting
        self.preconditioners = preconditioners

    def __get__(self, component: Any, owner: Any = None) -> Any:
        return self if component is None else getattr(getattr(component, self.preconditioners[0]), self.setting)

    def __set__(self, component: Any, value: Any) -> None:
        for name in self.preconditioners:
            setattr(getattr(component, name), self.setting, value)


def natural_gradient_info(*settings: str) -> Callable[[Any], str]:
    """What info says of a component that may do without natural gradient."""

    def info(component: Any) -> str:
        if not component.use_natural_gradient:
            return ", use-natural-gradient=false"
        return show(component, (), settings)

    return info


#: Of types that have one preconditioner, with the defaults of those that are scales.
RANK = Field("rank", SIZE, default=8)
UPDATE_PERIOD = Field("update_period", SIZE, default=10)
NUM_SAMPLES_HISTORY = Field("num_samples_history", POSITIVE, default=2000.0)
ALPHA = Field("alpha", NUMBER, default=4.0)


class TwoPreconditioners:
    """`preconditioner_in`, `preconditioner_out` and their settings; `alpha` sets both."""

    preconditioner_names: ClassVar[tuple[str, ...]] = ("preconditioner_in", "preconditioner_out")
    preconditioner_in: OnlineNaturalGradient
    preconditioner_out: OnlineNaturalGradient
    rank_in, alpha_in = (Setting(name, "preconditioner_in") for name in ("rank", "alpha"))
    rank_out, alpha_out = (Setting(name, "preconditioner_out") for name in ("rank", "alpha"))
    update_period, num_samples_history, num_minibatches_history, alpha = (
        Setting(name, "preconditioner_in", "preconditioner_out")
        for name in ("update_period", "num_samples_history", "num_minibatches_history", "alpha")
    )


class OnePreconditioner:
    """`preconditioner` and its settings."""

    preconditioner_names: ClassVar[tuple[str, ...]] = ("preconditioner",)
    rank, update_period, num_samples_history, alpha = (
        Setting(name, "preconditioner") for name in ("rank", "update_period", "num_samples_history", "alpha")
    )
