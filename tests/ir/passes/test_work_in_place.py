"""Outputs lie where inputs lie, if the kernel can do that and nobody reads the input again."""

from __future__ import annotations

import pytest

from nnet3.ir import commands as cmd
from nnet3.ir.checker import check_computation
from nnet3.ir.commands import Command
from nnet3.ir.passes.work_in_place import work_in_place
from tests.ir.passes.two_kernels import (
    A_BOTTOM,
    A_TOP,
    B_BOTTOM,
    B_TOP,
    OUT,
    SMALL,
    A,
    B,
    C,
    X,
    affine,
    program,
    sigmoid,
)
from tests.ir.programs import lines, run, training_step
from tests.ir.toy_kernels import PRODUCT, SIGMOID

AFFINE_SIGMOID = [affine(X, A), sigmoid(A, B)]
IN_PLACE = {
    "one": ([affine(X, A), sigmoid(A, B), cmd.MatrixCopy(OUT, B)], ["sigmoid.Propagate(m2, &m2)", "m5 = m2"]),
    "a chain": (
        [affine(X, A), sigmoid(A, B), sigmoid(B, C), cmd.MatrixCopy(OUT, C)],
        ["sigmoid.Propagate(m2, &m2)", "sigmoid.Propagate(m2, &m2)", "m5 = m2"],
    ),
    "row by row": (
        [affine(X, A), sigmoid(A_BOTTOM, B_BOTTOM), sigmoid(A_TOP, B_TOP), cmd.MatrixCopy(OUT, B)],
        ["sigmoid.Propagate(m2(2:3, :), &m2(2:3, :))", "sigmoid.Propagate(m2(0:1, :), &m2(0:1, :))", "m5 = m2"],
    ),
    "a part of a matrix": (
        [affine(X, A), sigmoid(A_BOTTOM, SMALL), cmd.MatrixCopy(OUT, X), cmd.MatrixCopy(B_TOP, SMALL)],
        ["sigmoid.Propagate(m2(2:3, :), &m2(2:3, :))", "m5 = m1", "m3(0:1, :) = m2(2:3, :)"],
    ),
    "one of two inputs": (
        [affine(X, A), cmd.Propagate(PRODUCT, "p", (A, X), B), cmd.MatrixCopy(OUT, B)],
        ["product.Propagate((m2, m1), &m2) [node p]", "m5 = m2"],
    ),
    "the input": ([sigmoid(X, A), cmd.MatrixCopy(OUT, A)], ["m5 = m1"]),
    "the output": ([affine(X, A), sigmoid(A, OUT)], ["sigmoid.Propagate(m2, &m2)"]),
    "used again": (
        [*AFFINE_SIGMOID, cmd.MatrixCopy(OUT, B), *AFFINE_SIGMOID, cmd.MatrixAdd(OUT, B)],
        [
            "sigmoid.Propagate(m2, &m2)",
            "m5 = m2",
            "affine.Propagate(m1, &m2)",
            "sigmoid.Propagate(m2, &m2)",
            "m5 += m2",
        ],
    ),
    "back": (
        [affine(X, A), cmd.Backprop(SIGMOID, "s", (0,), X, A, (B,), (0,), update=False), cmd.MatrixCopy(OUT, B)],
        ["sigmoid.Backprop([], m1, m2, &m2) [node s]", "m5 = m2"],
    ),
}
KEPT = {
    "the input is read again": [affine(X, A), sigmoid(A, B), cmd.MatrixCopy(OUT, A), cmd.MatrixAdd(OUT, B)],
    "a part of it is read again": [affine(X, A), sigmoid(A, B), cmd.MatrixCopy(OUT, B), affine(A_TOP, SMALL)],
    "no promise": [affine(X, A), affine(A, B), cmd.MatrixCopy(OUT, B)],
    "the second of two inputs": [
        affine(X, A),
        cmd.Propagate(PRODUCT, "p", (X, A), B),
        cmd.MatrixCopy(OUT, B),
        cmd.MatrixAdd(OUT, X),
    ],
    "one matrix twice": [affine(X, A), cmd.Propagate(PRODUCT, "p", (A, A), B), cmd.MatrixCopy(OUT, B)],
    "in turn": [
        affine(X, A),
        sigmoid(A_TOP, B_TOP),
        affine(X, B),
        sigmoid(A_BOTTOM, B_BOTTOM),
        cmd.MatrixCopy(OUT, B),
    ],
    "from input to output": [sigmoid(X, OUT)],
    "the value is needed": [
        affine(X, A),
        cmd.Backprop(SIGMOID, "s", (0,), A, A, (B,), (0,), update=False),
        cmd.MatrixCopy(OUT, B),
    ],
}


@pytest.mark.parametrize(("commands", "expected"), IN_PLACE.values(), ids=IN_PLACE.keys())
def test_kernels_work_in_place(commands: list[Command], expected: list[str]) -> None:
    before = program(*commands)
    after = work_in_place(before)
    check_computation(after)
    printed = lines(after)
    end = next(i for i, line in enumerate(printed) if line.startswith("output"))
    assert printed[end - len(expected) : end] == expected
    run(after).check_equals(run(before))
    assert work_in_place(after) is after


@pytest.mark.parametrize("commands", KEPT.values(), ids=KEPT.keys())
def test_values_that_are_needed_are_kept(commands: list[Command]) -> None:
    computation = program(*commands)
    assert work_in_place(computation) is computation


def test_backward_of_a_training_step() -> None:
    before = training_step()
    after = work_in_place(before)
    check_computation(after)
    assert "sigmoid.Propagate(m4, &m4)" in lines(after), "the derivative of a sigmoid needs its output only"
    assert "sigmoid.Backprop([], m4, m9, &m9) [update]" in lines(after)
    run(after).check_equals(run(before))
