"""Commands that hand matrices in and out, repeat others and end a segment."""

from __future__ import annotations

import re

import pytest

from nnet3.engine.ir.checker import check_computation
from nnet3.engine.ir.commands import AcceptInput, Command, ProvideOutput, Repeat, SegmentMarker
from nnet3.engine.ir.declarations import Role
from nnet3.errors import ComputationCheckError
from tests.ir.changes import ACCEPT, OUT, PROVIDE, put
from tests.ir.programs import training_step


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (AcceptInput(1, "input"), "m1 = user input [for node: 'input']"),
        (ProvideOutput(OUT, "output"), "output m6 to user [for node: 'output']"),
        (SegmentMarker(), "[end of segment]"),
        (Repeat(3, 2), "repeat 3 times, i = 0:2, the next 2 commands"),
        (Repeat(3, 2, 1, -2), "repeat 3 times, i = 0:2, the next 2 commands [memo +1i, precomputed -2i]"),
    ],
)
def test_each_is_printed(command: Command, text: str) -> None:
    assert command.text(training_step()) == text


def test_each_has_a_role_that_no_pass_removes() -> None:
    roles = [each.role for each in (AcceptInput, ProvideOutput, Repeat, SegmentMarker)]
    assert roles == [Role.IO, Role.IO, Role.CONTROL, Role.CONTROL]


@pytest.mark.parametrize(
    ("place", "command", "message"),
    [
        (ACCEPT, AcceptInput(1, "output2"), "'output2' is not an input or an output with derivative"),
        (PROVIDE, ProvideOutput(OUT, "input2"), "'input2' is not an output or an input with derivative"),
        (PROVIDE, Repeat(0, 1), "it repeats 1 commands 0 times; both must be at least 1"),
        (PROVIDE, Repeat(2, 0), "it repeats 0 commands 2 times; both must be at least 1"),
    ],
)
def test_what_cannot_be_is_said(place: int, command: Command, message: str) -> None:
    computation = training_step()
    put(place, command)(computation)
    with pytest.raises(ComputationCheckError, match=re.escape(message)):
        check_computation(computation)
