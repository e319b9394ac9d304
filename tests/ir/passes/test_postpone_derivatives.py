"""What no step of a recurrence waits for, going backward, is computed after the last step, by one product."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given, strategies as st

from nnet3.ir import commands as cmd
from nnet3.ir.checker import check_computation
from nnet3.ir.computation import NnetComputation
from nnet3.ir.passes.postpone_derivatives import postpone_derivatives
from nnet3.ir.program_tables import OutsideMatrix
from tests.ir.passes.wide_recurrence import returning, spliced, splicing
from tests.ir.programs import lines, run
from tests.ir.toy_kernels import DIM

STEPS = 4


def postponed(c: NnetComputation) -> list[str]:
    """What computes and sends derivatives in the result, which is checked and gives the same numbers."""
    result = postpone_derivatives(c)
    check_computation(result)
    run(result).check_equals(run(c))
    assert postpone_derivatives(result) is result
    return [line for line in lines(result) if "Backprop" in line or line.startswith("m2")]


def test_backward_in_time() -> None:
    assert postponed(returning([3, 2, 1, 0], [1, 2, 3, 4])) == [
        "m2 = zeros(6, 3)",
        "wide[3:6].Backprop([], [], m1(3, :), &m3(:, 3:5)) [node wide]",
        "wide[3:6].Backprop([], [], m1(2, :), &m3(:, 3:5)) [node wide]",
        "wide[3:6].Backprop([], [], m1(1, :), &m3(:, 3:5)) [node wide]",
        "wide[3:6].Backprop([], [], m1(0, :), &m3(:, 3:5)) [node wide]",
        "wide[0:3].Backprop([], [], m1, &m5) [node wide]",
        "m2(1:4, :) = m5",
    ]


def test_forward_in_time() -> None:
    found = postponed(returning([0, 1, 2, 3], [1, 2, 3, 4]))
    assert found[-2:] == ["wide[0:3].Backprop([], [], m1, &m5) [node wide]", "m2(1:4, :) = m5"]


def test_what_adds_keeps_adding() -> None:
    """The first step overwrites, the others add, one of them to the same row."""
    found = postponed(returning([3, 2, 1, 0], [1, 2, 3, 3], added=(0, 1, 2)))
    assert found[-2:] == ["m2(3, :) = m5(3, :)", "m2(1:3, :) += m5(0:2, :)"]


def test_rows_between_which_others_lie_are_sent_one_by_one() -> None:
    found = postponed(returning([3, 2, 1, 0], [0, 2, 4, 5]))
    assert found[-3:] == ["m2(4:5, :) = m5(2:3, :)", "m2(2, :) = m5(1, :)", "m2(0, :) = m5(0, :)"]


def test_what_is_looked_at_before_the_last_step_stays() -> None:
    c = returning([3, 2, 1, 0], [1, 2, 3, 4], read=1)
    assert postpone_derivatives(c) is c


def test_what_is_looked_at_after_the_last_step_does_not() -> None:
    assert len(postponed(returning([3, 2, 1, 0], [1, 2, 3, 4], read=3))) == 3 + STEPS


def test_outputs_that_do_not_stay_what_they_were() -> None:
    c = returning([3, 2, 1, 0], [1, 2, 3, 4])
    steps = [n for n, command in enumerate(c.commands) if isinstance(command, cmd.Backprop)]
    c.commands.insert(steps[2], cmd.SetConst(c.new_submatrix(1, 3, 1), 0.0))
    assert postpone_derivatives(c) is c


BACKWARD, FORWARD = [3, 2, 1, 0], [0, 1, 2, 3]


def test_what_overwrites_is_sent_before_what_adds() -> None:
    """Backward in time the columns of the earlier frame come first, forward in time those of the later one."""
    for order, rows, rest in ((BACKWARD, "0:3", "4 3 1:3 0:2"), (FORWARD, "1:4", "0 0 1:3 1:3")):
        first, from_first, others, from_others = rest.split()
        for offsets in ([-1, 0], [0, -1]):
            early = (offsets[0] < offsets[1]) == (order is BACKWARD)
            parts = ("0:3", "3:6") if early else ("3:6", "0:3")
            assert postponed(spliced(order, offsets)) == [
                "m2 = zeros(5, 3)",
                f"wide[{parts[0]}].Backprop([], [], m1, &m4) [node wide]",
                f"m2({rows}, :) = m4",
                f"wide[{parts[1]}].Backprop([], [], m1, &m5) [node wide]",
                f"m2({first}, :) = m5({from_first}, :)",
                f"m2({others}, :) += m5({from_others}, :)",
            ]


@pytest.mark.parametrize("order", [BACKWARD, FORWARD])
@pytest.mark.parametrize("offsets", [*permutations([-1, 0]), *permutations([-3, 0, 2]), *permutations([-1, 0, 1])])
def test_every_order_of_offsets(order: list[int], offsets: list[int]) -> None:
    """A product for each part, and no step by itself."""
    found = postponed(spliced(order, offsets))
    assert len([line for line in found if "Backprop" in line]) == len(offsets)
    assert len(found) == 1 + 2 * len(offsets) + len(offsets) - 1


def test_columns_take_turns_where_each_overwrites_what_the_other_adds_to() -> None:
    """Two neighbours send to each other and to themselves."""
    sent = [[(1, True), (0, True)], [(0, False), (1, False)], [(3, True), (2, True)], [(2, False), (3, False)]]
    assert postponed(splicing([1, 0, 3, 2], sent)) == [
        "m2 = zeros(4, 3)",
        "wide[0:3].Backprop([], [], m1, &m4) [node wide]",
        "m2(0, :) = m4(1, :)",
        "wide[3:6].Backprop([], [], m1, &m5) [node wide]",
        "m2(1, :) = m5(1, :)",
        "m2(0, :) += m5(0, :)",
        "m2(3, :) = m5(3, :)",
        "m2(1, :) += m4(0, :)",
        "m2(2, :) = m4(3, :)",
        "m2(3, :) += m4(2, :)",
        "m2(2, :) += m5(2, :)",
    ]


@given(st.permutations(range(5)), st.sampled_from([2, 3]), st.data())
def test_any_rows_overwritten_and_added_to(order: list[int], parts: int, data: st.DataObject) -> None:
    sending = st.tuples(st.integers(0, 4), st.booleans())
    sent = data.draw(st.lists(st.lists(sending, min_size=parts, max_size=parts), min_size=5, max_size=5))
    assert len([line for line in postponed(splicing(order, sent)) if "Backprop" in line]) == parts


def test_what_is_outside_is_written() -> None:
    """Whoever looks there does so later."""
    c = returning([3, 2, 1, 0], [1, 2, 3, 4])
    c.outside = [OutsideMatrix("room", 3, writable=True)]
    lives = cmd.AllocMatrix | cmd.DeallocMatrix
    c.commands = [each for each in c.commands if not (isinstance(each, lives) and each.matrix == 3)]
    check_computation(c)
    assert postpone_derivatives(c) is c


def test_a_step_alone_stays() -> None:
    c = returning([3], [1, 2, 3, 4])
    assert postpone_derivatives(c) is c


def test_what_is_added_to_other_columns_of_the_step_stays() -> None:
    """The command that sends some columns reads others of the same step, to which nobody else looks before the end."""
    c = returning([3, 2, 1, 0], [1, 2, 3, 4])
    rooms = [c.new_matrix(1, 2 * DIM) for _ in range(STEPS)]
    commands, copies = list[cmd.Command](), list[cmd.Command]()
    for command in c.commands:
        if isinstance(command, cmd.Backprop):
            room = rooms[len(copies)]
            left, right = (c.new_submatrix(room, 0, 1, at, DIM) for at in (0, DIM))
            commands += [cmd.with_values(command, input_derivs=(room,)), cmd.MatrixAdd(right, left)]
        elif isinstance(command, cmd.MatrixCopy):
            copies.append(cmd.MatrixCopy(command.dest, right))
        elif isinstance(command, cmd.ProvideOutput) and command.name == "input":
            commands += [*copies, command]
        elif not isinstance(command, cmd.MatrixAdd):
            commands.append(command)
    c.commands = [*(cmd.AllocMatrix(room, zeroed=False) for room in rooms), *commands]
    c.commands += [cmd.DeallocMatrix(room) for room in rooms]
    check_computation(c)
    assert postpone_derivatives(c) is c
