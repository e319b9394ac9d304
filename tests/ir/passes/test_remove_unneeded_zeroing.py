"""Zeros that nobody sees are not written."""

from __future__ import annotations

from nnet3.ir import commands as cmd
from nnet3.ir.checker import check_computation
from nnet3.ir.computation import NnetComputation
from nnet3.ir.passes.remove_unneeded_zeroing import remove_unneeded_zeroing
from tests.ir.programs import lines, run, training_step


def _zeroed(c: NnetComputation) -> list[int]:
    return [command.matrix for command in c.commands if isinstance(command, cmd.AllocMatrix) and command.zeroed]


def test_only_sums_begin_at_zero() -> None:
    before = training_step()
    after = remove_unneeded_zeroing(before)
    check_computation(after)
    # Sums (3, 6, 9 and the input derivative) begin at zero; what is accepted or propagated into does not.
    assert _zeroed(before) == list(range(1, 11))
    assert _zeroed(after) == [2, 3, 6, 9]
    assert lines(after)[:3] == ["m1 = undefined(6, 3)", "m2 = zeros(6, 3)", "m3 = zeros(4, 3)"]
    assert lines(after)[10:] == lines(before)[10:]
    run(after).check_equals(run(before))
    assert remove_unneeded_zeroing(after) is after


def test_one_part_that_is_seen_keeps_the_zeros() -> None:
    c = training_step()
    part = c.new_submatrix(1, 0, 5)
    rest = c.new_submatrix(1, 5, 1)
    for number, command in enumerate(c.commands):
        if isinstance(command, cmd.AcceptInput) and command.name == "input":
            c.commands[number] = cmd.SetConst(part, 1.0)
    assert 1 in _zeroed(remove_unneeded_zeroing(c))
    c.commands.insert(10, cmd.SetConst(rest, 1.0))
    assert 1 not in _zeroed(remove_unneeded_zeroing(c))


def test_reading_and_writing_at_once_sees_the_zeros() -> None:
    c = training_step()
    c.commands.insert(10, cmd.Propagate(1, "sigmoid", (4,), 4))  # in place
    assert 4 in _zeroed(remove_unneeded_zeroing(c))


def test_a_matrix_that_nobody_uses() -> None:
    c = training_step()
    unused = c.new_matrix(5, 5)
    c.commands = [cmd.AllocMatrix(unused, zeroed=True), *c.commands, cmd.DeallocMatrix(unused)]
    assert unused not in _zeroed(remove_unneeded_zeroing(c))
