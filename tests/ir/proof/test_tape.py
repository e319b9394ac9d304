"""A tape, which has native code compute, gives the elements that a machine gives, which computes with NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from nnet3.base.native.library import library
from nnet3.engine.ir import commands as cmd
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.kernel import InputPromises, KernelInfo, slice_name
from nnet3.engine.ir.passes.pipeline import optimize
from nnet3.engine.ir.proof import equal
from nnet3.engine.ir.proof.columns import Columns
from nnet3.engine.ir.proof.equal import PassResult, add_columns, prove_equal
from nnet3.engine.ir.proof.notes import Notes
from nnet3.engine.ir.proof.program_machine import ProgramMachine
from nnet3.engine.ir.proof.randoms import Randoms
from nnet3.engine.ir.proof.tape import Tape
from nnet3.errors import ProofError
from tests.effort import draws
from tests.ir.programs import index_table, multi_table, range_table, recurrence, training_step
from tests.ir.random_programs import programs
from tests.ir.toy_kernels import DIM, KERNELS

pytestmark = pytest.mark.skipif(library() is None, reason="there is no native code")

_ROWS = 4


def check_same(*computations: NnetComputation, seed: int = 0) -> Notes:
    """Check that programs give on tapes, which share what is noted, exactly what they give on machines."""
    columns = Columns()
    for number, computation in enumerate(computations):
        add_columns(columns, number, computation)
    columns.settle()
    notes, randoms = Notes(columns, seed), Randoms(columns, seed)
    for number, computation in enumerate(computations):
        machine, tape = ProgramMachine(computation, number, randoms), Tape(computation, number, notes)
        with np.errstate(over="ignore"):
            machine.run()
            tape.run()
        for expected, got in ((machine.outputs, tape.outputs), (machine.effects, tape.effects)):
            assert expected.keys() == got.keys()
            for what, elements in expected.items():
                np.testing.assert_array_equal(got[what], elements, str(what))
    return notes


@settings(max_examples=draws(25))
@given(programs())
def test_random_programs_are_the_same(computation: NnetComputation) -> None:
    check_same(computation, optimize(computation), seed=1)


def test_training_steps_and_recurrences_are_the_same() -> None:
    for computation in (training_step(), recurrence(5)):
        check_same(computation, optimize(computation, level=4))


def test_what_is_noted_holds_for_any_rows() -> None:
    """A step of other lengths notes no more, but where it has one row, which goes with any number of rows."""
    alone, all_lengths = check_same(training_step(7)), check_same(*map(training_step, (7, 4, 90, 2)))
    assert all_lengths.templates.keys() == alone.templates.keys()
    assert len(check_same(*map(training_step, (7, 4, 1))).templates) > len(alone.templates)


def test_two_numbers_of_rows_stay_two() -> None:
    """Statistics over all rows, given back to other rows: noted once for each pair of equal or of other numbers."""

    def program(rows: int, others: int) -> NnetComputation:
        c = NnetComputation(kernels=[KernelInfo("pool", (InputPromises(),), needs_indexes=True)])
        x, y = c.new_matrix(rows, DIM), c.new_matrix(others, DIM)
        c.commands = [
            *(cmd.AllocMatrix(m, zeroed=True) for m in (x, y)),
            cmd.AcceptInput(x, "x"),
            cmd.Propagate(0, "pool", (x,), y),
            cmd.ProvideOutput(y, "y"),
        ]
        return c

    notes = check_same(*(program(*rows) for rows in ((4, 2), (9, 3), (3, 9), (5, 5), (8, 8), (6, 1))))
    groups: list[Any] = list(notes.templates)
    assert sum(command is cmd.Propagate for (command, *_), *_ in groups) == 3


def test_slices_of_equal_columns_are_noted_once_for_all_kernels() -> None:
    """Products with packed weights are right with the kernel's own alone."""

    def program(packed: tuple[str, str]) -> NnetComputation:
        c, plain = NnetComputation(), InputPromises()
        packers = [KernelInfo(slice_name(name, 0, DIM), (), row_by_row=True) for name in packed]
        slices = [KernelInfo(slice_name(name, 0, DIM), (plain, plain), row_by_row=True) for name in "ab"]
        c.kernels = [*packers, *slices]
        x, *own = [c.new_matrix(_ROWS, DIM) for _ in range(5)]
        c.commands = [*(cmd.AllocMatrix(m, zeroed=False) for m in (x, *own)), cmd.AcceptInput(x, "x")]
        for k, (weights, y) in enumerate(zip(own[:2], own[2:], strict=True)):
            c.commands += [cmd.Propagate(k, "n", (), weights), cmd.Propagate(2 + k, "n", (x, weights), y)]
        c.commands += [cmd.ProvideOutput(y, f"y{y}") for y in own[2:]]
        return c

    groups: list[Any] = list(check_same(program(("a", "b"))).templates)
    assert sum(command is cmd.Propagate for (command, *_), *_ in groups) == 2
    with pytest.raises(ProofError, match="differs in 4 rows"):
        prove_equal([PassResult("", program(("a", "b"))), PassResult("p", program(("b", "b")))])


