"""The line that a class of commands declares is written and read."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np
import pytest

from nnet3.base.index import NO_TIME
from nnet3.engine.ir import commands as cmd
from nnet3.engine.ir.declarations import Flag, IndexList, Reads, Writes
from nnet3.engine.ir.kernel import InputPromises, KernelInfo
from nnet3.engine.ir.parser import parse_computation
from nnet3.engine.ir.program_tables import MatrixInfo
from nnet3.errors import ConfigError
from tests.ir.every_command import COMMANDS, every_kind
from tests.ir.program_text import read_again
from tests.ir.programs import training_step
from tests.own_commands import forgotten_after


@pytest.mark.parametrize("command", [command for command, _ in COMMANDS], ids=[type(c).__name__ for c, _ in COMMANDS])
def test_every_command_is_read_as_it_is_written(command: cmd.Command) -> None:
    computation = every_kind()
    computation.commands = [command]
    read_again(computation)


def test_a_command_that_nobody_knows_is_read_by_its_declarations() -> None:
    with forgotten_after():

        @dataclass(frozen=True)
        class Shuffle(cmd.Command):
            dest: Writes
            sources: tuple[Reads, ...]
            rows: IndexList
            often: Flag = False

        computation = every_kind()
        computation.commands = [Shuffle(1, (2, 3), 0), Shuffle(5, (2,), 0, True)]
        text = computation.text(full=True)
        assert "Shuffle(m1, (m2, m3), [0:2, -1x2, 7, 9, 8, 7, -1], False)" in text
        read_again(computation)


def test_names_of_all_kinds() -> None:
    c = training_step()
    odd = 'it\'s "a" (name) \\ # with\nall'
    c.kernels += [replace(c.kernels[0], name=odd), replace(c.kernels[0], name=odd, is_random=True)]
    c.kernels.append(KernelInfo("", (), backprop_is_linear=False))
    c.kernels.append(KernelInfo("gate[0:3]+", (InputPromises(), InputPromises(is_linear=True))))
    c.commands += [cmd.Propagate(len(c.kernels) - back, name, (1,), 2) for back, name in enumerate((odd, "x[1]"), 1)]
    c.commands += [cmd.Propagate(len(c.kernels) - 3, odd, (1,), 2), cmd.AcceptInput(1, odd)]
    c.matrix_info[1] = MatrixInfo(odd, True, np.array([[0, NO_TIME, 0], [1, NO_TIME, 0], [1, -3, 2]] * 2, np.int32))
    c.new_outside(odd, 5, 40, False, MatrixInfo("W", False, None))
    c.fingerprint = {"structure": odd}
    read_again(c)


BEGIN = """\
kernel affine [] of []
m1(4, 3)
m2(4, 3)
"""
ERRORS = {
    "m1 == m2": "4:3: expected ' = user input [for node: ' or ' = ' or ' = []' or",
    "m1 += m2 and": "4:9: expected the end of the line, got ' and'",
    "m1 = zeros(4, 2)": "4:11: expected '(4, 3)', the size of m1, got '(4, 2)'",
    "affin.Propagate(m1, &m2)": "4:1: expected a kernel with a line of its own above, such as 'kernel affin [] of []'",
    "affine.Propagate(m1, &m2) [memos 1]": "4:28: expected 'node ' or 'precomputed ' or 'memo ' or 'store stats'",
    "affine.Propagate(m1, &m2) [node b, node c]": "4:36: expected 'precomputed ' or 'memo ' or 'store stats', got",
    "affine.Backprop(m1, [], m2, m2)": "4:29: expected '&' or '+= ', got 'm2)'",
}


@pytest.mark.parametrize(("line", "message"), ERRORS.items(), ids=ERRORS.keys())
def test_an_error_says_where_what_was_expected_and_what_was_got(line: str, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"small.txt:{message}")):
        parse_computation(BEGIN + line, "small.txt")
