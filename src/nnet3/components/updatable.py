"""Components with parameters: learning rates, max-change, l2, and their header in the file."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from nnet3.components.base import Component, Properties
from nnet3.components.field_table import Field
from nnet3.components.kinds import BOOLEAN, FINITE, RATE
from nnet3.components.natural_gradient import OnlineNaturalGradient

#: What the file of an updatable component begins with; each token may be absent, whatever version wrote it.
HEADER = (
    Field("learning_rate_factor", RATE, default=1.0, optional=True, omitted=1.0, hidden=1.0),
    Field("is_gradient", BOOLEAN, None, optional=True, omitted=False, hidden=False),
    Field("max_change", RATE, default=0.0, optional=True, omitted=0.0, hidden=0.0),
    Field("l2_regularize", RATE, default=0.0, optional=True, omitted=0.0, hidden=0.0),
    Field("learning_rate", RATE, default=0.001, optional=True),
)
#: Where old files have it, behind the parameters.
OLD_IS_GRADIENT = Field("is_gradient", BOOLEAN, None, optional=True, saved=False)


class UpdatableComponent(Component):
    """`learning_rate` is the actual rate: the underlying one times `learning_rate_factor`."""

    header_fields = HEADER
    header_shown = ("learning_rate", "is_gradient", "l2_regularize", "learning_rate_factor", "max_change")
    #: 0: no constraint; > 0: W W^T = scale^2 I with this scale; < 0: with a floating scale.
    orthonormal_constraint: float = 0.0
    #: The attributes that hold an OnlineNaturalGradient.
    preconditioner_names: ClassVar[tuple[str, ...]] = ()

    def __init__(self) -> None:
        super().__init__()
        self.learning_rate = 0.001
        self.learning_rate_factor = 1.0
        self.max_change = 0.0
        self.l2_regularize = 0.0
        self.is_gradient = False

    def copy_header(self, other: UpdatableComponent) -> None:
        """Take over the rates, limits and flags of another component."""
        for field in HEADER:
            setattr(self, field.name, getattr(other, field.name))

    @property
    def updatable(self) -> UpdatableComponent | None:
        return self if self.properties & Properties.UPDATABLE else None

    def set_learning_rate(self, rate: float) -> None:
        self.learning_rate = rate * self.learning_rate_factor

    def set_actual_learning_rate(self, rate: float) -> None:
        """Set the rate itself, whatever the factor."""
        self.learning_rate = rate

    def set_as_gradient(self) -> None:
        self.learning_rate = 1.0
        self.is_gradient = True

    def forget_natural_gradient(self) -> None:
        """Begin new estimates with the same settings."""
        for name in self.preconditioner_names:
            setattr(self, name, getattr(self, name).fresh())

    @property
    def natural_gradients(self) -> dict[str, OnlineNaturalGradient]:
        return {name: getattr(self, name) for name in self.preconditioner_names}

    def freeze_natural_gradient(self, frozen: bool) -> None:
        for preconditioner in self.natural_gradients.values():
            preconditioner.frozen = frozen

    def dot(self, other: Component) -> float:
        """Sum of products of all parameters with those of a component of the same type and size."""
        theirs = other.parameters()
        return sum(float((mine.double() * theirs[name].double()).sum()) for name, mine in self.parameters().items())


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
