"""The orthonormal-constraint setting of affine-like components; the constraint itself is applied by the trainer."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from torch import Tensor

from nnet3.components.fields import read_number
from nnet3.components.summary import format_number
from nnet3.components.updatable import UpdatableComponent

if TYPE_CHECKING:
    from nnet3.kaldi_io import Reader, Writer
    from nnet3.text import ConfigLine


class OrthonormalComponent(UpdatableComponent):
    """`orthonormal_constraint`: 0 off, > 0 the scale that is kept, < 0 a floating scale (training.md 6)."""

    def __init__(self) -> None:
        super().__init__()
        self.orthonormal_constraint = 0.0

    @property
    def orthonormal_matrix(self) -> Tensor:
        """The parameter matrix that the constraint acts on (itself, not a copy): the first parameter, without bias."""
        matrix: Tensor = getattr(self, self.parameter_names[0])
        return matrix

    def configure_orthonormal(self, line: ConfigLine) -> None:
        self.orthonormal_constraint = line.number("orthonormal-constraint", 0.0)

    def read_orthonormal(self, reader: Reader) -> None:
        if reader.accept("<OrthonormalConstraint>"):
            self.orthonormal_constraint = read_number(reader, "<OrthonormalConstraint>", minimum=-math.inf)

    def write_orthonormal(self, writer: Writer) -> None:
        if self.orthonormal_constraint != 0.0:
            writer.token("<OrthonormalConstraint>")
            writer.real(self.orthonormal_constraint)

    def orthonormal_info(self) -> str:
        if self.orthonormal_constraint == 0.0:
            return ""
        return f", orthonormal-constraint={format_number(self.orthonormal_constraint)}"
