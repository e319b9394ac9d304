"""Repeat: printed, written out, and refused where its body does not fit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from nnet3.engine.ir import commands as cmd
from nnet3.engine.ir.checker import check_computation
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.program_tables import IoInfo, SubMatrix
from nnet3.engine.ir.repeats import iterations_unrolled, unrolled
from nnet3.engine.ir.serialize import from_data, to_data
from nnet3.errors import ComputationCheckError


def sums(iterations: int = 4) -> NnetComputation:
    """m2(t) = m1(t) + m2(t - 1) for five rows: the first is a copy, then `iterations` iterations."""
    c = NnetComputation()
    x, y = c.new_matrix(5, 3), c.new_matrix(5, 3)
    c.inputs, c.outputs = [IoInfo("input", x, 0)], [IoInfo("output", y, 0)]
    before, now, given = (c.find_or_add(SubMatrix(m, row, 1, 0, 3, 1)) for m, row in ((2, 0), (2, 1), (1, 1)))
    c.commands = [
        cmd.AllocMatrix(x, zeroed=False),
        cmd.AcceptInput(x, "input"),
        cmd.AllocMatrix(y, zeroed=False),
        cmd.MatrixCopy(c.new_submatrix(y, 0, 1), c.new_submatrix(x, 0, 1)),
        cmd.Repeat(iterations, 2),
        cmd.MatrixCopy(now, before),
        cmd.MatrixAdd(now, given),
        cmd.ProvideOutput(y, "output"),
        cmd.DeallocMatrix(x),
    ]
    return c


def test_a_body_is_indented_and_says_how_it_moves() -> None:
    assert str(sums()).splitlines()[-5:-2] == [
        "c4: repeat 4 times, i = 0:3, the next 2 commands",
        "  c5: m2(1 + i, :) = m2(0 + i, :)",
        "  c6: m2(1 + i, :) += m1(1 + i, :)",
    ]


def test_unrolled_writes_every_iteration() -> None:
    whole = unrolled(sums())
    assert not list(whole.repeats())
    assert [command.text(whole) for command in whole.commands[4:12]] == [
        text for t in range(1, 5) for text in (f"m2({t}, :) = m2({t - 1}, :)", f"m2({t}, :) += m1({t}, :)")
    ]
    assert unrolled(whole) is whole


def test_iterations_have_their_numbers_in_the_unrolled_program() -> None:
    c = sums()
    c.commands[7:7] = [cmd.SetConst(2, 1.0), cmd.Repeat(3, 1), c.commands[6]]
    found = list(iterations_unrolled(c))
    assert [(repeat.iterations, numbers) for repeat, numbers in found] == [(4, range(4, 12)), (3, range(13, 16))]
    assert [unrolled(c).commands[number].text(unrolled(c)) for number in found[1][1]] == [
        f"m2({t}, :) += m1({t}, :)" for t in range(1, 4)
    ]


def test_references_move_on_by_their_steps() -> None:
    c = sums(2)
    c.commands[5:7] = [cmd.Propagate(0, "a", (1,), 3, precomputed=4, memo=7), cmd.Propagate(0, "a", (1,), 3)]
    c.commands[4] = cmd.Repeat(2, 2, memo_step=-2, precomputed_step=3)
    found = [command for command in unrolled(c).commands if isinstance(command, cmd.Propagate)]
    assert [(command.precomputed, command.memo) for command in found] == [(4, 7), (0, -1), (7, 5), (0, -1)]


def test_a_repeat_is_stored() -> None:
    c = sums()
    c.iterations[3] = np.array([[0, 1], [1, 1], [2, 1], [3, 1]])
    read = from_data(*to_data(c))
    assert read == c
    assert {number: iterations.tolist() for number, iterations in read.iterations.items()} == {
        3: c.iterations[3].tolist()
    }
    check_computation(read)


def _replace(number: int, *commands: cmd.Command) -> Callable[[NnetComputation], None]:
    def change(c: NnetComputation) -> None:
        c.commands[number : number + 1] = commands

    return change


def _table_that_moves(c: NnetComputation) -> None:
    table = c.new_multi_table(np.array([[5, 0]]))
    c.commands[6] = cmd.AddRowsMulti(4, table)


BROKEN = {
    "too many iterations": (
        _replace(4, cmd.Repeat(5, 2)),
        r"c5: .*m2\(1 \+ i, :\) is outside of its matrix in iteration 4",
    ),
    "no iterations": (_replace(4, cmd.Repeat(0, 2)), "c4: .*both must be at least 1"),
    "no end": (_replace(4, cmd.Repeat(4, 7)), "c4: .*it needs 7 commands behind it"),
    "no Repeat": (_replace(4), r"c4: .*names m2\(0 \+ i, :\), which moves, outside of a body"),
    "a Repeat inside": (_replace(5, cmd.Repeat(1, 1)), "c5: .*stands in the body of c4, where commands only compute"),
    "not written before": (_replace(3), "m2, part of which is undefined"),
    "a table that moves": (_table_that_moves, "a table of it names m1"),
}


@pytest.mark.parametrize(("change", "message"), BROKEN.values(), ids=BROKEN.keys())
def test_what_does_not_fit_is_refused(change: Callable[[NnetComputation], None], message: str) -> None:
    c = sums()
    check_computation(c)
    change(c)
    with pytest.raises(ComputationCheckError, match=f"(?s){message}"):
        check_computation(c)
