"""The columns of sub-matrices and the operands of commands, as tables."""

from __future__ import annotations

from nnet3.engine.ir.proof.program_columns import ProgramColumns, keys_of_rows
from tests.ir.programs import training_step


def test_columns_are_known_by_where_they_are() -> None:
    c = training_step()
    same = [c.new_submatrix(1, 0, 2), c.new_submatrix(1, 2, 3)]
    part = c.new_submatrix(1, 0, 2, 1, 2)
    found = ProgramColumns(c)
    assert found.span[1] == found.span[same[0]] == found.span[same[1]]
    assert len({found.span[1], found.span[2], found.span[part]}) == 3
    assert found.spans[found.span[part]] == [1, 1, 2]


def test_operands_are_those_of_the_commands() -> None:
    c = training_step()
    found = ProgramColumns(c).commands
    for command_class, numbers, operands in found:
        own = [c.commands[number] for number in numbers]
        assert {type(each) for each in own} == {command_class}
        assert operands.tolist() == [list(each.schema.operands(each)) for each in own]
    assert sorted(number for rows in found for number in rows.numbers) == list(range(len(c.commands)))


def test_keys_are_equal_for_equal_rows() -> None:
    one, other, again = keys_of_rows([1, 1, 1], [[2, 3], [3, 2], [2, 3]])
    assert one == again != other
