"""A machine does to elements what commands do to numbers, and shows what reads memory that nobody wrote."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from nnet3.engine.ir import commands as cmd
from nnet3.engine.ir.commands import Command
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.program_tables import IoInfo
from nnet3.engine.ir.proof import field
from nnet3.engine.ir.proof.columns import Columns
from nnet3.engine.ir.proof.equal import PassResult, add_columns, prove_equal
from nnet3.engine.ir.proof.program_machine import ProgramMachine
from nnet3.engine.ir.proof.randoms import Randoms
from nnet3.errors import ProofError
from tests.ir.programs import index_table, multi_table, range_table, training_step
from tests.ir.toy_kernels import AFFINE, DIM, KERNELS, PRODUCT, SIGMOID

X, Y, SPARE = 1, 2, 3
_ROWS = 4
Write = Callable[[NnetComputation], list[Command]]


def program(write: Write, *, spare: bool = False) -> NnetComputation:
    """input (4 rows of two blocks of columns) -> commands -> output."""
    c = NnetComputation(kernels=list(KERNELS))
    x, y = c.new_matrix(_ROWS, DIM), c.new_matrix(_ROWS, DIM)
    c.new_matrix(_ROWS, DIM)
    c.inputs, c.outputs = [IoInfo("input", x, 0)], [IoInfo("output", y, 0)]
    begin = [cmd.AllocMatrix(m, zeroed=False) for m in ((x, y, SPARE) if spare else (x, y))]
    c.commands = [*begin, cmd.AcceptInput(x, "input"), *write(c), cmd.ProvideOutput(y, "output")]
    return c


def ran(computation: NnetComputation, number: int = 0, seed: int = 0) -> ProgramMachine:
    columns = Columns()
    add_columns(columns, number, computation)
    columns.settle()
    machine = ProgramMachine(computation, number, Randoms(columns, seed))
    machine.run()
    return machine


def output(write: Write, *, spare: bool = False) -> field.Elements:
    """Returns what a program hands out, (rows, blocks, 2)."""
    return ran(program(write, spare=spare)).outputs["output", "output", 0]


def given() -> field.Elements:
    """What is given under the name of the input."""
    return output(lambda c: [cmd.MatrixCopy(Y, X)])


def differ(one: Write, other: Write, seed: int = 0) -> str:
    """Returns what a proof says of two programs, "" if it finds them equal."""
    try:
        prove_equal([PassResult("", program(one, spare=True)), PassResult("p", program(other, spare=True))], seed)
    except ProofError as error:
        return str(error)
    return ""


def test_commands_do_to_elements_what_they_do_to_numbers() -> None:
    x = given()
    half = field.element(0.5)
    rows = [2, -1, 0, 0]
    copied = np.where(np.array(rows)[:, None, None] >= 0, x[rows], 0)

    def on_ones(command: Callable[[NnetComputation], Command]) -> field.Elements:
        return output(lambda c: [cmd.SetConst(Y, 1.0), command(c)])

    assert (output(lambda c: [cmd.MatrixCopy(Y, X, 0.5)]) == field.product(x, half)).all()
    assert (on_ones(lambda c: cmd.MatrixAdd(Y, X, 0.5)) == field.reduced(1 + field.product(x, half))).all()
    assert (output(lambda c: [cmd.SetConst(Y, 0.5)]) == half).all()
    assert (on_ones(lambda c: cmd.CopyRows(Y, X, index_table(c, rows), 0.5)) == field.product(copied, half)).all()
    assert (on_ones(lambda c: cmd.AddRows(Y, X, index_table(c, rows))) == field.reduced(1 + copied)).all()
    pairs = [(X, row) if row >= 0 else (-1, -1) for row in rows]
    assert (on_ones(lambda c: cmd.CopyRowsMulti(Y, multi_table(c, pairs))) == copied).all()
    added = field.reduced(1 + field.product(copied, half))
    assert (on_ones(lambda c: cmd.AddRowsMulti(Y, multi_table(c, pairs), 0.5)) == added).all()
    ranges = [(0, 2), (1, 1), (3, 4), (0, 4)]
    sums = np.stack([field.total(x[first:end]) for first, end in ranges])
    assert (on_ones(lambda c: cmd.AddRowRanges(Y, X, range_table(c, ranges))) == field.reduced(1 + sums)).all()


def test_rows_are_sent_to_where_a_table_says() -> None:
    x = given()
    made = output(
        lambda c: [
            cmd.SetConst(Y, 1.0),
            cmd.AddToRowsMulti(X, multi_table(c, [(Y, 3), (-1, -1), (Y, 0), (Y, 2)]), 2.0),
        ]
    )
    expected = np.ones_like(x)
    expected[[3, 0, 2]] = field.reduced(1 + 2 * x[[0, 2, 3]])
    assert (made == expected).all()


def test_a_compressed_matrix_is_its_signs() -> None:
    def compressed(scale: float) -> Write:
        return lambda c: [
            cmd.MatrixCopy(SPARE, X, scale),
            cmd.CompressMatrix(SPARE),
            cmd.DecompressMatrix(SPARE),
            cmd.MatrixCopy(Y, SPARE),
        ]

    assert differ(compressed(1.0), compressed(1.0)) == ""
    assert "output 'output' differs in 4 rows: 0, 1, 2, 3" in differ(compressed(1.0), compressed(2.0))
    assert differ(compressed(1.0), lambda c: [cmd.MatrixCopy(Y, X)])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda c: [cmd.MatrixCopy(Y, SPARE)], "differs in 4 rows"),
        (lambda c: [cmd.MatrixCopy(Y, X), cmd.MatrixAdd(Y, SPARE, 0.0)], ""),
        (lambda c: [cmd.MatrixCopy(c.new_submatrix(Y, 0, 3), c.new_submatrix(X, 0, 3))], "differs in 1 rows: 3"),
        (lambda c: [cmd.MatrixCopy(SPARE, X), cmd.DeallocMatrix(SPARE), cmd.MatrixCopy(Y, SPARE)], "differs in 4 rows"),
        (
            lambda c: [
                cmd.MatrixCopy(SPARE, X),
                cmd.DeallocMatrix(SPARE),
                cmd.AllocMatrix(SPARE, zeroed=False),
                cmd.MatrixCopy(Y, SPARE),
            ],
            "differs in 4 rows",
        ),
    ],
)
def test_memory_that_nobody_wrote_shows_even_if_the_same_program_reads_it(
    write: Write, message: str, seed: int
) -> None:
    found = differ(write, write, seed)
    assert (message in found) if message else (found == "")


@pytest.mark.parametrize("seed", range(3))
def test_undefined_memory_shows_behind_a_zero(seed: int) -> None:
    """A kernel's value at zero is random too: what is multiplied by it does not vanish."""

    def write(c: NnetComputation) -> list[Command]:
        return [
            cmd.SetConst(X, 0.0),
            cmd.Propagate(PRODUCT, "gate", (X, SPARE), Y),
        ]

    assert "differs in 4 rows" in differ(write, write, seed)


