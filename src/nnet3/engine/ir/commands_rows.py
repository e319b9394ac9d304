"""Commands that copy and add matrices and rows of matrices."""

from __future__ import annotations

from dataclasses import dataclass

from nnet3.engine.ir.declarations import (
    AccessMode,
    Command,
    IndexList,
    RangeList,
    Reads,
    ReadsRowsOf,
    Real,
    Updates,
    UpdatesRowsOf,
    Writes,
)
from nnet3.engine.ir.program_tables import ProgramTables
from nnet3.engine.ir.proof.field import Elements, scaled, sums_of_ranges, taken
from nnet3.engine.ir.proof.machine import Machine
from nnet3.engine.ir.shape_rules import (
    Problems,
    no_row_twice,
    one_entry_a_row,
    ranges_exist,
    rows_exist,
    rows_of_submatrices,
    same_columns,
    same_shape,
)


@dataclass(frozen=True)
class _Moving(Command):
    """Base of commands with rows for `dest`: declared as Writes it is overwritten, as Updates added to."""

    dest: Writes

    def move(self, machine: Machine, rows: Elements) -> None:
        """Write the rows to the destination, or add them."""
        adds = self.schema.accessed[0][1] is AccessMode.UPDATE
        (machine.add if adds else machine.write)(self.dest, rows)


@dataclass(frozen=True)
class _FromMatrix(_Moving):
    """Base of commands that take all rows of a single source."""

    source: Reads
    scale: Real = 1.0

    def problems(self, computation: ProgramTables) -> Problems:
        return same_shape(computation, dest=self.dest, source=self.source)

    def evaluate(self, machine: Machine) -> None:
        self.move(machine, scaled(machine.read(self.source), self.scale))


@dataclass(frozen=True)
class MatrixCopy(_FromMatrix):
    """dest = scale * source."""

    line = "{dest} = {scale:{} * }{source}"


@dataclass(frozen=True)
class MatrixAdd(_FromMatrix):
    """dest += scale * source."""

    dest: Updates

    line = "{dest} += {scale:{} * }{source}"


@dataclass(frozen=True)
class _FromIndexes(_Moving):
    """Base of commands that take rows of one source by an index list."""

    source: Reads
    indexes: IndexList
    scale: Real = 1.0

    line = "{dest}.{class}({scale}, {source}{indexes})"

    def problems(self, computation: ProgramTables) -> Problems:
        yield from same_columns(computation, dest=self.dest, source=self.source)
        indexes = computation.index_tables[self.indexes]
        yield from one_entry_a_row(computation, "index", indexes, dest=self.dest)
        yield from rows_exist(computation, indexes, self.source)

    def evaluate(self, machine: Machine) -> None:
        """Move the row of the source for each row, zeros for none."""
        indexes = machine.computation.index_tables[self.indexes]
        self.move(machine, scaled(taken(machine.read(self.source), indexes), self.scale))


@dataclass(frozen=True)
class CopyRows(_FromIndexes):
    """dest[i] = scale * source[indexes[i]], or zero where indexes[i] is -1."""


@dataclass(frozen=True)
class AddRows(_FromIndexes):
    """dest[i] += scale * source[indexes[i]] where indexes[i] is not -1."""

    dest: Updates


@dataclass(frozen=True)
class _Gather(_Moving):
    """Base of commands that gather rows of several sub-matrices by a multi table."""

    table: ReadsRowsOf
    scale: Real = 1.0

    line = "{dest}.{class}({scale}, {table})"

    def problems(self, computation: ProgramTables) -> Problems:
        return rows_of_submatrices(computation, self.table, dest=self.dest)

    def evaluate(self, machine: Machine) -> None:
        self.move(machine, scaled(machine.rows_of_table(self.table), self.scale))


@dataclass(frozen=True)
class CopyRowsMulti(_Gather):
    """dest[i] = scale * (row of some sub-matrix, by table), or zero where the table has -1."""


@dataclass(frozen=True)
class AddRowsMulti(_Gather):
    """dest[i] += scale * (row of some sub-matrix, by table)."""

    dest: Updates


@dataclass(frozen=True)
class AddToRowsMulti(Command):
    """(row of some sub-matrix, by table) += scale * source[i]; the table names no row twice."""

    source: Reads
    table: UpdatesRowsOf
    scale: Real = 1.0

    line = "{source}.{class}({scale}, {table})"

    def problems(self, computation: ProgramTables) -> Problems:
        yield from rows_of_submatrices(computation, self.table, source=self.source)
        yield from no_row_twice(computation, self.table)

    def evaluate(self, machine: Machine) -> None:
        machine.add_to_rows(self.table, scaled(machine.read(self.source), self.scale))


@dataclass(frozen=True)
class AddRowRanges(_Moving):
    """dest[i] += scale * sum of source[first_i : end_i]; an empty range adds nothing."""

    dest: Updates
    source: Reads
    ranges: RangeList
    scale: Real = 1.0

    line = "{dest}.{class}({scale}, {source}, {ranges})"

    def problems(self, computation: ProgramTables) -> Problems:
        yield from same_columns(computation, dest=self.dest, source=self.source)
        ranges = computation.range_tables[self.ranges]
        yield from one_entry_a_row(computation, "range", ranges, dest=self.dest)
        yield from ranges_exist(computation, ranges, self.source)

    def evaluate(self, machine: Machine) -> None:
        sums = sums_of_ranges(machine.read(self.source), machine.computation.range_tables[self.ranges])
        self.move(machine, scaled(sums, self.scale))
