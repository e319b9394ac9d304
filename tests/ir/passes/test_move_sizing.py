"""Matrices live from their first to their last access."""

from __future__ import annotations

from nnet3.ir import commands as cmd
from nnet3.ir.checker import check_computation
from nnet3.ir.passes.move_sizing import move_sizing
from tests.ir.programs import lines, recurrence, run, training_step

TRAINING_STEP = [
    "m1 = zeros(6, 3)",
    "m1 = user input [for node: 'input']",
    "m3 = zeros(4, 3)",
    "m3.AddRows(1, m1[2:5])",
    "m1 = []",
    "m4 = zeros(4, 3)",
    "affine.Propagate(m3, &m4)",
    "m5 = zeros(4, 3)",
    "sigmoid.Propagate(m4, &m5)",
    "m4 = []",
    "m6 = zeros(4, 3)",
    "m6 += m5",
    "output m6 to user [for node: 'output']",
    "[end of segment]",
    "m10 = zeros(4, 3)",
    "m10 = user input [for node: 'output']",
    "m9 = zeros(4, 3)",
    "m9 += m10",
    "m10 = []",
    "m8 = zeros(4, 3)",
    "sigmoid.Backprop([], m5, m9, &m8) [update]",
    "m5 = []",
    "m9 = []",
    "m7 = zeros(4, 3)",
    "affine.Backprop(m3, [], m8, &m7) [update]",
    "m3 = []",
    "m8 = []",
    "m2 = zeros(6, 3)",
    "m2.AddRows(1, m7[-1x2, 0:3])",
    "m7 = []",
    "output m2 to user [for node: 'input']",
    "m2 = []",
    "m6 = []",
]


def test_allocation_moves_to_the_first_use_and_deallocation_to_the_last() -> None:
    before = training_step()
    after = move_sizing(before)
    check_computation(after)
    assert lines(after) == TRAINING_STEP
    assert move_sizing(after) is after
    run(after).check_equals(run(before))
    assert run(after).peak_elements < run(before).peak_elements / 2


def test_recurrence_needs_less_memory_and_the_same_commands() -> None:
    before = recurrence(5)
    after = move_sizing(before)
    check_computation(after)
    assert sorted(lines(after)) == sorted(lines(before))
    run(after).check_equals(run(before))
    assert run(after).peak_elements < run(before).peak_elements


def test_a_matrix_that_nobody_uses_is_not_allocated() -> None:
    c = training_step()
    unused = c.new_matrix(5, 5)
    c.commands = [cmd.AllocMatrix(unused, zeroed=True), *c.commands, cmd.DeallocMatrix(unused)]
    after = move_sizing(c)
    assert lines(after) == TRAINING_STEP
    check_computation(after)


def test_output_that_stays_still_stays() -> None:
    c = training_step()
    c.commands.remove(cmd.DeallocMatrix(6))
    after = move_sizing(c)
    check_computation(after)
    assert lines(after) == TRAINING_STEP[:-1]