def test_what_ends_is_read_as_something_else() -> None:
    machine = ran(program(lambda c: [cmd.MatrixCopy(Y, X)]))
    machine.begin(Y, zeroed=True)
    assert not machine.read(Y).any()
    machine.end(Y)
    assert machine.read(Y).any(axis=-1).all()
    assert machine.read(0).size == 0


def test_an_overlap_that_is_not_allowed_spoils_what_is_written() -> None:
    def shifted(c: NnetComputation) -> list[Command]:
        upper, lower = c.new_submatrix(X, 0, 3), c.new_submatrix(X, 1, 3)
        return [cmd.MatrixCopy(lower, upper), cmd.MatrixCopy(Y, X)]

    assert "differs in 3 rows: 1, 2, 3" in differ(shifted, shifted)

    def by_table(c: NnetComputation) -> list[Command]:
        upper, lower = c.new_submatrix(X, 0, 3), c.new_submatrix(X, 1, 3)
        return [cmd.CopyRowsMulti(lower, multi_table(c, [(upper, row) for row in range(3)])), cmd.MatrixCopy(Y, X)]

    assert "differs in 3 rows: 1, 2, 3" in differ(by_table, by_table)

    def through(kernel: int) -> Write:
        return lambda c: [cmd.Propagate(kernel, "k", (X,), X), cmd.MatrixCopy(Y, X)]

    assert differ(through(SIGMOID), through(SIGMOID)) == ""
    assert "differs in 4 rows" in differ(through(AFFINE), through(AFFINE))
    assert differ(through(SIGMOID), lambda c: [cmd.Propagate(SIGMOID, "k", (X,), Y)]) == ""


def test_iterations_of_a_repeat_are_run_one_by_one() -> None:
    def unrolled(c: NnetComputation) -> list[Command]:
        rows = [(c.new_submatrix(X, r, 1), c.new_submatrix(Y, r, 1), c.new_submatrix(Y, r - 1, 1)) for r in (1, 2, 3)]
        steps = [step for x, y, before in rows for step in (cmd.MatrixCopy(y, x), cmd.MatrixAdd(y, before))]
        return [
            cmd.MatrixCopy(c.new_submatrix(Y, 0, 1), c.new_submatrix(X, 0, 1)),
            *steps,
            cmd.MatrixAdd(*rows[0][2:0:-1]),
        ]

    def looped(c: NnetComputation) -> list[Command]:
        first = cmd.MatrixCopy(c.new_submatrix(Y, 0, 1), c.new_submatrix(X, 0, 1))
        x, y, before = (c.new_submatrix(m, r, 1) for m, r in ((X, 1), (Y, 1), (Y, 0)))
        for number in (x, y, before):
            c.submatrices[number] = c.submatrices[number]._replace(row_step=1)
        return [first, cmd.Repeat(3, 2), cmd.MatrixCopy(y, x), cmd.MatrixAdd(y, before), cmd.MatrixAdd(before, y)]

    assert differ(unrolled, looped) == ""
    assert "differs in 1 rows: 3" in differ(unrolled, lambda c: [cmd.SetConst(Y, 0.0), *_shorter(looped(c))])


def _shorter(commands: list[Command]) -> list[Command]:
    return [cmd.Repeat(2, each.length) if isinstance(each, cmd.Repeat) else each for each in commands]


def test_a_run_leaves_nothing_that_keeps_the_program() -> None:
    machine = ran(training_step())
    assert not machine.calls
    assert not machine.memos
    assert set(machine.outputs) == {("output", "output", 0), ("output", "input", 0)}


def test_outside_memory_is_the_same_in_all_programs_and_handed_out_if_it_was_written() -> None:
    def with_outside(scale: float, *, writable: bool) -> NnetComputation:
        c = program(lambda c: [cmd.MatrixCopy(Y, X)])
        weight = c.new_outside("W", _ROWS, DIM, writable=writable)
        c.commands.insert(-1, cmd.MatrixAdd(Y, weight) if not writable else cmd.MatrixAdd(weight, Y, scale))
        return c

    one = ran(with_outside(1.0, writable=False))
    assert (one.outputs["output", "output", 0] != given()).any(axis=-1).all()
    first, second = (PassResult("p", with_outside(scale, writable=True)) for scale in (1.0, 2.0))
    prove_equal([first, first])
    with pytest.raises(ProofError, match="memory 'W' differs in 4 rows: 0, 1, 2, 3"):
        prove_equal([first, second])
