"""What no step of a recurrence waits for, going backward, is computed after the last step, by one product."""

from __future__ import annotations

from nnet3.ir import commands as cmd
from nnet3.ir.checker import check_computation
from nnet3.ir.computation import NnetComputation
from nnet3.ir.passes.postpone_derivatives import postpone_derivatives
from tests.ir.passes.wide_recurrence import returning
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
