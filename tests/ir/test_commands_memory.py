"""Commands that begin, end and fill matrices."""

from __future__ import annotations

import pytest

from nnet3.engine.ir import commands as cmd
from nnet3.engine.ir.commands import Command
from tests.ir.programs import training_step


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (cmd.AllocMatrix(5, zeroed=True), "m5 = zeros(4, 3)"),
        (cmd.AllocMatrix(5, zeroed=False), "m5 = undefined(4, 3)"),
        (cmd.DeallocMatrix(5), "m5 = []"),
        (cmd.CompressMatrix(5), "m5.compress()"),
        (cmd.DecompressMatrix(5), "m5.decompress()"),
        (cmd.SetConst(5, 0.5), "m5.set(0.5)"),
    ],
)
def test_each_is_printed(command: Command, text: str) -> None:
    assert command.text(training_step()) == text
