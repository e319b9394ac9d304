"""A program for all lengths: numbers of rows are functions of k, the periods beyond the shortest length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from nnet3.engine.driver import CompileTask, compile_task, precompute_of
from nnet3.engine.families.continued import NotAffineError, TablePiece, continued
from nnet3.engine.families.family import ProgramFamily
from nnet3.engine.families.number_table import table_of
from nnet3.engine.families.precomputed import Precompute
from nnet3.errors import ExportError
from nnet3.export.blocks import Rectangle
from nnet3.export.extent import extent
from nnet3.export.program import Block, ExportProgram, TablePattern

_LONGER = "the rows that it names depend on the length in a way of their own: export a fixed chunk"
_MEMBERS = 3  # two say how rows go on, one confirms it


class FamilyProgram(ExportProgram):
    """The programs of a family. What recurs is in the body of a Repeat.

    Raises NotAffineError if the shortest programs are too short for that.
    """

    def __init__(self, family: ProgramFamily, precompute: Precompute) -> None:
        super().__init__([family.at(k, precompute) for k in range(_MEMBERS)])
        self._family = family
        kinds = [list(map(type, program.commands)) for program in self.members]
        if any(each != kinds[0] for each in kinds):
            raise NotAffineError("a recurrence does not iteration in the shortest one")

    @classmethod
    def of_tasks(cls, tasks: Sequence[CompileTask]) -> FamilyProgram:
        """Returns the common program of three tasks for consecutive lengths. Raises NotAffineError."""
        *members, confirming = map(compile_task, tasks)
        family = ProgramFamily(members)
        family.check(len(members), confirming)
        return cls(family, precompute_of(tasks[0]))

    def index_table(self, number: int) -> list[TablePattern]:
        return [_pattern(piece) for piece in self._pieces(f"index_tables {number}")]

    def multi_table(self, number: int) -> list[TablePattern]:
        patterns: list[TablePattern] = []
        for piece in self._pieces(f"multi_tables {number}"):
            patterns += _rows_of_blocks(piece)
        return patterns

    def _pieces(self, name: str) -> Iterator[TablePiece]:
        return self._family.tables.pieces(self._family.names.index(name))


def growing_patterns(tables: Sequence[np.ndarray]) -> list[TablePattern]:
    """Returns rows (rows,) for all lengths, of which these are the first. Raises ExportError for irregular rows."""
    try:
        made = continued([[table_of(rows)] for rows in tables])
    except NotAffineError:
        raise ExportError(_LONGER) from None
    return list(map(_pattern, made.pieces(0)))


def _pattern(piece: TablePiece) -> TablePattern:
    base, slope, step = (each[:, 0].tolist() for each in (piece.base, piece.slope, piece.step))
    return TablePattern(tuple(map(extent, base, slope)), tuple(step), extent(piece.iterations, piece.more_iterations))


def _rows_of_blocks(piece: TablePiece) -> Iterator[TablePattern]:
    """Yields patterns of rows of one block; the block holds exactly the rows in the pattern."""
    iterations = extent(piece.iterations, piece.more_iterations)
    if len(piece.labels) > 1 and piece.more_iterations:
        raise ExportError(_LONGER)
    for row in range(len(piece.labels)):
        base, slope, step = (each[row].tolist() for each in (piece.base, piece.slope, piece.step))
        if base[0] < 0:
            yield TablePattern((-1,), (0,), iterations, (None,))
            continue
        first, by = extent(base[1] + base[5], slope[1] + slope[5]), step[1] + step[5]
        last = first + (iterations - 1) * by
        low, high = (first, last) if by >= 0 else (last, first)
        block = Block(base[0], Rectangle(low, high + 1, base[3], base[3] + base[4]))
        yield TablePattern((first - low,), (by,), iterations, (block,))
