"""The commands of a computation: one frozen dataclass each, which declares what it reads, writes and updates.

Sub-matrices are numbers; 0 is the empty one and is accessed by nobody. To add a command: a class here, a line in
`printer.py`, a rule in `nnet3.compute`, and their tests.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from nnet3.computation.computation import NnetComputation


class AccessKind(enum.Enum):
    READ = "read"
    WRITE = "write"  # every element gets a new value; the old ones do not matter
    UPDATE = "update"  # read and written in place, or written in part


class Access(NamedTuple):
    submatrix: int
    kind: AccessKind


def _read(*submatrices: int) -> tuple[Access, ...]:
    return tuple([Access(s, AccessKind.READ) for s in submatrices if s != 0])


def _write(*submatrices: int) -> tuple[Access, ...]:
    return tuple([Access(s, AccessKind.WRITE) for s in submatrices if s != 0])


def _update(*submatrices: int) -> tuple[Access, ...]:
    return tuple([Access(s, AccessKind.UPDATE) for s in submatrices if s != 0])


def _submatrices_of(table: np.ndarray) -> Iterable[int]:
    return (int(s) for s in np.unique(table[:, 0]) if s >= 0)


@dataclass(frozen=True)
class Command:
    """Base of all commands."""

    #: Whether it does something beyond its accesses, so that it must be kept even if nobody reads what it writes.
    side_effects: ClassVar[bool] = False

    def accesses(self, computation: NnetComputation) -> tuple[Access, ...]:
        """What the command reads, writes and updates in place."""
        return ()


# ---- memory ----


@dataclass(frozen=True)
class AllocMatrix(Command):
    """Begin the life of a whole matrix, zeroed or with undefined contents."""

    side_effects: ClassVar[bool] = True
    matrix: int  # a sub-matrix that is a whole matrix
    zeroed: bool

    def accesses(self, computation: NnetComputation) -> tuple[Access, ...]:
        return _write(self.matrix) if self.zeroed else ()


@dataclass(frozen=True)
class DeallocMatrix(Command):
    """End the life of a whole matrix."""

    side_effects: ClassVar[bool] = True
    matrix: int


@dataclass(frozen=True)
class SwapMatrix(Command):
    """Exchange two whole matrices of equal size without copying."""

    first: int
    second: int

    def accesses(self, computation: NnetComputation) -> tuple[Access, ...]:
        return _update(self.first, self.second)


@dataclass(frozen=True)
class SetConst(Command):
    """dest = value."""

    dest: int
    value: float

    def accesses(self, computation: NnetComputation) -> tuple[Access, ...]:
        return _write(self.dest)


@dataclass(frozen=True)
class CompressMatrix(Command):
    """Keep a whole matrix in a smaller form; only DecompressMatrix may touch it next."""

    side_effects: ClassVar[bool] = True
    matrix: int
    method: str  # "bfloat16", or "sign" (positive or not)

    def accesses(self, computation: NnetComputation) -> tuple[Access, ...]:
        return _update(self.matrix)


@dataclass(frozen=True)
class DecompressMatrix(Command):
    """Bring a compressed matrix back."""

    side_effects: ClassVar[bool] = True
    matrix: int

    def accesses(self, computation: NnetComputation) -> tuple[Access, ...]:
        return _update(self.matrix)


# ---- kernels ----


@dataclass(frozen=True)
class Propagate(Command):
    """output = kernel(inputs). `memo` numbers what the kernel leaves for Backprop (-1: nothing)."""

    kernel: int
    inputs: tuple[int, ...]
    output: int
    precomputed: int = 0
    memo: int = -1
    store_stats: bool = False

    @property
    def side_effects(self) -> bool:  # type: ignore[override]
        return self.store_stats or self.memo >= 0

    def accesses(self, computation: NnetComputation) -> tuple[Access, ...]:
        return _read(*self.inputs) + _write(self.output)


@dataclass(frozen=True)
class Backprop(Command):
    """input_derivs = derivative of the kernel, and with `update` its parameters and statistics change.

    An input derivative 0 is not computed. `inputs` and `output` are 0 where the kernel does not need the value.
    """

    kernel: int
    node: str
    inputs: tuple[int, ...]
    output: int
    output_deriv: int
    input_derivs: tuple[int, ...]
    update: bool
    precomputed: int = 0
    memo: int = -1

    @property
    def side_effects(self) -> bool:  # type: ignore[override]
        return self.update

    def accesses(self, computation: NnetComputation) -> tuple[Access, ...]:
        return _read(*self.inputs, self.output, self.output_deriv) + _write(*self.input_derivs)


# ---- copying and adding ----


@dataclass(frozen=True)
class MatrixCopy(Command):
    """dest = scale * source."""

    dest: int
    source: int
    scale: float = 1.0

    def accesses(self, computation: NnetComputation) -> tuple[Access, ...]:
        return _read(self.source) + _write(self.dest)


@dataclass(frozen=True)
class MatrixAdd(Command):
    """dest += scale * source."""

    dest: int
    source: int
    scale: float = 1.0

    def accesses(self, computation: NnetComputation) -> tuple[Access, ...]:
        return _read(self.source) + _update(self.dest)


@dataclass(frozen=True)
class CopyRows(Command):
    """dest[i] = scale * source[indexes[i]], or zero where indexes[i] is -1."""

    dest: int
    source: int
    indexes: int  # into index_tables
    scale: float = 1.0

    def accesses(self, computation: NnetComputation) -> tuple[Access, ...]:
        return _read(self.source) + _write(self.dest)


@dataclass(frozen=True)
class AddRows(Command):
    """dest[i] += scale * source[indexes[i]] where indexes[i] is not -1."""

    dest: int
    source: int
    indexes: int
    scale: float = 1.0

    def accesses(self, computation: NnetComputation) -> tuple[Access, ...]:
        return _read(self.source) + _update(self.dest)


@dataclass(frozen=True)
class CopyRowsMulti(Command):
    """dest[i] = scale * (row of some sub-matrix, by table), or zero where the table has -1."""

    dest: int
    table: int  # into multi_tables
    scale: float = 1.0

    def accesses(self, computation: NnetComputation) -> tuple[Access, ...]:
        return _read(*_submatrices_of(computation.multi_tables[self.table])) + _write(self.dest)


@dataclass(frozen=True)
class AddRowsMulti(Command):
    """dest[i] += scale * (row of some sub-matrix, by table)."""

    dest: int
    table: int
    scale: float = 1.0

    def accesses(self, computation: NnetComputation) -> tuple[Access, ...]:
        return _read(*_submatrices_of(computation.multi_tables[self.table])) + _update(self.dest)


@dataclass(frozen=True)
class CopyToRowsMulti(Command):
    """(row of some sub-matrix, by table) = scale * source[i]; no row is named twice."""

    source: int
    table: int
    scale: float = 1.0

    def accesses(self, computation: NnetComputation) -> tuple[Access, ...]:
        return _read(self.source) + _update(*_submatrices_of(computation.multi_tables[self.table]))


@dataclass(frozen=True)
class AddToRowsMulti(Command):
    """(row of some sub-matrix, by table) += scale * source[i]; no row is named twice."""

    source: int
    table: int
    scale: float = 1.0

    def accesses(self, computation: NnetComputation) -> tuple[Access, ...]:
        return _read(self.source) + _update(*_submatrices_of(computation.multi_tables[self.table]))


@dataclass(frozen=True)
class AddRowRanges(Command):
    """dest[i] += scale * sum of source[first_i : end_i]; an empty range adds nothing."""

    dest: int
    source: int
    ranges: int  # into range_tables
    scale: float = 1.0

    def accesses(self, computation: NnetComputation) -> tuple[Access, ...]:
        return _read(self.source) + _update(self.dest)


# ---- the outside world and control ----


@dataclass(frozen=True)
class AcceptInput(Command):
    """dest = what the user gave under this name (a value, or an output's derivative)."""

    side_effects: ClassVar[bool] = True
    dest: int
    name: str

    def accesses(self, computation: NnetComputation) -> tuple[Access, ...]:
        return _write(self.dest)


@dataclass(frozen=True)
class ProvideOutput(Command):
    """Hand a value, or an input's derivative, to the user under this name."""

    side_effects: ClassVar[bool] = True
    source: int
    name: str

    def accesses(self, computation: NnetComputation) -> tuple[Access, ...]:
        return _read(self.source)


@dataclass(frozen=True)
class NoOp(Command):
    """Nothing; passes may leave it where a command was."""


@dataclass(frozen=True)
class SegmentMarker(Command):
    """A run stops here and goes on with the next call, for instance with the backward part."""

    side_effects: ClassVar[bool] = True


@dataclass(frozen=True)
class Label(Command):
    """A place that a Goto names."""

    side_effects: ClassVar[bool] = True
    name: str


@dataclass(frozen=True)
class Goto(Command):
    """Continue at the label."""

    side_effects: ClassVar[bool] = True
    label: str
