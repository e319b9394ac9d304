"""Commands that begin, end, compress and fill matrices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from nnet3.ir.declarations import (
    Allocates,
    Command,
    Compresses,
    Deallocates,
    Decompresses,
    Flag,
    Real,
    Role,
    Writes,
)
from nnet3.ir.formatting import format_submatrix
from nnet3.ir.shape_rules import any_sizes

if TYPE_CHECKING:
    from nnet3.ir.computation import NnetComputation


@dataclass(frozen=True)
class AllocMatrix(Command):
    """Begin the life of a whole matrix, zeroed or with undefined contents. This is no access."""

    role: ClassVar[Role] = Role.MEMORY
    matrix: Allocates
    zeroed: Flag

    problems = any_sizes

    def text(self, computation: NnetComputation) -> str:
        name = format_submatrix(computation, self.matrix)
        contents = "zeros" if self.zeroed else "undefined"
        if not 0 < self.matrix < len(computation.submatrices):
            return f"{name} = {contents}"
        block = computation.submatrices[self.matrix]
        return f"{name} = {contents}({block.num_rows}, {block.num_cols})"


@dataclass(frozen=True)
class DeallocMatrix(Command):
    """End the life of a whole matrix. This is no access."""

    role: ClassVar[Role] = Role.MEMORY
    matrix: Deallocates

    problems = any_sizes

    def text(self, computation: NnetComputation) -> str:
        return f"{format_submatrix(computation, self.matrix)} = []"


@dataclass(frozen=True)
class SetConst(Command):
    """dest = value."""

    dest: Writes
    value: Real

    problems = any_sizes

    def text(self, computation: NnetComputation) -> str:
        return f"{format_submatrix(computation, self.dest)}.set({self.value:g})"


@dataclass(frozen=True)
class CompressMatrix(Command):
    """Replace a whole matrix by the signs of its elements, one byte each. Only DecompressMatrix may touch it next."""

    role: ClassVar[Role] = Role.MEMORY
    matrix: Compresses

    problems = any_sizes

    def text(self, computation: NnetComputation) -> str:
        return f"{format_submatrix(computation, self.matrix)}.compress()"


@dataclass(frozen=True)
class DecompressMatrix(Command):
    """Bring a compressed matrix back: 1 where it was positive, 0 elsewhere."""

    role: ClassVar[Role] = Role.MEMORY
    matrix: Decompresses

    problems = any_sizes

    def text(self, computation: NnetComputation) -> str:
        return f"{format_submatrix(computation, self.matrix)}.decompress()"
