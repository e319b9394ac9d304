"""What a recurrence knows before its first step is multiplied before it, by one product."""

from __future__ import annotations

import pytest

from nnet3.ir.checker import check_computation
from nnet3.ir.computation import NnetComputation
from nnet3.ir.passes.hoist_products import hoist_products
from tests.ir.passes.wide_recurrence import recurrence
from tests.ir.programs import lines, run

STEPS = 4


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
