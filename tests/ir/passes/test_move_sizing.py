"""Matrices that live from their first to their last access need less memory."""

from __future__ import annotations

from nnet3.engine.ir.checker import check_computation
from nnet3.engine.ir.passes.move_sizing import move_sizing
from tests.ir.programs import lines, recurrence, run, training_step


def test_a_training_step_needs_less_than_half() -> None:
    before = training_step()
    assert run(move_sizing(before)).peak_elements < run(before).peak_elements / 2


def test_recurrence_needs_less_memory_and_the_same_commands() -> None:
    before = recurrence(5)
    after = move_sizing(before)
    check_computation(after)
    assert sorted(lines(after)) == sorted(lines(before))
    run(after).check_equals(run(before))
    assert run(after).peak_elements < run(before).peak_elements
