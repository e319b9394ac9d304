"""Regions: where a sub-matrix lies and how many rows it has, by counts of the rows that exist; loops of regions."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3.engine.families.ragged_regions import DeclaredRegions, Regions, loop_of
from nnet3.engine.ir import commands as cmd
from nnet3.engine.ir.computation import NnetComputation
from tests.ir.programs import node_matrix

#: Rows 0 to 7 of all indexes: those of matrix x; the ones that exist.
EXISTS = np.array([1, 1, 0, 1, 1, 0, 0, 1])


def declared() -> tuple[NnetComputation, DeclaredRegions, int]:
    """A matrix of 8 rows, of which a sub-matrix takes rows 2 to 5."""
    c = NnetComputation()
    x = node_matrix(c, "x", 8)
    return c, DeclaredRegions(c), c.new_submatrix(x, 2, 4)


def rows_of(regions: Regions, region: int) -> tuple[int, int]:
    """The first row and the number of rows by the formula of the docstring."""
    count = np.concatenate([[0], np.cumsum(EXISTS)])
    start = regions.start[region] + count[regions.begin[region]] - count[regions.origin[region]]
    return int(start), int(regions.rows[region] + count[regions.last[region]] - count[regions.first[region]])


def test_rows_that_exist_are_counted() -> None:
    _, table, block = declared()
    plain, fixed, limited = table.plain(block, 2), table.plain(block, -1), table.limited(block, 2, 4)
    regions = table.regions()
    assert rows_of(regions, plain) == (2, 2)  # rows 3 and 4 of 2..5, behind rows 0 and 1
    assert rows_of(regions, fixed) == (2, 4)
    assert rows_of(regions, limited) == (2, 2)  # as many as there are of rows 4 to 7
    assert (regions.column[plain], regions.columns[plain]) == (0, 3)


def test_a_part_of_a_block_is_counted_too() -> None:
    _, table, block = declared()
    last, fewer = table.limited(block, 2, 4, range(2, 4)), table.limited(block, 2, 5, range(1, 4))
    regions = table.regions()
    assert rows_of(regions, last) == (3, 1)  # row 4 of 4 and 5, behind rows 0, 1 and 3; as many as there are of 4 and 5
    assert rows_of(regions, fewer) == (2, 1)  # as many as there are of rows 5, 6 and 7


def test_equal_regions_are_declared_once() -> None:
    _, table, block = declared()
    assert table.plain(block, 2) == table.plain(block, 2) != table.whole(block)
    assert table.regions().whole.tolist() == [0, 0, 1]


def test_iterations_that_differ_in_their_operands_are_a_loop() -> None:
    iterations = [[cmd.MatrixCopy(dest, 9), cmd.MatrixAdd(9, dest)] for dest in (4, 5, 7)]
    loop = loop_of(cmd.Repeat(3, 2), [[command] for iteration in iterations for command in iteration])
    assert loop is not None
    assert loop.regions.tolist() == [[4], [5], [7]]
    assert [list(loop.commands_of(iteration)) for iteration in range(3)] == iterations


def test_a_command_may_have_become_several() -> None:
    iterations = [[cmd.SetConst(dest, 0.0), cmd.MatrixCopy(dest, 9), cmd.MatrixAdd(9, dest)] for dest in (4, 5)]
    loop = loop_of(cmd.Repeat(2, 2), [each for iteration in iterations for each in (iteration[:2], iteration[2:])])
    assert loop is not None
    assert loop.repeat.length == 3
    assert [list(loop.commands_of(iteration)) for iteration in range(2)] == iterations


@pytest.mark.parametrize(
    "other", [[], [cmd.MatrixAdd(5, 9)], [cmd.MatrixCopy(5, 9)] * 2], ids=["nothing", "another command", "two"]
)
def test_iterations_with_other_commands_are_none(other: list[cmd.Command]) -> None:
    assert loop_of(cmd.Repeat(2, 1), [[cmd.MatrixCopy(4, 9)], other]) is None
