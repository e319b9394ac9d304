"""What commands declare of their fields: other operands, substitution, equality."""

from __future__ import annotations

import pytest

from nnet3.engine.ir import commands as cmd
from nnet3.engine.ir.commands import Command, substitute, with_operands, with_values


def test_commands_are_made_with_other_operands() -> None:
    back = cmd.Backprop(0, "a", (1, 0), 2, 3, (0, 4), (5, 0), update=True, memo=1)
    assert back.schema.operands(back) == (1, 0, 2, 3, 0, 4, 5, 0)
    assert with_operands(back, range(8)) == cmd.Backprop(0, "a", (0, 1), 2, 3, (4, 5), (6, 7), update=True, memo=1)
    assert with_operands(cmd.CopyRows(1, 2, 7), (3, 4)) == cmd.CopyRows(3, 4, 7)
    assert with_values(cmd.CopyRows(1, 2, 7), scale=2.0) == cmd.CopyRows(1, 2, 7, 2.0)


def test_substitution_renumbers_operands() -> None:
    target = [0, 1, 9, 3]
    copy = cmd.MatrixCopy(1, 3, 0.5)
    assert substitute(copy, target) is copy
    assert substitute(cmd.MatrixCopy(1, 2, 0.5), target) == cmd.MatrixCopy(1, 9, 0.5)
    rows = cmd.CopyRows(1, 3, 1)
    assert hash(substitute(rows, target)) == hash(cmd.CopyRows(1, 3, 1))


def test_every_field_is_declared() -> None:
    with pytest.raises(TypeError, match="field 'dest' of command Forgetful is not declared: annotate it with a name"):

        class Forgetful(Command):
            dest: int


def test_commands_that_differ_in_kind_differ() -> None:
    assert cmd.MatrixCopy(1, 2) != cmd.MatrixAdd(1, 2)
    assert len({cmd.MatrixCopy(1, 2), cmd.MatrixCopy(1, 2), cmd.MatrixCopy(1, 3)}) == 2
