"""Parts of components with parameters: the orthonormal constraint, and the settings of natural gradient."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

from torch import Tensor

from nnet3.model.components.base import UpdatableComponent
from nnet3.model.components.field_table import Field, Shown, show
from nnet3.model.components.natural_gradient import OnlineNaturalGradient, add_natural_gradient
from nnet3.model.components.row_matrix import RowMatrix
from nnet3.model.components.value_kinds import BOOLEAN, FINITE, NUMBER, POSITIVE, RANK_OR_DEFAULT, SIZE

#: Where old files have it, behind the parameters.
OLD_IS_GRADIENT = Field("is_gradient", BOOLEAN, None, optional=True, saved=False)


#: The orthonormal-constraint setting of affine-like components (docs/formulas.md).
ORTHONORMAL = Field("orthonormal_constraint", FINITE, default=0.0, optional=True, omitted=0.0, hidden=0.0)


class OrthonormalComponent(UpdatableComponent):
    """`orthonormal_constraint`: 0 off, > 0 the scale that is kept, < 0 a floating scale."""

    def __init__(self) -> None:
        super().__init__()
        self.orthonormal_constraint = 0.0

    @property
    def orthonormal_matrix(self) -> Tensor:
        """The parameter matrix that the constraint acts on (itself, not a copy): the first parameter, without bias."""
        matrix: Tensor = getattr(self, self.parameter_names[0])
        return matrix


class Setting:
    """An attribute of a component that is a setting of one or more preconditioners.

    Set before the preconditioners' first use.
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
    """Returns the part of the info line of a component that may do without natural gradient."""

    def info(component: Any) -> str:
        if not component.use_natural_gradient:
            return ", use-natural-gradient=false"
        return show(component, (), settings)

    return info


#: Fields of types with one preconditioner; the defaults are those of scales.
RANK = Field("rank", SIZE, default=8)
UPDATE_PERIOD = Field("update_period", SIZE, default=10)
NUM_SAMPLES_HISTORY = Field("num_samples_history", POSITIVE, default=2000.0)
ALPHA = Field("alpha", NUMBER, default=4.0)
#: Fields of types that precondition both factors of a gradient G^T X.
RANK_IN, RANK_OUT = Field("rank_in", RANK_OR_DEFAULT), Field("rank_out", RANK_OR_DEFAULT)
RANKS_IN_ONE = (replace(RANK_IN, token="<RankInOut>"), replace(RANK_OUT, token=""))
UPDATE_PERIOD_OF_PAIR = replace(UPDATE_PERIOD, default=4)


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
    learning_rate: float

    def learn(self, weight: Tensor, bias: Tensor | None, x: Tensor | RowMatrix, y_deriv: Tensor) -> None:
        """weight += rate s1 s2 G'^T X', with (X', s1) and (G', s2) preconditioned; see `add_natural_gradient`."""
        pair = self.preconditioner_in, y_deriv, self.preconditioner_out
        add_natural_gradient(weight, bias, self.learning_rate, x, *pair)


def preconditioners(input_dim: int, output_dim: int) -> tuple[OnlineNaturalGradient, OnlineNaturalGradient]:
    """Returns new ones for input rows and for output derivatives of a matrix, with the default ranks."""
    ranks = min(20, (input_dim + 1) // 2), min(80, (output_dim + 1) // 2)
    into, out = (OnlineNaturalGradient(rank, update_period=4) for rank in ranks)
    return into, out


class NaturalGradientPair(TwoPreconditioners, OrthonormalComponent):
    """`preconditioner_in` is for input rows, `preconditioner_out` for output derivatives.

    History, alpha and update period are equal; only the ranks differ.
    """

    natural_gradient_shown: ClassVar[Shown] = ("rank_in", "rank_out", "num_samples_history", "update_period", "alpha")

    def set_natural_gradient(self) -> None:
        """Makes new preconditioners with the default ranks for the dimensions."""
        self.preconditioner_in, self.preconditioner_out = preconditioners(self.input_dim, self.output_dim)


class OnePreconditioner:
    """`preconditioner` and its settings."""

    preconditioner_names: ClassVar[tuple[str, ...]] = ("preconditioner",)
    rank, update_period, num_samples_history, alpha = (
        Setting(name, "preconditioner") for name in ("rank", "update_period", "num_samples_history", "alpha")
    )
