"""What no step of a recurrence reads is multiplied after its last step, by one product."""

from __future__ import annotations

import pytest

from nnet3.ir import commands as cmd
from nnet3.ir.checker import check_computation
from nnet3.ir.computation import IoInfo, NnetComputation
from nnet3.ir.passes.postpone_products import postpone_products
from tests.ir.programs import lines, node_matrix, run
from tests.ir.toy_kernels import DIM, KERNELS, WIDE


def recurrence(order: list[int], *, one_room: bool = True, read: int | None = None, gap: int = 0) -> NnetComputation:
    """A wide kernel on Append(input, column 0 of the output of the step before), in this order of output rows.

    With `one_room` each step writes its input over that of the one before. Step `read` reads another column as well.
    """
    c, count = NnetComputation(kernels=list(KERNELS)), len(order)
    x, out = node_matrix(c, "input", count), node_matrix(c, "wide", count + gap)
    wide = node_matrix(c, "wide_input", 1 if one_room else count, cols=2 * DIM)
    seen = node_matrix(c, "seen", 1, cols=1)
    c.inputs, c.outputs = [IoInfo("input", x, 0)], [IoInfo("output", out, 0)]
    c.commands = [*(cmd.AllocMatrix(m, zeroed=True) for m in (x, wide, out, seen)), cmd.AcceptInput(x, "input")]
    for number, row in enumerate(order):
        here = c.new_submatrix(wide, 0 if one_room else row, 1)
        there, before = (c.new_submatrix(out, each + gap * (each > 1), 1) for each in (row, order[number - 1]))
        state = c.new_submatrix(here, 0, 1, DIM, 1)
        c.commands += [
            cmd.MatrixCopy(c.new_submatrix(here, 0, 1, 0, DIM), c.new_submatrix(x, row, 1)),
            cmd.SetConst(c.new_submatrix(here, 0, 1, DIM, DIM), 0.0),
            *([cmd.MatrixCopy(state, c.new_submatrix(before, 0, 1, 0, 1))] if number else []),
            cmd.Propagate(WIDE, "wide", (here,), there),
        ]
        if number == read:
            c.commands.append(cmd.MatrixCopy(seen, c.new_submatrix(there, 0, 1, 2, 1)))
    c.commands += [cmd.ProvideOutput(out, "output"), *(cmd.DeallocMatrix(m) for m in (x, wide, seen))]
    check_computation(c)
    return c


def postponed(c: NnetComputation) -> list[str]:
    """The kernels and new copies of the result, which is checked and gives the same numbers."""
    result = postpone_products(c)
    check_computation(result)
    run(result).check_equals(run(c))
    assert postpone_products(result) is result
    return [line for line in lines(result) if "Propagate" in line or "m5" in line]


def test_inputs_that_are_overwritten_are_kept() -> None:
    assert postponed(recurrence([0, 1, 2])) == [
        "m5 = undefined(3, 6)",
        "m5(0, :) = m3",
        "wide[0:6 to 0:1].Propagate(m5(0, :), &m2(0, 0)) [node wide]",
        "m5(1, :) = m3",
        "wide[0:6 to 0:1].Propagate(m5(1, :), &m2(1, 0)) [node wide]",
        "m5(2, :) = m3",
        "wide[0:6 to 0:1].Propagate(m5(2, :), &m2(2, 0)) [node wide]",
        "wide[0:6 to 1:3].Propagate(m5, &m2(:, 1:2)) [node wide]",
        "m5 = []",
    ]


def test_inputs_that_stay_are_read_where_they_are() -> None:
    assert postponed(recurrence([2, 1, 0], one_room=False)) == [
        "wide[0:6 to 0:1].Propagate(m3(2, :), &m2(2, 0)) [node wide]",
        "wide[0:6 to 0:1].Propagate(m3(1, :), &m2(1, 0)) [node wide]",
        "wide[0:6 to 0:1].Propagate(m3(0, :), &m2(0, 0)) [node wide]",
        "wide[0:6 to 1:3].Propagate(m3, &m2(:, 1:2)) [node wide]",
    ]


def test_what_a_step_reads_is_not_postponed() -> None:
    assert [line.split(".")[0] for line in postponed(recurrence([0, 1, 2], read=1)) if "Prop" in line] == ["wide"] * 3


def test_what_is_read_after_the_last_step_is_postponed() -> None:
    found = [line.split(".")[0] for line in postponed(recurrence([0, 1, 2], read=2)) if "Prop" in line]
    assert found == [*["wide[0:6 to 0:1]"] * 3, "wide[0:6 to 1:3]"]


@pytest.mark.parametrize("order", [[0], [0, 1, 2]])
def test_one_step_and_rows_apart_stay(order: list[int]) -> None:
    c = recurrence(order, gap=2)
    assert postpone_products(c) is c
