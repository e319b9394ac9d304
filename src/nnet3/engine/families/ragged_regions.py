"""The parts of a ragged program: its sub-matrices by counts of rows, its loops, tables and precomputed entries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import NamedTuple

import numpy as np

from nnet3.base.index import IndexTable
from nnet3.engine.ir import commands as cmd
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.declarations import Command, with_operands
from nnet3.engine.ir.program_tables import SubMatrix
from nnet3.engine.ir.repeats import with_references_moved


def names_of_operands(command: Command) -> list[str]:
    """Returns the name of the field of each operand."""
    return [
        field.name
        for field in command.schema.operand_fields
        for _ in (getattr(command, field.name) if field.several else (None,))
    ]


@dataclass(frozen=True, eq=False)
class Regions:
    """The regions of a ragged program: its sub-matrices, as arrays (regions,).

    With count[i] existing rows among the first i of all indexes, region s begins at row start[s] + count[begin[s]] -
    count[origin[s]] of its matrix and has rows[s] + count[last[s]] - count[first[s]] rows; where `whole` is set it is
    all rows of its matrix.
    """

    matrix: np.ndarray
    start: np.ndarray
    rows: np.ndarray
    begin: np.ndarray
    origin: np.ndarray
    first: np.ndarray
    last: np.ndarray
    whole: np.ndarray
    column: np.ndarray
    columns: np.ndarray


ROWS_OF_REGIONS = ("start", "rows", "begin", "origin", "first", "last")


class DeclaredRegions:
    """Declares regions."""

    def __init__(self, computation: NnetComputation) -> None:
        self._computation = computation
        self._known: dict[tuple[int, ...], int] = {}
        self.rows: list[tuple[int, ...]] = []
        self.blocks: list[SubMatrix] = []
        self.plain(0, -1)

    def plain(self, number: int, start: int) -> int:
        """Returns the region of a sub-matrix with its first row at index `start`, -1 for one without samples."""
        block = self._computation.submatrices[number]
        if start < 0:
            return self._add(number, block.row_offset, block.num_rows, 0, 0, 0, 0)
        return self.limited(number, start, start)

    def limited(self, number: int, start: int, to: int, part: range | None = None) -> int:
        """Returns as many rows from the beginning of a part as remain of those from `to` on, by default of all."""
        block = self._computation.submatrices[number]
        part = part or range(block.num_rows)
        return self._add(number, 0, 0, start + part.start, start - block.row_offset, to, to + len(part))

    def whole(self, number: int) -> int:
        return self._add(number, 0, 0, 0, 0, 0, 0, whole=1)

    def _add(
        self, number: int, start: int, rows: int, begin: int, origin: int, first: int, last: int, whole: int = 0
    ) -> int:
        block = self._computation.submatrices[number]
        row = (block.matrix, start, rows, begin, origin, first, last, whole, *block[3:5])
        found = self._known.setdefault(row, len(self.rows))
        if found == len(self.rows):
            self.rows.append(row)
            self.blocks.append(block)
        return found

    def regions(self) -> Regions:
        return Regions(*np.array(self.rows, dtype=np.int64).T.copy())


class SideRows(NamedTuple):
    """Rows of one side of a kernel: the start among all indexes and the indexes."""

    start: int
    indexes: IndexTable


class UnlikeOperand(NamedTuple):
    """The start of an operand, and the start of equally many rows, at unequal times, of its kernel's output.

    `may_lack`: where the operand has no row, the kernel computes as if the row were zero.
    """

    start: int
    output: int
    num_rows: int
    may_lack: bool


@dataclass(frozen=True, eq=False)
class RaggedEntry:
    """The parts of a precomputed entry. `orders_rows`: the kernel may want rows in a changed order, or padded."""

    node: str
    runs_backward: bool
    orders_rows: bool
    inputs: SideRows
    outputs: SideRows


@dataclass(frozen=True, eq=False)
class SideTable:
    """A side table of a command and the starts of its rows.

    `own`: the start of the operand with a row for each entry, -1 without samples.
    """

    list_name: str
    number: int
    own: int
    count: int
    other: int | Mapping[int, int]  # of a multi table by region


@dataclass(frozen=True, eq=False)
class RaggedLoop:
    """A Repeat. Operand j of body command c is `operands[c][j]`: a region, or -1 - i for that of column i of `regions`.

    `regions` (iterations, columns): the region in each iteration.
    """

    repeat: cmd.Repeat
    body: tuple[Command, ...]
    operands: tuple[tuple[int, ...], ...]
    regions: np.ndarray
    first_number: int = 0  # of the sub-matrices of the columns
    alike: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))  # see `_columns_alike`

    def commands_of(self, iteration: int) -> Iterator[Command]:
        """Yields the commands of one iteration, with regions."""
        now = self.regions[iteration].tolist()
        for command, operands in zip(self.body, self.operands, strict=True):
            moved = with_operands(command, [now[-1 - s] if s < 0 else s for s in operands])
            yield with_references_moved(moved, self.repeat, iteration)


def loop_of(repeat: cmd.Repeat, iterations: Sequence[Sequence[Command]]) -> RaggedLoop | None:
    """Returns the loop of commands that are equal in all iterations but for operands; None for unequal commands."""
    columns: dict[bytes, int] = {}
    arrays: list[np.ndarray] = []
    body: list[Command] = []
    of_body: list[tuple[int, ...]] = []
    alike = [iterations[position :: repeat.length] for position in range(repeat.length)]
    if any(len(made) != len(of_iterations[0]) for of_iterations in alike for made in of_iterations):
        return None
    for each in chain.from_iterable(zip(*of_iterations, strict=True) for of_iterations in alike):
        first = each[0]
        if first.schema.table_fields or any(type(command) is not type(first) for command in each):
            return None
        operands = np.array([command.schema.operands(command) for command in each], dtype=np.int64)
        refs = []
        for column in operands.T:
            if (column == column[0]).all():
                refs.append(int(column[0]))
                continue
            number = columns.setdefault(column.tobytes(), len(arrays))
            if number == len(arrays):
                arrays.append(column)
            refs.append(-1 - number)
        body.append(first)
        of_body.append(tuple(refs))
    regions = np.stack(arrays, axis=1) if arrays else np.zeros((repeat.iterations, 0), np.int64)
    return RaggedLoop(replace(repeat, length=len(body)), tuple(body), tuple(of_body), regions)
