"""RowPlanner: plans a program whose row numbers and index tables are parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import Enum, auto
from typing import Any, ClassVar, cast

import numpy as np

from nnet3.engine.families.continued import NotAffineError
from nnet3.engine.families.polynomial import Polynomial
from nnet3.engine.ir import commands as cmd
from nnet3.engine.ir.computation import NnetComputation, RowNumbers
from nnet3.engine.ir.objects import Distinct
from nnet3.engine.runtime.planner import Planner, Rule

#: They take the place of integers.
_parameter = cast(Callable[[int], Any], Polynomial)


def with_parameters(computation: NnetComputation) -> NnetComputation:
    """Returns the program with parameters as its row numbers, in the order of `parameters_of`.

    Outside matrices have their rows.
    """
    fixed = {0, *computation.outside_by_matrix()}
    blocks = [
        block
        if block.matrix in fixed
        else block._replace(row_offset=_parameter(2 * number), num_rows=_parameter(2 * number + 1))
        for number, block in enumerate(computation.submatrices)
    ]
    matrices = [
        matrix if number in fixed else matrix._replace(num_rows=_parameter(2 * len(blocks) + number))
        for number, matrix in enumerate(computation.matrices)
    ]
    return replace(computation, submatrices=blocks, matrices=matrices, row_numbers=None)


def parameters_of(rows: RowNumbers) -> np.ndarray:
    """Returns the parameters of a program: of blocks and matrices, and the number of known rows in each table."""
    known = [np.count_nonzero(table >= 0) for table in rows.index_tables]
    return np.concatenate([rows.blocks.ravel(), rows.matrices, np.array(known, dtype=np.int64)])


class TableSelection(Enum):
    """A selection of an index table: all of it, its rows but -1, the positions of these rows, the positions of -1."""

    ALL = auto()
    SOURCE = auto()
    DEST = auto()
    MISSING = auto()

    def of(self, table: np.ndarray) -> np.ndarray:
        """Returns what is selected of a table, int64."""
        if self is TableSelection.ALL:
            return table.astype(np.int64)
        is_known = table >= 0
        if self is TableSelection.SOURCE:
            return table[is_known].astype(np.int64)
        return np.flatnonzero(is_known if self is TableSelection.DEST else ~is_known)


def _by_table(command: cmd.CopyRows | cmd.AddRows, planner: Planner) -> None:
    """Plans a copy or an addition of rows for all tables that lack rows if the program's does."""
    assert isinstance(planner, RowPlanner)
    adds, scale, table = isinstance(command, cmd.AddRows), command.scale, command.indexes
    dest, source = planner.view(command.dest), planner.view(command.source)
    has_all = bool((planner.computation.index_tables[table] >= 0).all())
    if has_all and not adds:
        planner.call("select rows", dest, source, planner.index_of(table, TableSelection.ALL))
        if scale != 1:
            planner.call("scale", dest, number=scale)
        return
    planner.release_scratch()
    num_rows = planner.block(command.dest).num_rows if has_all else planner.rows_of(table)
    selected = planner.scratch(num_rows, planner.block(command.source).num_cols)
    selection = TableSelection.ALL if has_all else TableSelection.SOURCE
    planner.call("select rows", selected, source, planner.index_of(table, selection))
    if has_all:
        planner.call("add" if scale == 1 else "scaled add", dest, selected, number=scale)
        return
    rows = planner.index_of(table, TableSelection.DEST)
    if adds and planner.address(command.dest)[2] == planner.block(command.dest).num_cols:
        planner.call("add to rows", dest, rows, selected, number=scale)
        return
    if adds:  # adding by index is slow where rows are apart
        sums = planner.scratch(num_rows, planner.block(command.dest).num_cols)
        planner.call("select rows", sums, dest, rows)
        planner.call("add" if scale == 1 else "scaled add", sums, selected, number=scale)
        planner.call("copy to rows", dest, rows, sums)
        return
    if scale != 1:
        planner.call("scale", selected, number=scale)
    planner.call("zero rows", dest, planner.index_of(table, TableSelection.MISSING))
    planner.call("copy to rows", dest, rows, selected)


class RowPlanner(Planner):
    """A planner whose indexes are selections of the program's index tables, see `selections`."""

    numbers = object
    own_rules: ClassVar[Mapping[type[cmd.Command], Rule]] = {cmd.CopyRows: _by_table, cmd.AddRows: _by_table}

    def __init__(self, computation: NnetComputation, dtype: str) -> None:
        super().__init__(with_parameters(computation), dtype)
        self.selections = Distinct[tuple[int, TableSelection]]()  # table and selection of each index
        self._first_table = 2 * len(computation.submatrices) + len(computation.matrices)

    def index_of(self, table: int, selection: TableSelection) -> int:
        """Returns the number of a selection of an index table."""
        return self.selections.number_of((table, selection))

    def index(self, rows: np.ndarray) -> int:
        raise NotAffineError("rows are given by another table than an index table")

    def rows_of(self, table: int) -> Any:
        """Returns how many rows an index table knows."""
        return _parameter(self._first_table + table)
