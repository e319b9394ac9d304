"""Each command by itself on the executor, and random programs, compared with a naive interpreter."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

from nnet3.engine.ir import commands as cmd
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.program_tables import SubMatrix
from nnet3.engine.ir.repeats import unrolled
from nnet3.engine.runtime import NnetComputer, plan
from nnet3.engine.runtime.rules import RULES
from nnet3.errors import ExecutionError
from tests.runtime.naive_interpreter import NaiveInterpreter
from tests.runtime.programs import Program, random_programs
from tests.runtime.toy_kernels import Product, net


def random_inputs(computation: NnetComputation, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    blocks = {io.name: computation.submatrices[io.value] for io in computation.inputs}
    return {name: rng.standard_normal((block.num_rows, block.num_cols)) for name, block in blocks.items()}


def run(computation: NnetComputation, inputs: dict[str, np.ndarray], **options: Any) -> dict[str, np.ndarray]:
    return next(runs(computation, inputs, **options))


def runs(
    computation: NnetComputation, inputs: dict[str, np.ndarray], **options: Any
) -> Iterator[dict[str, np.ndarray]]:
    """Runs on one computer again and again."""
    computer = NnetComputer(computation, net(product=Product()), dtype=torch.float64, **options)
    while True:
        for name, value in inputs.items():
            computer.accept_input(name, value)
        computer.run()
        yield {io.name: computer.get_output(io.name).numpy() for io in computation.outputs}


def check_against_interpreter(computation: NnetComputation, seed: int = 0) -> None:
    inputs = random_inputs(computation, seed)
    expected = NaiveInterpreter(computation, {"product": Product()}).run(inputs)
    # Calls of loops are bound anew in the first run, and kept from the second on.
    for got in (*islice(runs(computation, inputs), 3), run(unrolled(computation), inputs)):
        assert got.keys() == expected.keys()
        for name in expected:
            np.testing.assert_allclose(got[name], expected[name], rtol=1e-12, atol=1e-12)


@given(random_programs(), st.integers(0, 1000))
def test_random_programs_agree_with_the_interpreter(computation: NnetComputation, seed: int) -> None:
    check_against_interpreter(computation, seed)


def test_a_body_may_have_nothing_to_call() -> None:
    program = Program()
    value = program.input("in", 4, 2)
    nothing = program.index_table([-1, -1])
    block = program.computation.find_or_add(SubMatrix(1, 0, 2, 0, 2, 1))
    source = program.matrix(3, 2, zeroed=True)
    program.add(cmd.Repeat(3, 1), cmd.AddRows(block, source, nothing))
    program.output("out", value)
    check_against_interpreter(program.computation)


def test_every_command_but_control_has_a_rule() -> None:
    classes = {c for c in vars(cmd).values() if isinstance(c, type) and issubclass(c, cmd.Command)} - {cmd.Command}
    assert set(RULES) == {c for c in classes if c.role is not cmd.Role.CONTROL}


def test_unknown_command_is_an_error() -> None:
    class Dance(cmd.Command):
        """Nobody knows how."""

    program = Program()
    program.add(Dance())
    with pytest.raises(ExecutionError, match=r"command c0 is a Dance, which has no rule .* AcceptInput, AddRowRan"):
        NnetComputer(program.computation, net())


# ---- rows: regular patterns go through views, others by index; both must agree with the interpreter ----

SHUFFLED = np.random.default_rng(1).permutation(60)
WITH_GAPS = np.full(60, -1)
WITH_GAPS[np.arange(60) % 7 != 0] = np.arange(51)[::-1]
PATTERNS = {
    "consecutive": np.arange(60),
    "shifted": np.arange(20) + 30,
    "every third": np.arange(0, 60, 3),
    "one row repeated": np.full(40, 7),
    "transposed": np.arange(60).reshape(6, 10).T.reshape(-1),
    "pieces": np.concatenate([np.arange(20), np.arange(30, 45), np.arange(3)]),
    "backwards": np.arange(60)[::-1],
    "shuffled": SHUFFLED,
    "shuffled part": SHUFFLED[:35],
    "with repeats": SHUFFLED[np.arange(70) % 50],
    "edges missing": np.concatenate([[-1] * 5, np.arange(20), [-1] * 5]),
    "every second missing": np.where(np.arange(40) % 2 == 0, np.arange(40), -1),
    "shuffled with holes": np.where(SHUFFLED % 3 == 0, -1, SHUFFLED),
    "backwards with gaps": WITH_GAPS,
    "transposed, then consecutive": np.concatenate([np.arange(60).reshape(6, 10).T.reshape(-1), np.arange(9)]),
    "all missing": np.full(10, -1),
    "no rows": np.zeros(0, dtype=np.int64),
}


def row_program(command: type[cmd.Command], pattern: np.ndarray, *, narrow: bool, scale: float) -> NnetComputation:
    """`command` between matrices with 3 columns, which with `narrow` are parts of wider ones.

    For scatters the pattern names rows of the dest, and each only once.
    """
    program, width, col = Program(), 5 if narrow else 3, 1 if narrow else 0
    scatters = command is cmd.AddToRowsMulti
    if scatters:
        first_use = np.unique(pattern, return_index=True)[1]
        pattern = np.where(np.isin(np.arange(len(pattern)), first_use), pattern, -1)
    wide = program.input("wide", 60, width)
    tall = program.input("tall", len(pattern), width)
    named, other = program.part(wide, 0, 60, col, 3), program.part(tall, 0, len(pattern), col, 3)
    if command in (cmd.CopyRows, cmd.AddRows):
        program.add(command(other, named, program.index_table(pattern.tolist()), scale))
    else:
        pairs = [(named, row) if row >= 0 else (-1, -1) for row in pattern.tolist()]
        program.add(command(other, program.multi_table(pairs), scale))
    program.output("written", wide if scatters else tall)
    return program.computation


@pytest.mark.parametrize("narrow", [False, True], ids=["contiguous", "columns of a wider matrix"])
@pytest.mark.parametrize("pattern", PATTERNS.values(), ids=PATTERNS.keys())
@pytest.mark.parametrize(
    "command",
    [cmd.CopyRows, cmd.AddRows, cmd.CopyRowsMulti, cmd.AddRowsMulti, cmd.AddToRowsMulti],
)
def test_row_commands_agree_with_the_interpreter(command: type[cmd.Command], pattern: np.ndarray, narrow: bool) -> None:
    for scale in (1.0, -0.5):
        check_against_interpreter(row_program(command, pattern, narrow=narrow, scale=scale))


@pytest.mark.parametrize("pattern", ["consecutive", "every third", "one row repeated", "transposed", "pieces"])
def test_regular_patterns_take_one_call_and_no_index(pattern: str) -> None:
    computation = row_program(cmd.CopyRowsMulti, PATTERNS[pattern], narrow=False, scale=1.0)
    made = plan(computation)
    command = next(n for n, c in enumerate(computation.commands) if isinstance(c, cmd.CopyRowsMulti))
    assert (made.call_command == command).sum() == 1
    assert made.indexes == ()


@pytest.mark.parametrize("scale", [1.0, 2.0])
@pytest.mark.parametrize("per_step", [1, 4], ids=["one sequence", "four sequences"])
def test_gather_from_and_scatter_to_step_matrices(per_step: int, scale: float) -> None:
    """What a recurrent net does: T step matrices come together, and are filled again from one."""
    program, num_steps = Program(), 12
    steps = [program.input(f"step{t}", per_step, 3) for t in range(num_steps)]
    pairs = [(step, row) for step in steps for row in range(per_step)]
    gathered = program.matrix(len(pairs), 3)
    table = program.multi_table(pairs)
    program.add(cmd.CopyRowsMulti(gathered, table, scale), cmd.AddRowsMulti(gathered, table, scale))
    backwards = program.multi_table(pairs[::-1])
    program.add(cmd.AddToRowsMulti(gathered, backwards, scale), cmd.AddToRowsMulti(gathered, table, scale))
    for number, matrix in enumerate([gathered, *steps]):
        program.output(f"out{number}", matrix)
    check_against_interpreter(program.computation)


def test_scatter_of_consecutive_row_numbers_to_different_matrices() -> None:
    program = Program()
    targets = [program.input(f"target{t}", rows, 2) for t, rows in enumerate([40, 50, 30])]
    source = program.input("source", 7, 2)
    pairs = list(zip(np.repeat(targets, [2, 3, 2]).tolist(), range(7), strict=True))
    program.add(cmd.AddToRowsMulti(source, program.multi_table(pairs)))
    for number, matrix in enumerate(targets):
        program.output(f"out{number}", matrix)
    check_against_interpreter(program.computation)


@pytest.mark.parametrize(
    "ranges",
    [
        pytest.param([(3 * i, 3 * i + 3) for i in range(20)], id="equal, side by side"),
        pytest.param([(i, i + 5) for i in range(50)], id="equal, overlapping"),
        pytest.param([(0, i) for i in range(1, 40)], id="growing"),
        pytest.param([(i, i + 1) for i in range(10)], id="single rows"),
        pytest.param([(0, 60), (5, 5), (0, 0), (59, 60)], id="some empty"),
        pytest.param([(int(i), int(i) + 1 + int(i) % 3) for i in SHUFFLED[:50] - 3 if i >= 0], id="shuffled"),
        pytest.param([(7, 7)] * 3, id="all empty"),
    ],
)
def test_add_row_ranges(ranges: list[tuple[int, int]]) -> None:
    for width, scale in ((3, 1.0), (5, -2.0)):
        program = Program()
        source, dest = program.input("source", 60, width), program.input("dest", len(ranges), width)
        parts = program.part(dest, 0, len(ranges), 0, 3), program.part(source, 0, 60, width - 3, 3)
        program.add(cmd.AddRowRanges(*parts, program.range_table(ranges), scale)).output("out", dest)
        check_against_interpreter(program.computation)


# ---- memory ----


def test_compress_and_decompress() -> None:
    program = Program()
    matrix = program.input("x", 1, 4)
    program.add(cmd.CompressMatrix(matrix))
    program.matrix(1, 4, zeroed=True)
    program.add(cmd.DecompressMatrix(matrix)).output("y", matrix)
    y = run(program.computation, {"x": np.array([[-1.5, 0, 0.334, 2]])})["y"]
    np.testing.assert_array_equal(y, [[0, 0, 1, 1]])


def test_compressed_matrix_lends_its_memory() -> None:
    """While x is compressed, another matrix of its size needs no memory of its own."""

    def arena_bytes(compress: bool) -> int:
        program = Program()
        matrix = program.input("x", 100, 100)
        program.add(*[cmd.CompressMatrix(matrix)] * compress)
        other = program.matrix(100, 100, zeroed=True)
        program.add(cmd.DeallocMatrix(other), *[cmd.DecompressMatrix(matrix)] * compress).output("y", matrix)
        return plan(program.computation).num_bytes

    assert arena_bytes(compress=False) == 2 * 40_000
    assert arena_bytes(compress=True) <= 40_000 + 10_000 + 64


def test_use_after_dealloc_is_an_error() -> None:
    program = Program()
    matrix = program.matrix(1, 4, zeroed=True)
    program.add(cmd.DeallocMatrix(matrix), cmd.SetConst(matrix, 1.0))
    with pytest.raises(ExecutionError, match="command c2 uses matrix m1, which is not in memory there"):
        NnetComputer(program.computation, net())
