"""Operands, tables, numbers and names are read as they are written."""

from __future__ import annotations

import re

import numpy as np
import pytest

from nnet3.engine.ir import commands as cmd
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.parser import parse_computation
from nnet3.errors import ConfigError
from tests.ir.every_command import every_kind
from tests.ir.program_text import read_again
from tests.ir.programs import index_table, multi_table, range_table, training_step


def test_lists_are_whole_and_numbers_exact() -> None:
    c = training_step()
    every_other = index_table(c, list(range(0, 6, 2)) * 50)
    c.commands += [cmd.CopyRows(1, 2, every_other, 1 / 3), cmd.SetConst(1, float("inf"))]
    text = c.text(full=True)
    assert "0.3333333333333333" in text
    assert "..." not in text
    read_again(c)


def test_rows_of_a_table_are_those_of_the_sub_matrix_it_names() -> None:
    """A table may name some rows of a larger block, all of which count as read."""
    c = training_step()
    top = c.new_submatrix(1, 0, 4)
    c.commands.append(cmd.AddRowsMulti(3, multi_table(c, [(top, 0), (top, 1), (1, 5), (-1, -1)])))
    assert c.text(full=True).endswith("m3.AddRowsMulti(1, [m1(0:3, :)[0:1], m1[5], -1])")
    read_again(c)


def test_loops_with_even_and_uneven_steps() -> None:
    c = NnetComputation()
    matrix = c.new_matrix(20, 4)
    whole = c.submatrices[matrix]
    down, up = (c.find_or_add(whole._replace(row_offset=at, num_rows=2, row_step=by)) for at, by in ((0, 2), (18, -1)))
    top = c.new_submatrix(matrix, 0, 3)
    uneven = c.add_submatrices(np.array([whole._replace(num_rows=3)]))
    c.iterations[uneven] = np.array([[0, 3], [3, 3], [6, 2]])
    c.commands = [cmd.Repeat(3, 3), cmd.MatrixAdd(down, up), cmd.SetConst(uneven, 0.0), cmd.SetConst(down, 1.0)]
    c.commands.append(cmd.SetConst(top, 1.0))
    assert c.text(full=True).splitlines()[1:] == [
        "repeat 3 times, i = 0:2, the next 3 commands",
        "  m1(0:1 + 2i, :) += m1(18:19 - i, :)",
        "  m1(0:2 then 3:5 then 6:7, :).set(0)",
        "  m1(0:1 + 2i, :).set(1)",
        "m1(0:2, :).set(1)",
    ]
    read_again(c)


def test_tables_of_all_kinds() -> None:
    c = every_kind()
    c.commands = [cmd.AddRowRanges(2, 1, range_table(c, [(3, 3), (0, 0), (0, 9)] * 5))]
    read_again(c)


BEGIN = """\
kernel affine [] of []
m1(4, 3)
m2(4, 3)
"""
ERRORS = {
    "m1 = m3": "4:6: expected a matrix with a line of its own above, such as 'm3(4, 3)', got 'm3'",
    "m1 = m2(0:4, :)": "4:9: expected a range within 0:3, got '0:4, :)'",
    "m1 = m2(3:2, :)": "4:9: expected a range whose last number is not below its first, got '3:2, :)'",
    "m1 += x * m2": "4:7: expected a number or a sub-matrix such as m1 or m1(0:9, :), got 'x * m2'",
    "m1.AddRows(1, m2[0, 1, ... 9 rows])": "4:24: expected the whole list, as text(full=True) writes it",
    "m1.AddRows(1, m2[0, x])": "4:21: expected a whole number, got 'x])'",
    "m1.AddRows(1, m2[0; 1])": "4:19: expected ', ' or ']', got '; 1])'",
}


@pytest.mark.parametrize(("line", "message"), ERRORS.items(), ids=ERRORS.keys())
def test_an_error_says_where_what_was_expected_and_what_was_got(line: str, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"small.txt:{message}")):
        parse_computation(BEGIN + line, "small.txt")
