"""What no step of a recurrence waits for, going backward, is computed after the last step, by one product."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given, strategies as st

from nnet3.engine.ir.checker import check_computation
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.passes.postpone_derivatives import postpone_derivatives
from tests.ir.passes.wide_recurrence import spliced, splicing
from tests.ir.programs import lines, run

STEPS = 4


def postponed(c: NnetComputation) -> list[str]:
    """What computes and sends derivatives in the result, which is checked and gives the same numbers."""
    result = postpone_derivatives(c)
    check_computation(result)
    run(result).check_equals(run(c))
    assert postpone_derivatives(result) is result
    return [line for line in lines(result) if "Backprop" in line or line.startswith("m2")]


BACKWARD, FORWARD = [3, 2, 1, 0], [0, 1, 2, 3]


@pytest.mark.parametrize("order", [BACKWARD, FORWARD])
@pytest.mark.parametrize("offsets", [*permutations([-1, 0]), *permutations([-3, 0, 2]), *permutations([-1, 0, 1])])
def test_every_order_of_offsets(order: list[int], offsets: list[int]) -> None:
    """A product for each part, and no step by itself."""
    found = postponed(spliced(order, offsets))
    assert len([line for line in found if "Backprop" in line]) == len(offsets)
    assert len(found) == 1 + 2 * len(offsets) + len(offsets) - 1


@given(st.permutations(range(5)), st.sampled_from([2, 3]), st.data())
def test_any_rows_overwritten_and_added_to(order: list[int], parts: int, data: st.DataObject) -> None:
    sending = st.tuples(st.integers(0, 4), st.booleans())
    sent = data.draw(st.lists(st.lists(sending, min_size=parts, max_size=parts), min_size=5, max_size=5))
    assert len([line for line in postponed(splicing(order, sent)) if "Backprop" in line]) == parts