def test_kernels_that_draw_are_noted_once_for_all_nodes() -> None:
    c = NnetComputation(kernels=[KernelInfo(name, (InputPromises(),), is_random=True) for name in "ab"])
    c.commands = [cmd.AllocMatrix(c.new_matrix(_ROWS, DIM), zeroed=True) for _ in range(5)]
    c.commands += [
        cmd.Propagate(kernel, node, (1,), 2 + k)
        for k, (kernel, node) in enumerate(((0, "a"), (0, "b"), (1, "b"), (0, "a")))
    ]
    c.commands += [cmd.ProvideOutput(m, f"y{m}") for m in range(2, 6)]
    notes = check_same(c)
    groups: list[Any] = list(notes.templates)
    assert sum(command is cmd.Propagate for (command, *_), *_ in groups) == 1


def moving_rows(width: int) -> NnetComputation:
    """All commands that move rows, each with a scale, on parts of matrices."""
    c = NnetComputation(kernels=list(KERNELS))
    x, y, z = (c.new_matrix(_ROWS, width) for _ in range(3))
    left, right = (c.new_submatrix(y, col_offset=first, num_cols=width // 2) for first in (0, width // 2))
    rows = index_table(c, [2, -1, 0, 0])
    c.commands = [
        *[cmd.AllocMatrix(m, zeroed=m == z) for m in (x, y, z)],
        cmd.AcceptInput(x, "input"),
        cmd.SetConst(y, -0.25),
        cmd.CopyRows(left, right, rows, 0.5),
        cmd.AddRows(y, x, rows),
        cmd.AddRowsMulti(y, multi_table(c, [(x, 1), (-1, -1), (z, 0), (x, 3)]), -2.0),
        cmd.AddToRowsMulti(x, multi_table(c, [(y, 3), (-1, -1), (z, 0), (y, 2)]), 3.0),
        cmd.AddRowRanges(z, x, range_table(c, [(0, 2), (1, 1), (3, 4), (0, 4)]), 0.1),
        cmd.CompressMatrix(x),
        cmd.DecompressMatrix(x),
        cmd.MatrixAdd(z, x, 1 / 3),
        cmd.CopyRowsMulti(x, multi_table(c, [(y, 1), (-1, -1), (z, 0), (y, 0)])),
        *[cmd.ProvideOutput(m, f"out{m}") for m in (x, y, z)],
    ]
    return c


def test_commands_that_move_rows_are_the_same() -> None:
    check_same(moving_rows(DIM), moving_rows(DIM))


def test_what_was_not_written_or_has_ended_is_random_and_other_in_each_program() -> None:
    def program(*commands: cmd.Command) -> NnetComputation:
        c = NnetComputation(kernels=list(KERNELS))
        for _ in range(2):
            c.new_matrix(_ROWS, DIM)
        c.commands = [cmd.AllocMatrix(1, zeroed=False), cmd.AllocMatrix(2, zeroed=True), *commands]
        c.commands += [cmd.MatrixCopy(2, 1), cmd.ProvideOutput(2, "y")]
        return c

    ends = cmd.DeallocMatrix(1), cmd.AllocMatrix(1, zeroed=False)
    for commands in ((), *[(first, end) for first in (cmd.SetConst(1, 1.0), cmd.AcceptInput(1, "x")) for end in ends]):
        with pytest.raises(ProofError, match="output 'y' differs in 4 rows"):
            prove_equal([PassResult("", program(*commands)), PassResult("p", program(*commands))])
    c = program()
    for half in (c.new_submatrix(1, num_cols=1), c.new_submatrix(1, num_rows=2)):
        half_written = program(cmd.SetConst(half, 1.0))
        half_written.submatrices = c.submatrices
        with pytest.raises(ProofError, match=r"output 'y' differs in [24] rows"):
            prove_equal([PassResult("", half_written), PassResult("p", half_written)])
    third, fourth = (c.new_matrix(_ROWS, DIM) for _ in range(2))
    alike = program(
        cmd.AllocMatrix(third, zeroed=False), cmd.SetConst(third, 1.0), cmd.AllocMatrix(fourth, zeroed=False)
    )
    alike.matrices, alike.submatrices = c.matrices, c.submatrices
    alike.commands[-2:-2] = [
        cmd.MatrixCopy(fourth, third)
    ]  # as the copy behind it, which reads what nobody has written
    with pytest.raises(ProofError, match="output 'y' differs in 4 rows"):
        prove_equal([PassResult("", alike), PassResult("p", alike)])
    again = [cmd.SetConst(1, 1.0), cmd.DeallocMatrix(1), cmd.AllocMatrix(1, zeroed=True)]
    prove_equal([PassResult("", program(*again)), PassResult("p", program(*again))])


def test_a_tape_stays_inside_its_memory() -> None:
    c = moving_rows(DIM)
    c.submatrices[2] = c.submatrices[2]._replace(num_rows=_ROWS + 1)
    with pytest.raises(ProofError, match="rows of sub-matrix 2 are none of matrix m2"):
        prove_equal([PassResult("", moving_rows(DIM)), PassResult("p", c)])


def test_without_native_code_a_machine_proves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(equal, "library", lambda **_: None)
    monkeypatch.setattr(equal, "Tape", None)
    optimize(training_step(), prove=True)
