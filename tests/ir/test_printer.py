"""The printed text: every kind of command, compact lists, cut lists, broken references."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from nnet3.engine.ir import commands as cmd
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.declarations import Writes
from nnet3.engine.ir.program_tables import MatrixInfo
from tests.ir.every_command import COMMANDS, every_kind
from tests.ir.programs import command_types, index_table, multi_table, recurrence, training_step

TRAINING_STEP = """\
# 10 matrices, 33 commands, 2 segments
m1(6, 3) == value: input [ (0, 0:5) ]
m2(6, 3) == derivative: input [ (0, 0:5) ]
m3(4, 3) == value: affine_input [ (0, 0:3) ]
m4(4, 3) == value: affine [ (0, 0:3) ]
m5(4, 3) == value: sigmoid [ (0, 0:3) ]
m6(4, 3) == value: output [ (0, 0:3) ]
m7(4, 3) == derivative: affine_input [ (0, 0:3) ]
m8(4, 3) == derivative: affine [ (0, 0:3) ]
m9(4, 3) == derivative: sigmoid [ (0, 0:3) ]
m10(4, 3) == derivative: output [ (0, 0:3) ]
c0: m1 = zeros(6, 3)
c1: m2 = zeros(6, 3)
... 31 more commands"""


@pytest.mark.parametrize(("command", "text"), COMMANDS, ids=[type(c).__name__ for c, _ in COMMANDS])
def test_each_command_prints_as_a_line(command: cmd.Command, text: str) -> None:
    assert command.text(every_kind()) == text


def test_every_command_has_a_line() -> None:
    assert {type(command) for command, _ in COMMANDS} == command_types()


BROKEN = [
    (cmd.MatrixCopy(2, 17), "m2 = <no sub-matrix 17>"),
    (cmd.MatrixCopy(-1, 0), "<no sub-matrix -1> = []"),
    (cmd.AllocMatrix(99, zeroed=True), "<no sub-matrix 99> = zeros"),
    (cmd.CopyRows(2, 1, 5), "m2.CopyRows(1, m1[<no table 5>])"),
    (cmd.AddRowsMulti(2, 5), "m2.AddRowsMulti(1, [<no table 5>])"),
    (cmd.AddRowsMulti(2, 1), "m2.AddRowsMulti(1, [<no sub-matrix 40>])"),
    (cmd.AddRowRanges(2, 1, -1), "m2.AddRowRanges(1, m1, [<no table -1>])"),
    (cmd.CopyRows(2, 1, 1), "m2.CopyRows(1, m1[<table of shape (1, 2)>])"),
    (cmd.Propagate(12, "x", (1,), 2), "<no kernel 12>.Propagate(m1, &m2) [node x]"),
]


@pytest.mark.parametrize(("command", "text"), BROKEN)
def test_broken_references_still_print(command: cmd.Command, text: str) -> None:
    computation = every_kind()
    computation.index_tables.append(computation.multi_tables[multi_table(computation, [(40, 0)])])
    assert command.text(computation) == text


def test_a_computation_prints_matrices_and_commands() -> None:
    computation = training_step()
    assert computation.text(max_commands=2) == TRAINING_STEP
    printed = str(computation).splitlines()
    assert printed[-1] == "c32: m10 = []"
    assert len(printed) == 1 + len(computation.matrices[1:]) + len(computation.commands)
    (scatter,) = (line for line in printed if "m2.AddRows" in line)
    assert scatter == computation.numbered_command(21) == "c21: m2.AddRows(1, m7[-1x2, 0:3])"


def test_repr_is_one_line() -> None:
    assert repr(training_step()) == "<NnetComputation: 10 matrices, 33 commands, 2 segments>"


def test_outside_matrices() -> None:
    computation = training_step()
    computation.new_outside("W", 5, 40, False, MatrixInfo("W", False, None))
    computation.new_outside("gradient of W", 5, 40, True)
    assert [line for line in str(computation).splitlines() if line.startswith(("m11", "m12"))] == [
        "m11(5, 40) == value: W without samples in outside memory 'W' (read only)",
        "m12(5, 40) in outside memory 'gradient of W'",
    ]


def test_matrix_without_information() -> None:
    assert "\nm11(2, 3)\n" in str(recurrence(2))


def test_long_lists_are_cut() -> None:
    computation = NnetComputation()
    matrix = computation.new_matrix(100_000, 4)
    jumps = index_table(computation, list(range(0, 100_000, 2)))
    pairs = np.zeros((100_000, 2), dtype=np.int32)
    pairs[:, 0], pairs[:, 1] = matrix, np.arange(100_000)[::-1]
    table = multi_table(computation, pairs.tolist())
    assert len(cmd.CopyRows(matrix, matrix, jumps).text(computation)) < 80
    text = cmd.AddRowsMulti(matrix, table).text(computation)
    assert text.endswith("m1(99993, :), m1(99992, :), ... 100000 rows])")


def test_exactly_as_many_items_as_fit() -> None:
    computation = every_kind()
    eight = index_table(computation, [0, 2, 4, 6, 8, 6, 4, 2])
    assert "[0, 2, 4, 6, 8, 6, 4, 2]" in cmd.CopyRows(1, 2, eight).text(computation)
    none = index_table(computation, [])
    assert cmd.CopyRows(1, 2, none).text(computation) == "m1.CopyRows(1, m2[])"


def test_command_without_a_line_prints_its_fields() -> None:
    @dataclass(frozen=True)
    class Transpose(cmd.Command):
        dest: Writes

    assert Transpose(3).text(every_kind()).endswith("Transpose(m3)")
