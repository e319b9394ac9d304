"""Programs as the translation sees them: commands, areas of blocks, rows named by tables."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from nnet3.base.options.compiling import CompileOptions
from nnet3.engine.ir.commands import Repeat
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.declarations import Access, Command
from nnet3.export.blocks import Rectangle
from nnet3.export.extent import Extent, extent

#: Files hold weights as constants, in whatever order: nothing has to be packed.
EXPORTED = CompileOptions(disabled_passes=frozenset({"pack_weights"}))


class Block(NamedTuple):
    """A sub-matrix; in iteration i of a loop it lies i * row_step rows further down."""

    matrix: int
    area: Rectangle
    row_step: int = 0

    @property
    def rows(self) -> Extent:
        return self.area.rows

    @property
    def columns(self) -> int:
        return self.area.right - self.area.left


class TablePattern(NamedTuple):
    """Row numbers: entry j of iteration i is first[j] + i * step[j]; -1, with step 0, is no row.

    `blocks` has for every j the block of the row, in a table of rows of several blocks.
    """

    first: tuple[Extent, ...]
    step: tuple[int, ...]
    iterations: Extent
    blocks: tuple[Block | None, ...] = ()


Arrays = Mapping[str, np.ndarray]


class ExportProgram(abc.ABC):
    """A program for one sequence. `members`: the programs of one length, or of the first three of many lengths.

    `outside` has the name and the sub-matrix of each matrix bound from outside.
    """

    def __init__(self, members: Sequence[NnetComputation]) -> None:
        self.members = members
        self.shortest, self._next = members[0], members[min(1, len(members) - 1)]
        self.commands: Sequence[Command] = self.shortest.commands
        self.outside = [(bound.name, bound.submatrix) for bound in self.shortest.outside]

    def accesses(self, command: Command) -> Sequence[Access]:
        return command.accesses(self.shortest)

    def kernel_name(self, kernel: int) -> str:
        return self.shortest.kernels[kernel].name

    def block(self, submatrix: int) -> Block:
        matrix, top, rows, column, columns, row_step = self.shortest.submatrices[submatrix]
        longer = self._next.submatrices[submatrix]
        first, number = extent(top, longer.row_offset - top), extent(rows, longer.num_rows - rows)
        return Block(matrix, Rectangle(first, first + number, column, column + columns), row_step)

    def iterations(self, position: int) -> Extent:
        """Returns the iterations of the Repeat at a position."""
        short, long = self.commands[position], self._next.commands[position]
        assert isinstance(short, Repeat)
        assert isinstance(long, Repeat)
        return extent(short.iterations, long.iterations - short.iterations)

    def precomputed(self, number: int) -> Sequence[Arrays]:
        """Returns arrays for each of the members."""
        found = [program.precomputed[number] for program in self.members]
        return [arrays for arrays in found if arrays is not None]

    @abc.abstractmethod
    def index_table(self, number: int) -> list[TablePattern]: ...

    @abc.abstractmethod
    def multi_table(self, number: int) -> list[TablePattern]: ...


class FixedProgram(ExportProgram):
    """A computation for one length."""

    def __init__(self, computation: NnetComputation) -> None:
        super().__init__([computation])

    def index_table(self, number: int) -> list[TablePattern]:
        return row_patterns(self.shortest.index_tables[number])

    def multi_table(self, number: int) -> list[TablePattern]:
        table = self.shortest.multi_tables[number]
        changes = np.flatnonzero(np.diff(table[:, 0])) + 1
        patterns: list[TablePattern] = []
        for part in np.split(table, changes):
            block = self.block(int(part[0, 0])) if part[0, 0] >= 0 else None
            patterns += [pattern._replace(blocks=(block,)) for pattern in row_patterns(part[:, 1])]
        return patterns


def row_patterns(rows: np.ndarray) -> list[TablePattern]:
    """Returns rows as runs of constant steps.

    >>> [(*run.first, *run.step, run.iterations) for run in row_patterns(np.array([3, 4, 5, 9, -1, -1, 7]))]
    [(3, 1, 3), (9, 0, 1), (-1, 0, 2), (7, 0, 1)]
    """
    runs: list[TablePattern] = []
    steps = np.diff(rows)
    is_row = rows >= 0
    start = 0
    while start < len(rows):
        step = int(steps[start]) if start + 1 < len(rows) and is_row[start] == is_row[start + 1] else None
        end = start + 1
        if step is not None:
            goes_on = (steps[start:] == step) & (is_row[start + 1 :] == is_row[start])
            end = start + 1 + (len(goes_on) if goes_on.all() else int(np.argmin(goes_on)))
        if end == start + 2 and end < len(rows) and step not in (0, 1):
            end, step = start + 1, None  # two rows are no run
        runs.append(TablePattern((int(rows[start]),), (step if end > start + 1 and step else 0,), end - start))
        start = end
    return runs
