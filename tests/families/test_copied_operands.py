"""Copied operands: kernels in loops get rows of other times from a matrix for one iteration, and send them back so."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from nnet3.base.index import NO_TIME, N, T
from nnet3.engine.families.copied_operands import with_copied_operands
from nnet3.engine.families.operand_rows import OperandRows
from nnet3.engine.families.ragged_regions import UnlikeOperand
from nnet3.engine.families.ragged_rows import IndexRows
from nnet3.engine.ir import commands as cmd
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.kernel import InputPromises, KernelInfo
from nnet3.engine.ir.program_tables import MatrixInfo, SubMatrix
from nnet3.engine.ir.repeats import unrolled

ROWS = 2  # of an iteration


def loop() -> NnetComputation:
    """A kernel forward and backward in each of three iterations, from two rows of m1 or m3 to the next of m2 or m4."""
    c = NnetComputation(kernels=[KernelInfo("k", (InputPromises(),), row_by_row=True)])
    indexes = np.array([(n, t, 0) for t in range(4) for n in range(ROWS)], np.int32)
    for node in ("x", "y", "dx", "dy"):
        c.new_matrix(len(indexes), 3, MatrixInfo(node, node.startswith("d"), indexes))
    x, y, dx, dy = (c.find_or_add(SubMatrix(m, r, ROWS, 0, 3, ROWS)) for m, r in ((1, 0), (2, ROWS), (3, 0), (4, ROWS)))
    c.commands = [
        cmd.Repeat(3, 3),
        cmd.Propagate(0, "k", (x,), y),
        cmd.Backprop(0, "k", (x,), 0, dy, (dx,), (0,), update=False),
        cmd.Backprop(0, "k", (0,), 0, dy, (0,), (dx,), update=False),
    ]
    return c


def copied(c: NnetComputation, *operands: dict[int, bool]) -> NnetComputation:
    """With copies of these operands of each command of the body; False for those of which no copy can be made."""
    whole = unrolled(c)
    unlike = dict(enumerate(operands))
    asked = SimpleNamespace(computation=whole, unlike=unlike, can_copy=bool)
    return with_copied_operands(c, asked)  # type: ignore[arg-type]


def test_reads_are_copied_before_writes_and_additions_after() -> None:
    result = copied(loop(), {0: True}, {3: True}, {4: True})
    assert str(result).splitlines()[-14:] == [
        "c0: m5 = undefined(2, 3)",
        "c1: m6 = undefined(2, 3)",
        "c2: m7 = undefined(2, 3)",
        "c3: repeat 3 times, i = 0:2, the next 7 commands",
        "  c4: m5 = m1(0:1 + 2i, :)",
        "  c5: k.Propagate(m5, &m2(2:3 + 2i, :))",
        "  c6: k.Backprop(m1(0:1 + 2i, :), [], m4(2:3 + 2i, :), &m6)",
        "  c7: m3(0:1 + 2i, :) = m6",
        "  c8: m7.set(0)",
        "  c9: k.Backprop([], [], m4(2:3 + 2i, :), += m7)",
        "  c10: m3(0:1 + 2i, :) += m7",
        "c11: m5 = []",
        "c12: m6 = []",
        "c13: m7 = []",
    ]
    info = result.matrix_info[6]
    assert (info.node, info.is_deriv) == ("dx", True)
    assert info.indexes is not None
    assert info.indexes[:, N].tolist() == [0, 1]
    assert (info.indexes[:, T] == NO_TIME).all()


def test_a_program_without_such_operands_is_returned_as_it_is() -> None:
    c = loop()
    assert copied(c) is c
    assert copied(c, {0: False}) is c


@pytest.mark.parametrize(
    ("place", "output", "may_lack", "expected"),
    [(0, 2, False, True), (2, 0, False, False), (2, 0, True, True), (1, 2, True, False)],
)
def test_a_copy_must_have_all_rows_that_the_kernel_works_on(
    place: int, output: int, may_lack: bool, expected: bool
) -> None:
    """Rows of an earlier time exist longer; rows of other sequences are none."""
    c = loop()
    rows = IndexRows(c, lambda info: 3 - info.indexes[:, T].astype(np.int64), {})  # type: ignore[index]
    operands = OperandRows(NnetComputation(), rows)
    assert operands.can_copy(UnlikeOperand(place, output, 2 * ROWS, may_lack)) is expected
