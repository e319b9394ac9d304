"""Commands that begin, end, exchange and fill matrices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from nnet3.computation.declarations import Allocates, Command, Deallocates, Flag, Moves, Real, Text, Writes
from nnet3.computation.formatting import format_submatrix
from nnet3.computation.shape_rules import Problems, same_shape

if TYPE_CHECKING:
    from nnet3.computation.computation import NnetComputation

COMPRESSION_METHODS = ("bfloat16", "sign")


@dataclass(frozen=True)
class AllocMatrix(Command):
    """Begin the life of a whole matrix, zeroed or with undefined contents. This is no access."""

    always_acts: ClassVar[bool] = True
    matrix: Allocates
    zeroed: Flag

    def problems(self, computation: NnetComputation) -> Problems:
        return iter(())

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

    always_acts: ClassVar[bool] = True
    matrix: Deallocates

    def problems(self, computation: NnetComputation) -> Problems:
        return iter(())

    def text(self, computation: NnetComputation) -> str:
        return f"{format_submatrix(computation, self.matrix)} = []"


@dataclass(frozen=True)
class SwapMatrix(Command):
    """Exchange two whole matrices of equal size without copying."""

    first: Moves
    second: Moves

    def problems(self, computation: NnetComputation) -> Problems:
        one, other = (computation.submatrices[number].matrix for number in (self.first, self.second))
        if one == other:
            yield "its operands must be two different matrices"
        if computation.matrices[one].dtype != computation.matrices[other].dtype:
            yield "its operands must have the same dtype"
        yield from same_shape(computation, first=self.first, second=self.second)

    def text(self, computation: NnetComputation) -> str:
        return f"{format_submatrix(computation, self.first)}.swap({format_submatrix(computation, self.second)})"


@dataclass(frozen=True)
class SetConst(Command):
    """dest = value."""

    dest: Writes
    value: Real

    def problems(self, computation: NnetComputation) -> Problems:
        return iter(())

    def text(self, computation: NnetComputation) -> str:
        return f"{format_submatrix(computation, self.dest)}.set({self.value:g})"


@dataclass(frozen=True)
class CompressMatrix(Command):
    """Keep a whole matrix in a smaller form; only DecompressMatrix may touch it next."""

    matrix: Moves
    method: Text  # "bfloat16", or "sign" (positive or not)

    def problems(self, computation: NnetComputation) -> Problems:
        if self.method not in COMPRESSION_METHODS:
            yield f"unknown compression method '{self.method}', expected one of {', '.join(COMPRESSION_METHODS)}"

    def text(self, computation: NnetComputation) -> str:
        return f"{format_submatrix(computation, self.matrix)}.compress({self.method})"


@dataclass(frozen=True)
class DecompressMatrix(Command):
    """Bring a compressed matrix back."""

    matrix: Moves

    def problems(self, computation: NnetComputation) -> Problems:
        return iter(())

    def text(self, computation: NnetComputation) -> str:
        return f"{format_submatrix(computation, self.matrix)}.decompress()"
