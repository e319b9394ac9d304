"""Rows by the times at which kernels look: the same whatever the order of rows is, and another one for other rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from nnet3.base.index import T, X
from nnet3.engine.ir.commands import (
    AcceptInput,
    AllocMatrix,
    Backprop,
    CopyRows,
    DeallocMatrix,
    Propagate,
    ProvideOutput,
)
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.kernel import InputPromises, KernelInfo
from nnet3.engine.ir.program_tables import IoInfo, KernelRows, MatrixInfo
from nnet3.engine.ir.proof.equal import PassResult, prove_equal
from nnet3.errors import ProofError

KERNEL = KernelInfo("conv", (InputPromises(),), needs_indexes=True)
TIMES = np.array([0, 1, 2, 3, 4])  # of the input; the output has 1, 2, 3


def looks_at(node: str, outputs: np.ndarray) -> np.ndarray:
    """At the times before and behind the own one."""
    looked = np.repeat(outputs[:, np.newaxis], 2, axis=1)
    looked[:, :, T] += [-1, 1]
    return looked


def program(
    order: list[int], more: int = 0, says: list[int] | None = None, back: list[int] | None = None, later: int = 0
) -> NnetComputation:
    """x -> conv -> y and back, with the rows of the input in this order, and further ones at which nobody looks.

    `says`: the order that the matrices claim to have. `back`: the rows that derivatives are taken from. `later`: is
    added to all times.
    """
    c = NnetComputation(kernels=[KERNEL])

    def matrix(node: str, times: np.ndarray, is_deriv: bool = False) -> int:
        indexes = np.zeros((len(times), 3), np.int32)
        indexes[:, T] = times + later
        return c.new_matrix(len(times), 4, MatrixInfo(node, is_deriv, indexes))

    own = np.append(TIMES[says or order], 100 + np.arange(more))
    x, inner, y, dy = matrix("x", TIMES), matrix("inner", own), matrix("y", TIMES[1:4]), matrix("y", TIMES[1:4], True)
    dinner, dx = matrix("inner", own, True), matrix("x", TIMES, True)
    there = c.new_index_table(np.append(order, np.full(more, -1)))
    home = c.new_index_table(np.array(back) if back else np.argsort(order))
    c.inputs, c.outputs = [IoInfo("x", x, dx)], [IoInfo("y", y, dy)]
    c.commands = [AllocMatrix(each, zeroed=False) for each in (x, inner, y, dy, dinner, dx)]
    c.commands += [
        AcceptInput(x, "x"),
        CopyRows(inner, x, there),
        Propagate(0, "conv", (inner,), y),
        ProvideOutput(y, "y"),
        AcceptInput(dy, "y"),
        Backprop(0, "conv", (0,), 0, dy, (dinner,), (0,), update=False),
        CopyRows(dx, dinner, home),
        ProvideOutput(dx, "x"),
    ]
    c.commands += [DeallocMatrix(each) for each in (x, inner, y, dy, dinner, dx)]
    return c


def equal(*programs: NnetComputation) -> bool:
    try:
        prove_equal([PassResult("", each) for each in programs], looks_at=looks_at)
    except ProofError:
        return False
    return True


@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [2, 0, 4, 1, 3]])
@pytest.mark.parametrize("more", [0, 3])
def test_rows_may_lie_in_any_order_with_rows_that_nobody_needs(order: list[int], more: int) -> None:
    assert equal(program([0, 1, 2, 3, 4]), program(order, more))


def test_rows_may_lie_below_others_of_their_matrix() -> None:
    below = program([4, 3, 2, 1, 0])
    for block in (2, 5):  # the input of the kernel, and its derivative
        matrix = below.submatrices[block].matrix
        below.matrices[matrix] = below.matrices[matrix]._replace(num_rows=7)
        indexes = below.matrix_info[matrix].indexes
        assert indexes is not None
        below.matrix_info[matrix] = replace(below.matrix_info[matrix], indexes=np.pad(indexes, ((2, 0), (0, 0))))
        below.submatrices[block] = below.submatrices[block]._replace(row_offset=2)
    assert equal(program([0, 1, 2, 3, 4]), below)


def test_rows_that_lie_elsewhere_than_they_say_are_noticed() -> None:
    assert not equal(program([0, 1, 2, 3, 4]), program([0, 1, 3, 2, 4], says=[0, 1, 2, 3, 4]))


def test_derivatives_of_other_rows_are_noticed() -> None:
    """The rows that are exchanged are looked at by different outputs, or by one in different places."""
    for back in ([1, 0, 2, 3, 4], [4, 1, 2, 3, 0], [2, 1, 0, 3, 4]):
        assert not equal(program([0, 1, 2, 3, 4]), program([0, 1, 2, 3, 4], back=back))


def test_rows_of_other_times_are_noticed() -> None:
    assert not equal(program([0, 1, 2, 3, 4]), program([0, 1, 2, 3, 4], later=1))


def test_what_was_precomputed_is_of_the_rows_that_are_read() -> None:
    """Else the rows at which the kernel looks may be there, and the kernel is told that they lie elsewhere."""
    order = [0, 1, 2, 3, 4]
    plain = program(order)
    inputs, outputs = (plain.matrix_info[plain.submatrices[m].matrix].indexes for m in (2, 3))
    wrong = (inputs[1:4], outputs), (inputs, outputs[:1]), (inputs[:0], outputs[:0])
    for rows, is_right in (((inputs, outputs), True), *((each, False) for each in wrong)):
        other = program(order)
        other.precomputed_rows += [KernelRows("conv", False, inputs[:1], outputs[:1]), KernelRows("conv", False, *rows)]
        other.precomputed += [{}, {}]
        other.commands = [replace(c, precomputed=2) if isinstance(c, Propagate) else c for c in other.commands]
        assert equal(plain, other) == is_right


def test_without_links_the_order_counts() -> None:
    programs = [PassResult("", program(order)) for order in ([0, 1, 2, 3, 4], [4, 3, 2, 1, 0])]
    with pytest.raises(ProofError, match="output 'y' differs"):
        prove_equal(programs)


def distributing(order: list[int], back: list[int]) -> NnetComputation:
    """x at t = 0..2 -> two rows x = 0, 1 of each, and back, with the rows of the input in this order."""
    c = NnetComputation(kernels=[KERNEL])
    given = np.array([(0, t, 0) for t in range(3)], np.int32)
    wanted = np.array([(0, t, x) for t in range(3) for x in range(2)], np.int32)

    def matrix(node: str, indexes: np.ndarray, is_deriv: bool = False) -> int:
        return c.new_matrix(len(indexes), 4, MatrixInfo(node, is_deriv, indexes))

    x, inner, y, dy = matrix("x", given), matrix("inner", given[order]), matrix("y", wanted), matrix("y", wanted, True)
    dinner, dx = matrix("inner", given[order], True), matrix("x", given, True)
    c.inputs, c.outputs = [IoInfo("x", x, dx)], [IoInfo("y", y, dy)]
    c.commands = [AllocMatrix(each, zeroed=False) for each in (x, inner, y, dy, dinner, dx)]
    c.commands += [
        AcceptInput(x, "x"),
        CopyRows(inner, x, c.new_index_table(np.array(order))),
        Propagate(0, "conv", (inner,), y),
        ProvideOutput(y, "y"),
        AcceptInput(dy, "y"),
        Backprop(0, "conv", (0,), 0, dy, (dinner,), (0,), update=False),
        CopyRows(dx, dinner, c.new_index_table(np.array(back))),
        ProvideOutput(dx, "x"),
    ]
    return c


def test_a_kernel_may_look_at_another_x_alone() -> None:
    """It looks at x = 0 from x = 0 and from x = 1, at its own time: at its own row in half of all cases."""

    def at_first_x(node: str, outputs: np.ndarray) -> np.ndarray:
        looked = outputs[:, np.newaxis].copy()
        looked[:, :, X] //= 2
        return looked

    plain = PassResult("", distributing([0, 1, 2], [0, 1, 2]))
    prove_equal([plain, PassResult("", distributing([2, 0, 1], [1, 2, 0]))], looks_at=at_first_x)
    with pytest.raises(ProofError, match="output 'x' differs"):
        prove_equal([plain, PassResult("", distributing([2, 0, 1], [2, 1, 0]))], looks_at=at_first_x)
