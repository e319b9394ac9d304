"""The orthonormal-constraint setting of affine-like components (docs/formulas.md, the orthonormal constraint)."""

from __future__ import annotations

from torch import Tensor

from nnet3.components.field_table import Field
from nnet3.components.kinds import FINITE
from nnet3.components.updatable import UpdatableComponent

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
