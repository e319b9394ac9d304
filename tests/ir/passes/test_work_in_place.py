"""Outputs lie where inputs lie, if the kernel can do that and nobody reads the input again."""

from __future__ import annotations

import pytest

from nnet3.ir import commands as cmd
from nnet3.ir.checker import check_computation
from nnet3.ir.commands import Command
from nnet3.ir.computation import IoInfo, NnetComputation
from nnet3.ir.passes.work_in_place import work_in_place
from tests.ir.programs import lines, node_matrix, run, training_step
from tests.ir.toy_kernels import AFFINE, KERNELS, PRODUCT, SIGMOID

X, A, B, C, OUT, SMALL = range(1, 7)  # an input, three matrices, an output, a smaller one
A_TOP, A_BOTTOM, B_TOP, B_BOTTOM = range(7, 11)  # rows 0:1 and 2:3


def _program(*commands: Command, zeroed: bool = False) -> NnetComputation:
    c = NnetComputation(kernels=list(KERNELS), need_model_derivative=True)
    x, a, b, d, out = (node_matrix(c, name, 4) for name in ("input", "a", "b", "c", "output"))
    small = node_matrix(c, "small", 2)
    for matrix in (a, b):
        c.new_submatrix(matrix, 0, 2)
        c.new_submatrix(matrix, 2, 2)
    c.inputs, c.outputs = [IoInfo("input", x, 0)], [IoInfo("output", out, 0)]
    inner = (a, b, d, small)
    c.commands = [
        *(cmd.AllocMatrix(matrix, zeroed) for matrix in (x, *inner, out)),
        cmd.AcceptInput(x, "input"),
        *commands,
        cmd.ProvideOutput(out, "output"),
        *(cmd.DeallocMatrix(matrix) for matrix in (x, *inner)),
    ]
    check_computation(c)
    return c


def _sigmoid(source: int, dest: int) -> cmd.Propagate:
    return cmd.Propagate(SIGMOID, "sigmoid", (source,), dest)


def _affine(source: int, dest: int) -> cmd.Propagate:
    return cmd.Propagate(AFFINE, "affine", (source,), dest)


AFFINE_SIGMOID = [_affine(X, A), _sigmoid(A, B)]
IN_PLACE = {
    "one": ([_affine(X, A), _sigmoid(A, B), cmd.MatrixCopy(OUT, B)], ["sigmoid.Propagate(m2, &m2)", "m5 = m2"]),
    "a chain": (
        [_affine(X, A), _sigmoid(A, B), _sigmoid(B, C), cmd.MatrixCopy(OUT, C)],
        ["sigmoid.Propagate(m2, &m2)", "sigmoid.Propagate(m2, &m2)", "m5 = m2"],
    ),
    "row by row": (
        [_affine(X, A), _sigmoid(A_BOTTOM, B_BOTTOM), _sigmoid(A_TOP, B_TOP), cmd.MatrixCopy(OUT, B)],
        ["sigmoid.Propagate(m2(2:3, :), &m2(2:3, :))", "sigmoid.Propagate(m2(0:1, :), &m2(0:1, :))", "m5 = m2"],
    ),
    "a part of a matrix": (
        [_affine(X, A), _sigmoid(A_BOTTOM, SMALL), cmd.MatrixCopy(OUT, X), cmd.MatrixCopy(B_TOP, SMALL)],
        ["sigmoid.Propagate(m2(2:3, :), &m2(2:3, :))", "m5 = m1", "m3(0:1, :) = m2(2:3, :)"],
    ),
    "one of two inputs": (
        [_affine(X, A), cmd.Propagate(PRODUCT, "p", (A, X), B), cmd.MatrixCopy(OUT, B)],
        ["product.Propagate((m2, m1), &m2) [node p]", "m5 = m2"],
    ),
    "the input": ([_sigmoid(X, A), cmd.MatrixCopy(OUT, A)], ["m5 = m1"]),
    "the output": ([_affine(X, A), _sigmoid(A, OUT)], ["sigmoid.Propagate(m2, &m2)"]),
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
        [_affine(X, A), cmd.Backprop(SIGMOID, "s", (0,), X, A, (B,), (0,), update=False), cmd.MatrixCopy(OUT, B)],
        ["sigmoid.Backprop([], m1, m2, &m2) [node s]", "m5 = m2"],
    ),
}
KEPT = {
    "the input is read again": [_affine(X, A), _sigmoid(A, B), cmd.MatrixCopy(OUT, A), cmd.MatrixAdd(OUT, B)],
    "a part of it is read again": [_affine(X, A), _sigmoid(A, B), cmd.MatrixCopy(OUT, B), _affine(A_TOP, SMALL)],
    "no promise": [_affine(X, A), _affine(A, B), cmd.MatrixCopy(OUT, B)],
    "the second of two inputs": [
        _affine(X, A),
        cmd.Propagate(PRODUCT, "p", (X, A), B),
        cmd.MatrixCopy(OUT, B),
        cmd.MatrixAdd(OUT, X),
    ],
    "one matrix twice": [_affine(X, A), cmd.Propagate(PRODUCT, "p", (A, A), B), cmd.MatrixCopy(OUT, B)],
    "in turn": [
        _affine(X, A),
        _sigmoid(A_TOP, B_TOP),
        _affine(X, B),
        _sigmoid(A_BOTTOM, B_BOTTOM),
        cmd.MatrixCopy(OUT, B),
    ],
    "from input to output": [_sigmoid(X, OUT)],
    "the value is needed": [
        _affine(X, A),
        cmd.Backprop(SIGMOID, "s", (0,), A, A, (B,), (0,), update=False),
        cmd.MatrixCopy(OUT, B),
    ],
}


