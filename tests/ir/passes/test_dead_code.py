"""What nobody reads is not computed."""

from __future__ import annotations

import pytest

from nnet3.ir import commands as cmd
from nnet3.ir.checker import check_computation
from nnet3.ir.commands import Command
from nnet3.ir.computation import NnetComputation
from nnet3.ir.passes.dead_code import dead_code
from nnet3.ir.program_tables import IoInfo
from tests.ir.programs import lines, node_matrix, run, training_step
from tests.ir.toy_kernels import AFFINE, CENTRE, KERNELS, PRODUCT, SIGMOID

#: An input, three matrices, an output; rows 0:1 and 2:3 of the first matrix, and 0:1 of the output.
X, A, B, C, OUT, A_TOP, A_BOTTOM, OUT_TOP = range(1, 9)


def _program(*commands: Command) -> NnetComputation:
    c = NnetComputation(kernels=list(KERNELS), num_memos=1, need_model_derivative=True)
    x, a, b, d, out = (node_matrix(c, name, 4) for name in ("input", "a", "b", "c", "output"))
    c.new_submatrix(a, 0, 2)
    c.new_submatrix(a, 2, 2)
    c.new_submatrix(out, 0, 2)
    c.inputs, c.outputs = [IoInfo("input", x, 0)], [IoInfo("output", out, 0)]
    c.commands = [
        *(cmd.AllocMatrix(matrix, zeroed=True) for matrix in (x, a, b, d, out)),
        cmd.AcceptInput(x, "input"),
        *commands,
        cmd.ProvideOutput(out, "output"),
        *(cmd.DeallocMatrix(matrix) for matrix in (x, a, b, d)),
    ]
    check_computation(c)
    return c


GRADIENT = cmd.Backprop(PRODUCT, "p", (X, X), 0, A, (B, C), (0, 0), update=True)
CASES = {
    "a chain": ([cmd.MatrixCopy(A, X), cmd.MatrixAdd(B, A), cmd.MatrixCopy(OUT, X)], ["m5 = m1"]),
    "overwritten": ([cmd.MatrixCopy(OUT, X), cmd.SetConst(OUT, 1.0)], ["m5.set(1)"]),
    "overwritten in part": (
        [cmd.MatrixCopy(A, X), cmd.SetConst(A_TOP, 1.0), cmd.MatrixCopy(OUT, A)],
        ["m2 = m1", "m2(0:1, :).set(1)", "m5 = m2"],
    ),
    "used again": (
        [cmd.MatrixCopy(A, X), cmd.MatrixCopy(B, A), cmd.MatrixCopy(A, X, 2.0), cmd.MatrixCopy(OUT, A)],
        ["m2 = 2 * m1", "m5 = m2"],
    ),
    "one of two derivatives": (
        [cmd.MatrixCopy(A, X), GRADIENT, cmd.MatrixCopy(OUT, C)],
        ["m2 = m1", "product.Backprop((m1, m1), [], m2, ([], &m4)) [node p, update]", "m5 = m4"],
    ),
    "an update alone": (
        [cmd.MatrixCopy(A, X), GRADIENT, cmd.MatrixCopy(OUT, X)],
        ["m2 = m1", "product.Backprop((m1, m1), [], m2, ([], [])) [node p, update]", "m5 = m1"],
    ),
    "no update": (
        [cmd.Backprop(SIGMOID, "s", (0,), X, X, (A,), (0,), update=False), cmd.MatrixCopy(OUT, X)],
        ["m5 = m1"],
    ),
    "added to": (
        [
            cmd.MatrixCopy(B, X),
            cmd.Backprop(AFFINE, "a", (X,), 0, X, (0,), (B,), update=True),
            cmd.MatrixCopy(OUT, X),
        ],
        ["affine.Backprop(m1, [], m1, []) [node a, update]", "m5 = m1"],
    ),
    "added to, and read in part": (
        [
            cmd.SetConst(A_TOP, 1.0),
            cmd.SetConst(A_BOTTOM, 2.0),
            cmd.Backprop(AFFINE, "a", (X,), 0, X, (0,), (A,), update=True),
            cmd.MatrixCopy(OUT, X),
            cmd.MatrixCopy(OUT_TOP, A_TOP),
        ],
        [
            "m2(0:1, :).set(1)",
            "m2(2:3, :).set(2)",
            "affine.Backprop(m1, [], m1, += m2) [node a, update]",
            "m5 = m1",
            "m5(0:1, :) = m2(0:1, :)",
        ],
    ),
    "in place": (
        [
            cmd.MatrixCopy(A, X),
            cmd.Backprop(SIGMOID, "s", (0,), X, A, (A,), (0,), update=True),
            cmd.MatrixCopy(OUT, X),
        ],
        ["m2 = m1", "sigmoid.Backprop([], m1, m2, []) [node s, update]", "m5 = m1"],
    ),
    "memo": (
        [cmd.Propagate(CENTRE, "c", (X,), OUT, memo=0)],
        ["centre.Propagate(m1, &m5) [node c]"],
    ),
    "memo for a derivative": (
        [
            cmd.Propagate(CENTRE, "c", (X,), A, memo=0),
            cmd.Backprop(CENTRE, "c", (0,), 0, X, (OUT,), (0,), update=False, memo=0),
        ],
        ["centre.Propagate(m1, &m2) [node c, memo 0]", "centre.Backprop([], [], m1, &m5) [node c, memo 0]"],
    ),
    "statistics": (
        [cmd.Propagate(PRODUCT, "p", (X, X), A, store_stats=True), cmd.MatrixCopy(OUT, X)],
        ["product.Propagate((m1, m1), &m2) [node p, store stats]", "m5 = m1"],
    ),
}


@pytest.mark.parametrize(("commands", "expected"), CASES.values(), ids=CASES.keys())
def test_dead_commands_go(commands: list[Command], expected: list[str]) -> None:
    before = _program(*commands)
    after = dead_code(before)
    check_computation(after)
    printed = lines(after)
    start = printed.index("m1 = user input [for node: 'input']") + 1
    assert printed[start : printed.index("output m5 to user [for node: 'output']")] == expected
    run(after).check_equals(run(before))
    assert dead_code(after) is after
    used = {m for m in range(1, 6) if any(f"m{m}" in line for line in ["m1", "m5", *expected])}
    assert {line for line in printed if " = zeros" in line} == {f"m{m} = zeros(4, 3)" for m in used}


def test_everything_is_needed() -> None:
    c = training_step()
    assert dead_code(c) is c


def test_what_lies_outside_is_always_read() -> None:
    c = _program(cmd.MatrixCopy(OUT, X))
    gradient = c.new_outside("gradient", 4, 3, writable=True)
    c.commands[6:6] = [
        cmd.Backprop(AFFINE, "a", (X,), 0, X, (0,), (gradient,), update=False),
        cmd.MatrixCopy(A, gradient),
    ]
    after = dead_code(c)
    check_computation(after)
    assert "affine.Backprop(m1, [], m1, += m6) [node a]" in lines(after)
    assert "m2 = m6" not in lines(after)
