"""What a recurrence knows before its first step is multiplied before it, by one product."""

from __future__ import annotations

import pytest

from nnet3.ir import commands as cmd
from nnet3.ir.checker import check_computation
from nnet3.ir.computation import IoInfo, NnetComputation
from nnet3.ir.passes.hoist_products import hoist_products
from tests.ir.programs import lines, node_matrix, run
from tests.ir.toy_kernels import DIM, KERNELS, WIDE

STEPS = 4


def recurrence(order: list[int], source_rows: list[int], *, late: bool = False, scale: float = 1.0) -> NnetComputation:
    """A wide kernel on Append(input, output of the step before); step by step, in this order of output rows.

    Output row i goes with row `source_rows[i]` of the input. If `late`, the input changes after the first step.
    """
    c = NnetComputation(kernels=list(KERNELS))
    x, wide, out = node_matrix(c, "input", 6), node_matrix(c, "wide_input", 1, cols=2 * DIM), node_matrix(c, "wide", 4)
    c.inputs, c.outputs = [IoInfo("input", x, 0)], [IoInfo("output", out, 0)]
    left, right = c.new_submatrix(wide, 0, 1, 0, DIM), c.new_submatrix(wide, 0, 1, DIM, DIM)
    c.commands = [*(cmd.AllocMatrix(m, zeroed=True) for m in (x, wide, out)), cmd.AcceptInput(x, "input")]
    for number, row in enumerate(order):
        here, there = c.new_submatrix(x, source_rows[row], 1), c.new_submatrix(out, row, 1)
        before = c.new_submatrix(out, order[number - 1], 1)
        c.commands += [
            cmd.MatrixCopy(left, here, scale),
            cmd.MatrixCopy(right, before) if number else cmd.SetConst(right, 0.0),
            cmd.Propagate(WIDE, "wide", (wide,), there),
        ]
        if late and not number:
            c.commands.append(cmd.SetConst(c.new_submatrix(x, 3, 1), 2.0))
    c.commands += [cmd.ProvideOutput(out, "output"), *(cmd.DeallocMatrix(m) for m in (x, wide))]
    check_computation(c)
    return c


def hoisted(c: NnetComputation) -> list[str]:
    """The kernels of the result, which is checked and gives the same numbers."""
    result = hoist_products(c)
    check_computation(result)
    run(result).check_equals(run(c))
    assert hoist_products(result) is result
    return [line for line in lines(result) if "Propagate" in line or "CopyRows" in line]


def test_forward_in_time() -> None:
    assert hoisted(recurrence([0, 1, 2, 3], [1, 2, 3, 4])) == [
        "wide[0:3].Propagate(m1(1:4, :), &m4) [node wide]",
        "wide[3:6]+.Propagate((m2(:, 3:5), m4(0, :)), &m3(0, :)) [node wide]",
        "wide[3:6]+.Propagate((m2(:, 3:5), m4(1, :)), &m3(1, :)) [node wide]",
        "wide[3:6]+.Propagate((m2(:, 3:5), m4(2, :)), &m3(2, :)) [node wide]",
        "wide[3:6]+.Propagate((m2(:, 3:5), m4(3, :)), &m3(3, :)) [node wide]",
    ]


def test_backward_in_time_rows_stay_where_they_are() -> None:
    found = hoisted(recurrence([3, 2, 1, 0], [1, 2, 3, 4]))
    assert found[0] == "wide[0:3].Propagate(m1(1:4, :), &m4) [node wide]"
    assert found[1] == "wide[3:6]+.Propagate((m2(:, 3:5), m4(3, :)), &m3(3, :)) [node wide]"


@pytest.mark.parametrize("source_rows", [[2, 2, 2, 3], [5, 4, 3, 4]])
def test_other_rows_are_gathered_in_the_order_of_the_steps(source_rows: list[int]) -> None:
    found = hoisted(recurrence([0, 1, 2, 3], source_rows))
    assert [line.split("(")[0] for line in found[:2]] == ["m5.CopyRows", "wide[0:3].Propagate"]
    assert len(found) == 2 + STEPS


def test_steps_whose_input_changes_after_the_first_step_stay() -> None:
    found = hoisted(recurrence([0, 1, 2, 3], [0, 1, 2, 3], late=True))
    assert [line.split(".")[0] for line in found] == ["wide[0:3]", *["wide[3:6]+"] * 3, "wide"]


def test_rows_between_which_others_lie_stay() -> None:
    """Those might not be defined."""
    c = recurrence([0, 1, 2, 3], [0, 2, 4, 5])
    assert hoist_products(c) is c


def test_what_is_no_plain_copy_stays() -> None:
    c = recurrence([0, 1, 2, 3], [0, 1, 2, 3], scale=0.5)
    assert hoist_products(c) is c
