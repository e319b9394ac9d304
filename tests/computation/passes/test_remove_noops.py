"""Commands that do nothing disappear."""

from __future__ import annotations

from computation.programs import lines, training_step
from nnet3.computation.commands import NoOp
from nnet3.computation.passes.remove_noops import remove_noops


def test_printed_form() -> None:
    plain, padded = training_step(), training_step()
    for place in (33, 16, 16, 0):
        padded.commands.insert(place, NoOp())
    assert lines(padded).count("[no-op]") == 4
    assert lines(remove_noops(padded)) == lines(plain)
    assert lines(padded).count("[no-op]") == 4


def test_same_object_if_there_are_none() -> None:
    computation = training_step()
    assert remove_noops(computation) is computation
