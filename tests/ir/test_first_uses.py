"""The checker on programs with loops says what it says of the same programs with every iteration written out."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings, strategies as st

from nnet3.engine.ir import commands as cmd
from nnet3.engine.ir.checker import check_computation
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.kernel import InputPromises, KernelInfo
from nnet3.engine.ir.program_tables import SubMatrix
from nnet3.engine.ir.repeats import Positions, unrolled
from nnet3.errors import ComputationCheckError
from tests.call_count import count_calls
from tests.effort import draws

ROWS, COLS = 12, 4
RULES = "undefined", "overlap", "already", "no command before", "is that of"


@st.composite
def programs(draw: st.DrawFn) -> NnetComputation:
    """Two or three matrices; commands before, in and behind a loop copy, add and set blocks of them."""
    c = NnetComputation()
    wholes = [c.new_matrix(ROWS, COLS) for _ in range(draw(st.integers(2, 3)))]
    iterations = draw(st.integers(1, 5))

    def block(rows: int, cols: int, *, moves: bool) -> int:
        step = draw(st.integers(-2, 2)) if moves else 0
        reach = step * (iterations - 1)
        first = draw(st.integers(max(0, -reach), ROWS - rows - max(0, reach)))
        matrix = draw(st.sampled_from(range(1, len(c.matrices))))
        c.submatrices.append(SubMatrix(matrix, first, rows, draw(st.integers(0, COLS - cols)), cols, step))
        return len(c.submatrices) - 1

    def uneven(number: int, counts: list[int]) -> int:
        firsts = [draw(st.integers(0, ROWS - count)) for count in counts]
        first = c.submatrices[number]._replace(row_offset=firsts[0], num_rows=counts[0], row_step=0)
        c.submatrices.append(first)
        c.iterations[len(c.submatrices) - 1] = np.stack([firsts, counts], axis=1)
        return len(c.submatrices) - 1

    def command(*, moves: bool) -> cmd.Command:
        kind = draw(st.sampled_from(["copy", "add", "set"]))
        rows, cols = (draw(st.integers(1, 3)) for _ in range(2))
        operands = [block(rows, cols, moves=moves) for _ in range(1 if kind == "set" else 2)]
        if moves and draw(st.booleans()):
            counts = draw(st.lists(st.integers(1, 3), min_size=iterations, max_size=iterations))
            operands = [uneven(each, counts) for each in operands]
        if kind == "set":
            return cmd.SetConst(operands[0], 0.0)
        return cmd.MatrixCopy(*operands) if kind == "copy" else cmd.MatrixAdd(*operands)

    body = [command(moves=True) for _ in range(draw(st.integers(1, 3)))]
    c.commands = [
        *(cmd.AllocMatrix(whole, zeroed=draw(st.booleans())) for whole in wholes),
        *(command(moves=False) for _ in range(draw(st.integers(0, 3)))),
        *(cmd.Repeat(iterations, len(body)), *body),
        *(command(moves=False) for _ in range(draw(st.integers(0, 2)))),
        *map(cmd.DeallocMatrix, wholes),
    ]
    return c


def verdict(computation: NnetComputation) -> str:
    """The rule that is broken, without where; nothing if none is."""
    try:
        check_computation(computation)
    except ComputationCheckError as error:
        return next(
            word
            for word in ("undefined", "overlap", "already", "no command before", "is that of")
            if word in str(error)
        )
    return ""


@settings(max_examples=draws(300))
@given(programs())
def test_loops_are_right_if_all_iterations_are(computation: NnetComputation) -> None:
    assert verdict(computation) == verdict(unrolled(computation))


@st.composite
def memos(draw: st.DrawFn) -> NnetComputation:
    """Two loops of equally many iterations, and commands between, with kernels that make and use memos."""
    promises = (InputPromises(),)
    c = NnetComputation(kernels=[KernelInfo(name, promises, uses_memo=True) for name in "ab"], num_memos=40)
    x, y = c.new_matrix(2, 3), c.new_matrix(2, 3)
    iterations, memo, kernel = draw(st.integers(1, 4)), st.integers(10, 16), st.integers(0, 1)

    def makes() -> cmd.Command:
        return cmd.Propagate(draw(kernel), "node", (x,), y, memo=draw(memo))

    def uses() -> cmd.Command:
        return cmd.Backprop(draw(kernel), "node", (x,), 0, y, (0,), (0,), update=False, memo=draw(memo))

    steps = st.integers(-2, 2)
    c.commands = [
        *(cmd.AllocMatrix(each, zeroed=True) for each in (x, y)),
        *(makes() for _ in range(draw(st.integers(0, 1)))),
        *(cmd.Repeat(iterations, 1, memo_step=draw(steps)), makes()),
        *(makes() for _ in range(draw(st.integers(0, 1)))),
        *(cmd.Repeat(iterations, 1, memo_step=draw(steps)), uses()),
        *map(cmd.DeallocMatrix, (x, y)),
    ]
    return c


@settings(max_examples=draws(200))
@given(memos())
def test_memos_of_loops_are_those_of_all_iterations(computation: NnetComputation) -> None:
    assert verdict(computation) == verdict(unrolled(computation))


def test_commands_have_their_positions_in_the_unrolled_program() -> None:
    c = NnetComputation(commands=[cmd.SegmentMarker(), cmd.Repeat(3, 2), *(cmd.SegmentMarker() for _ in range(3))])
    found = Positions(c)
    assert [found.command_at(position) for position in range(8)] == [
        *((0, 0), (2, 0), (3, 0), (2, 1), (3, 1), (2, 2), (3, 2), (4, 0)),
    ]


def test_many_iterations_take_no_more_calls_than_few() -> None:
    def chain(iterations: int) -> NnetComputation:
        c = NnetComputation()
        whole = c.new_matrix(iterations + 1, 2)
        row, next_row = (c.find_or_add(SubMatrix(1, first, 1, 0, 2, 1)) for first in (0, 1))
        first = c.new_submatrix(whole, 0, 1)
        body = [cmd.MatrixCopy(next_row, row)]
        c.commands = [
            *(cmd.AllocMatrix(whole, zeroed=False), cmd.SetConst(first, 1.0)),
            *(cmd.Repeat(iterations, len(body)), *body, cmd.DeallocMatrix(whole)),
        ]
        return c

    few, many = (count_calls(check_computation, chain(iterations)) for iterations in (5, 5000))
    assert few == many