@pytest.mark.parametrize(("commands", "expected"), IN_PLACE.values(), ids=IN_PLACE.keys())
def test_in_place(commands: list[Command], expected: list[str]) -> None:
    before = _program(*commands)
    after = work_in_place(before)
    check_computation(after)
    printed = lines(after)
    end = next(i for i, line in enumerate(printed) if line.startswith("output"))
    assert printed[end - len(expected) : end] == expected
    run(after).check_equals(run(before))
    assert work_in_place(after) is after


@pytest.mark.parametrize("commands", KEPT.values(), ids=KEPT.keys())
def test_kept(commands: list[Command]) -> None:
    computation = _program(*commands)
    assert work_in_place(computation) is computation


def test_zeros_that_are_seen_stay() -> None:
    """Rows 2:3 of m3 are zero, and rows 2:3 of m2 are not."""
    commands = [_affine(X, A), _sigmoid(A_TOP, B_TOP), cmd.MatrixCopy(OUT, B)]
    computation = _program(*commands, zeroed=True)
    assert work_in_place(computation) is computation
    all_rows = _program(_affine(X, A), _sigmoid(A, B), cmd.MatrixCopy(OUT, B), zeroed=True)
    assert work_in_place(all_rows) is not all_rows


def test_what_lies_outside_stays_as_it_is() -> None:
    c = _program(cmd.MatrixCopy(OUT, X))
    weight = c.new_outside("W", 4, 3, writable=True)
    c.commands[7:7] = [_sigmoid(weight, A), cmd.MatrixCopy(B, A)]
    check_computation(c)
    assert work_in_place(c) is c


def test_other_dtypes_are_other_places() -> None:
    c = _program(_affine(X, A), _sigmoid(A, B), cmd.MatrixCopy(OUT, B))
    c.matrices[2] = c.matrices[2]._replace(dtype="bfloat16")
    assert work_in_place(c) is c


def test_the_life_of_the_shared_place() -> None:
    """From the first allocation of the two to the last deallocation."""
    c = _program(_affine(X, A), _sigmoid(A, B), cmd.MatrixCopy(OUT, B))
    after = work_in_place(c)
    assert lines(after)[1] == "m2 = undefined(4, 3)"
    assert sum(line.startswith("m3") for line in lines(after)) == 0
    assert lines(after).count("m2 = []") == 1


def test_an_output_that_stays_keeps_its_place() -> None:
    """It was never deallocated, so neither is the place that it shares."""
    after = work_in_place(_program(_affine(X, A), _sigmoid(A, OUT)))
    check_computation(after)
    assert "output m2 to user [for node: 'output']" in lines(after)
    assert not {"m2 = []", "m5 = []"} & set(lines(after))


def test_backward_of_a_training_step() -> None:
    before = training_step()
    after = work_in_place(before)
    check_computation(after)
    assert "sigmoid.Propagate(m4, &m4)" in lines(after), "the derivative of a sigmoid needs its output only"
    assert "sigmoid.Backprop([], m4, m9, &m9) [update]" in lines(after)
    run(after).check_equals(run(before))
