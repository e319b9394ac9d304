"""Commands that begin, end, compress and fill matrices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

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
from nnet3.ir.program_tables import ProgramTables
from nnet3.ir.proof.field import element
from nnet3.ir.proof.machine import Machine
from nnet3.ir.proof.randoms import signs
from nnet3.ir.shape_rules import any_sizes


@dataclass(frozen=True)
class AllocMatrix(Command, role=Role.MEMORY):
    """Begin the life of a whole matrix, zeroed or with undefined contents. This is no access."""

    matrix: Allocates
    zeroed: Flag

    problems = any_sizes

    def evaluate(self, machine: Machine) -> None:
        machine.begin(self.matrix, self.zeroed)

    def text(self, computation: ProgramTables) -> str:
        name = format_submatrix(computation, self.matrix)
        contents = "zeros" if self.zeroed else "undefined"
        if not 0 < self.matrix < len(computation.submatrices):
            return f"{name} = {contents}"
        block = computation.submatrices[self.matrix]
        return f"{name} = {contents}({block.num_rows}, {block.num_cols})"


@dataclass(frozen=True)
class _OfMatrix(Command, role=Role.MEMORY):
    """Base of commands that change the memory of a whole matrix; `printed` follows the matrix's name."""

    printed: ClassVar[str]

    problems = any_sizes

    def text(self, computation: ProgramTables) -> str:
        (matrix,) = self.form.operands(self)
        return format_submatrix(computation, matrix) + self.printed


@dataclass(frozen=True)
class DeallocMatrix(_OfMatrix):
    """End the life of a whole matrix. This is no access."""

    printed: ClassVar[str] = " = []"
    matrix: Deallocates

    def evaluate(self, machine: Machine) -> None:
        machine.end(self.matrix)


@dataclass(frozen=True)
class CompressMatrix(_OfMatrix):
    """Replace a whole matrix by the signs of its elements, one byte a sign. Only DecompressMatrix may touch it next."""

    printed: ClassVar[str] = ".compress()"
    matrix: Compresses

    def evaluate(self, machine: Machine) -> None:
        machine.write(self.matrix, signs(machine.read(self.matrix)))


@dataclass(frozen=True)
class DecompressMatrix(_OfMatrix):
    """Bring a compressed matrix back: 1 where it was positive, 0 elsewhere."""

    printed: ClassVar[str] = ".decompress()"
    matrix: Decompresses

    def evaluate(self, machine: Machine) -> None:
        """Nothing is left but signs, as they have been since the compression."""


@dataclass(frozen=True)
class SetConst(Command):
    """dest = value."""

    dest: Writes
    value: Real

    problems = any_sizes

    def evaluate(self, machine: Machine) -> None:
        machine.write(self.dest, element(self.value))

    def text(self, computation: ProgramTables) -> str:
        return f"{format_submatrix(computation, self.dest)}.set({self.value:g})"
