"""Commands that begin, end, compress and fill matrices."""

from __future__ import annotations

from dataclasses import dataclass

from nnet3.engine.ir.declarations import (
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
from nnet3.engine.ir.proof.field import element
from nnet3.engine.ir.proof.machine import Machine
from nnet3.engine.ir.proof.randoms import signs
from nnet3.engine.ir.shape_rules import any_sizes


@dataclass(frozen=True)
class AllocMatrix(Command, role=Role.MEMORY):
    """Begin the life of a whole matrix, zeroed or with undefined contents. This is no access."""

    matrix: Allocates
    zeroed: Flag

    line = "{matrix} = {zeroed:zeros|undefined}{matrix:size}"
    problems = any_sizes

    def evaluate(self, machine: Machine) -> None:
        machine.begin(self.matrix, self.zeroed)


@dataclass(frozen=True)
class DeallocMatrix(Command, role=Role.MEMORY):
    """End the life of a whole matrix. This is no access."""

    matrix: Deallocates

    line = "{matrix} = []"
    problems = any_sizes

    def evaluate(self, machine: Machine) -> None:
        machine.end(self.matrix)


@dataclass(frozen=True)
class CompressMatrix(Command, role=Role.MEMORY):
    """Replace a whole matrix by the signs of its elements, one byte a sign. Only DecompressMatrix may touch it next."""

    matrix: Compresses

    line = "{matrix}.compress()"
    problems = any_sizes

    def evaluate(self, machine: Machine) -> None:
        machine.write(self.matrix, signs(machine.read(self.matrix)))


@dataclass(frozen=True)
class DecompressMatrix(Command, role=Role.MEMORY):
    """Bring a compressed matrix back: 1 where it was positive, 0 elsewhere."""

    matrix: Decompresses

    line = "{matrix}.decompress()"
    problems = any_sizes

    def evaluate(self, machine: Machine) -> None:
        """Nothing is left but signs, as they have been since the compression."""


@dataclass(frozen=True)
class SetConst(Command):
    """dest = value."""

    dest: Writes
    value: Real

    line = "{dest}.set({value})"
    problems = any_sizes

    def evaluate(self, machine: Machine) -> None:
        machine.write(self.dest, element(self.value))
