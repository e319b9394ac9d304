"""The printed form: every kind of command, compact lists, cut lists, broken references."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from nnet3.ir import commands as cmd
from nnet3.ir.computation import NnetComputation
from nnet3.ir.declarations import Writes
from nnet3.ir.program_tables import MatrixInfo
from tests.ir.programs import command_types, index_table, multi_table, range_table, recurrence, training_step
from tests.ir.toy_kernels import AFFINE, CENTRE, KERNELS, PRODUCT

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


def _computation() -> NnetComputation:
    c = NnetComputation(kernels=list(KERNELS), num_memos=4, precomputed=[None, {}])
    for _ in range(4):
        c.new_matrix(10, 40)  # sub-matrices 1 to 4, each all of m1 to m4
    c.new_submatrix(1, 0, 10, 20, 20)  # 5
    c.new_submatrix(1, 2, 5)  # 6
    c.new_submatrix(2, 3, 1, 7, 1)  # 7
    index_table(c, [0, 1, 2, -1, -1, 7, 9, 8, 7, -1])
    multi_table(c, [(1, 0), (1, 1), (6, 3), (-1, -1), (-1, -1), (7, 0), (3, 4), (3, 5), (3, 6), (4, 0)])
    range_table(c, [(0, 3), (3, 3), (3, 4), (4, 9), (9, 9), (9, 10), (0, 0), (0, 0), (0, 0), (0, 1)])
    return c


ROW_LIST = "[0:2, -1x2, 7, 9, 8, 7, -1]"
MULTI_LIST = "[m1(0:1, :), m1(5, :), -1x2, m2(3, 7), m3(4:6, :), m4(0, :)]"
COMMANDS = [
    (cmd.AllocMatrix(1, zeroed=True), "m1 = zeros(10, 40)"),
    (cmd.AllocMatrix(1, zeroed=False), "m1 = undefined(10, 40)"),
    (cmd.DeallocMatrix(2), "m2 = []"),
    (cmd.SetConst(6, 0.5), "m1(2:6, :).set(0.5)"),
    (cmd.CompressMatrix(3), "m3.compress()"),
    (cmd.DecompressMatrix(3), "m3.decompress()"),
    (cmd.Propagate(AFFINE, "affine", (1,), 2), "affine.Propagate(m1, &m2)"),
    (cmd.Propagate(AFFINE, "affine", (), 2, 1), "affine.Propagate((), &m2) [precomputed 1]"),
    (
        cmd.Propagate(PRODUCT, "gate", (1, 2), 3, memo=2, store_stats=True),
        "product.Propagate((m1, m2), &m3) [node gate, memo 2, store stats]",
    ),
    (cmd.PropagateAgain(AFFINE, "affine", (1,), 2, memo=3), "affine.Propagate(m1, &m2) [memo 3] again"),
    (
        cmd.Backprop(AFFINE, "affine", (1,), 0, 2, (3,), (0,), update=True),
        "affine.Backprop(m1, [], m2, &m3) [update]",
    ),
    (
        cmd.Backprop(PRODUCT, "gate", (1, 2), 3, 4, (5, 0), (0, 0), update=False, precomputed=1, memo=0),
        "product.Backprop((m1, m2), m3, m4, (&m1(:, 20:39), [])) [node gate, precomputed 1, memo 0]",
    ),
    (
        cmd.Backprop(PRODUCT, "product", (1, 2), 0, 4, (5, 0), (0, 3), update=False),
        "product.Backprop((m1, m2), [], m4, (&m1(:, 20:39), += m3))",
    ),
    (
        cmd.Backprop(AFFINE, "affine", (1,), 0, 2, (0,), (3,), update=True),
        "affine.Backprop(m1, [], m2, += m3) [update]",
    ),
    (cmd.Backprop(CENTRE, "centre", (0,), 0, 1, (0,), (0,), update=False), "centre.Backprop([], [], m1, [])"),
    (cmd.MatrixCopy(2, 1), "m2 = m1"),
    (cmd.MatrixCopy(6, 1, -2.0), "m1(2:6, :) = -2 * m1"),
    (cmd.MatrixAdd(2, 5, 0.5), "m2 += 0.5 * m1(:, 20:39)"),
    (cmd.MatrixAdd(7, 7), "m2(3, 7) += m2(3, 7)"),
    (cmd.CopyRows(2, 1, 0), f"m2.CopyRows(1, m1{ROW_LIST})"),
    (cmd.AddRows(2, 6, 0, 0.25), f"m2.AddRows(0.25, m1(2:6, :){ROW_LIST})"),
    (cmd.CopyRowsMulti(2, 0), f"m2.CopyRowsMulti(1, {MULTI_LIST})"),
    (cmd.AddRowsMulti(2, 0), f"m2.AddRowsMulti(1, {MULTI_LIST})"),
    (cmd.AddToRowsMulti(2, 0, 2.0), f"m2.AddToRowsMulti(2, {MULTI_LIST})"),
    (cmd.AddRowRanges(2, 1, 0), "m2.AddRowRanges(1, m1, [0:2, -, 3, 4:8, -, 9, -, -, ... 10 rows])"),
    (cmd.AcceptInput(1, "input"), "m1 = user input [for node: 'input']"),
    (cmd.ProvideOutput(1, "out"), "output m1 to user [for node: 'out']"),
    (cmd.Repeat(9, 3), "repeat 9 times, i = 0:8, the next 3 commands"),
    (
        cmd.Repeat(9, 3, memo_step=-2, precomputed_step=1),
        "repeat 9 times, i = 0:8, the next 3 commands [memo -2i, precomputed +1i]",
    ),
    (cmd.SegmentMarker(), "[end of segment]"),
]


@pytest.mark.parametrize(("command", "text"), COMMANDS, ids=[type(c).__name__ for c, _ in COMMANDS])
def test_each_command_prints_as_a_line(command: cmd.Command, text: str) -> None:
    assert command.text(_computation()) == text


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
    computation = _computation()
    computation.index_tables.append(computation.multi_tables[multi_table(computation, [(40, 0)])])
    assert command.text(computation) == text


def test_a_computation_prints_matrices_and_commands() -> None:
    computation = training_step()
    assert computation.text(max_commands=2) == TRAINING_STEP
    printed = str(computation).splitlines()
    assert printed[-1] == "c32: m10 = []"
    assert len(printed) == 1 + 10 + 33
    assert printed[11 + 21] == computation.numbered_command(21) == "c21: m2.AddRows(1, m7[-1x2, 0:3])"


def test_repr_is_one_line() -> None:
    assert repr(training_step()) == "<NnetComputation: 10 matrices, 33 commands, 2 segments>"


def test_outside_matrices_and_dtypes() -> None:
    computation = training_step()
    computation.new_outside("W", 5, 40, False, MatrixInfo("W", False, None), dtype="bfloat16")
    computation.new_outside("gradient of W", 5, 40, True)
    assert str(computation).splitlines()[11:13] == [
        "m11(5, 40, bfloat16) == value: W without samples in outside memory 'W' (read only)",
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
    computation = _computation()
    eight = index_table(computation, [0, 2, 4, 6, 8, 6, 4, 2])
    assert "[0, 2, 4, 6, 8, 6, 4, 2]" in cmd.CopyRows(1, 2, eight).text(computation)
    none = index_table(computation, [])
    assert cmd.CopyRows(1, 2, none).text(computation) == "m1.CopyRows(1, m2[])"


def test_command_without_a_line_prints_its_fields() -> None:
    @dataclass(frozen=True)
    class Transpose(cmd.Command):
        dest: Writes

    assert Transpose(3).text(_computation()).endswith("Transpose(dest=3)")
