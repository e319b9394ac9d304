"""Operations made for stand-ins are, in every iteration, those made of the tensors that views then are."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from torch import Tensor

from nnet3.base.native import operations as native
from nnet3.base.native.operations import ADDRESSES, COUNTED, FLOAT_BYTES, OF_ROW, OF_TURN, SIZES, TABLE, Operations
from nnet3.engine.ir import commands as cmd
from nnet3.engine.runtime import plan
from nnet3.engine.runtime.memory import Arena
from nnet3.engine.runtime.plan import Plan
from nnet3.engine.runtime.view_operations import ViewOperations, joined, on_views
from nnet3.engine.runtime.view_tensors import ViewTensors
from tests.runtime.programs import Program

FLOATS = 4000
WIDTH = 12  # of the matrices in which all views lie

Call = Callable[..., Operations | None]


def plan_with(views: Sequence[Sequence[int]], uneven: Sequence[np.ndarray] = ()) -> Plan:
    """A plan with these views: start, rows, columns, iteration stride, unevenness."""
    program = Program()
    program.add(cmd.SetConst(program.matrix(FLOATS // WIDTH, WIDTH), 1.0))
    rows = [
        (0, start, 0, 0, 0 if table else count, columns, 0, WIDTH, step, table)
        for start, count, columns, step, table in views
    ]
    return plan(program.computation).changed(views=np.array(rows), uneven=tuple(uneven))


def tensors_of(made: Plan) -> ViewTensors:
    return ViewTensors(made, Arena(made.num_bytes, torch.device("cpu")), {})


def operations(tensors: ViewTensors, call: Call, views: Sequence[int]) -> ViewOperations | None:
    """Those of a call on some views."""
    stand_ins = tensors.stand_ins()
    (found,) = on_views([call(*(stand_ins[view] for view in views))], stand_ins)
    return found


def in_iteration(made: ViewOperations, tensors: ViewTensors, iteration: int) -> Operations | None:
    """The operations of an iteration, as operations.c makes them."""
    bound, tables = made.bound_to(tensors.addresses), tensors.addresses.tables
    if bound is None:
        return None
    found = []
    for row, moves in zip(*bound, strict=True):
        blocks = [
            tables[table][iteration].tolist() if table >= 0 else (0, -1) for table in (*moves[TABLE], *moves[COUNTED])
        ]
        firsts, counts = np.array(blocks)[:, 0][:6], np.array(blocks)[:, 1][6:]
        now = row.copy()
        now[ADDRESSES] += FLOAT_BYTES * (iteration * moves[OF_TURN] + firsts * moves[OF_ROW])
        now[SIZES] = np.where(counts < 0, row[SIZES], counts)
        found.append(tuple(now.tolist()))
    return tuple(found)


def add_columns(y: Tensor, x: Tensor) -> Operations | None:
    return native.add(y[:, 2:5], x[:, 1:4], 0.5)


def product(y: Tensor, x: Tensor) -> Operations | None:
    """Weights are of no view."""
    return native.product(y[:, :4], x[:, -3:], WEIGHTS, None)


def gradient(y: Tensor, x: Tensor) -> Operations | None:
    """The number of rows is the inner size."""
    return native.product(WEIGHTS, y[:, :4].t(), x[:, :3].t(), WEIGHTS)


def summed(y: Tensor, x: Tensor) -> Operations | None:
    return native.sum_rows(SUMS, x, y)


def several(y: Tensor, x: Tensor) -> Operations | None:
    return native.in_a_row(native.tanh(y, x), native.sigmoid(y[:, 1:2], y[:, :1]))


CALLS = [add_columns, product, gradient, summed, several]
WEIGHTS, SUMS = torch.zeros(4, 3), torch.zeros(1, 6)


def check(call: Call, tensors: ViewTensors, iterations: int) -> None:
    found = operations(tensors, call, (0, 1))
    assert found is not None
    for iteration in range(iterations):
        y, x = (next(iter(tensors.of(view, range(iteration, iteration + 1)))) for view in (0, 1))
        tensors.forget_iterations()
        assert in_iteration(found, tensors, iteration) == call(y, x)


@pytest.mark.parametrize("call", CALLS)
@given(
    rows=st.integers(2, 6),
    starts=st.lists(st.integers(0, 60).map(lambda row: 1000 + WIDTH * row), min_size=2, max_size=2),
    steps=st.lists(st.integers(-5, 5), min_size=2, max_size=2),
)
def test_views_that_move_evenly(call: Call, rows: int, starts: list[int], steps: list[int]) -> None:
    views = [(start, rows, 6, WIDTH * step, 0) for start, step in zip(starts, steps, strict=True)]
    check(call, tensors_of(plan_with(views)), 9)


def falling(counts: list[int]) -> np.ndarray:
    """Blocks that follow each other."""
    rows = np.array(counts)
    return np.stack([np.cumsum(rows) - rows, rows], axis=1)


@pytest.mark.parametrize("call", [add_columns, summed, several])
@given(counts=st.lists(st.integers(2, 6), min_size=1, max_size=9), backward=st.booleans())
def test_views_that_move_unevenly(call: Call, counts: list[int], backward: bool) -> None:
    """Rows lie elsewhere in both, and are as many."""
    counts.sort(reverse=True)
    y, x = falling(counts), falling(counts)[:: -1 if backward else 1].copy()
    x[:, 1] = counts
    check(call, tensors_of(plan_with([(24, 0, 6, 0, 1), (1200, 0, 6, 0, 2)], [y, x])), len(counts))


def test_what_one_row_shares_with_many() -> None:
    """A row for all, and rows that are one in every iteration, say nothing of how many others there are."""
    tables = [falling([4, 3, 2]), falling([1, 1, 1])]
    tensors = tensors_of(plan_with([(24, 0, 6, 0, 1), (1200, 0, 6, 0, 2), (3000, 1, 6, 0, 0)], tables))
    for source in (1, 2):
        found = operations(tensors, native.copy, (0, source))
        assert found is not None
        made = [in_iteration(found, tensors, iteration) for iteration in range(3)]
        assert [each and each[0][1] for each in made] == [4, 3, 2]
    other = tensors_of(plan_with([(24, 0, 6, 0, 1), (1200, 0, 6, 0, 2)], [tables[0], falling([2, 1, 1])]))
    assert found.bound_to(tensors.addresses) is not None
    one = operations(tensors, native.copy, (0, 1))
    assert one is not None
    assert one.bound_to(other.addresses) is None, "the row for all has become two"


def test_rows_that_were_equally_many_may_not_differ() -> None:
    same = [falling([4, 3, 2]), falling([4, 3, 2])]
    tensors = tensors_of(plan_with([(24, 0, 6, 0, 1), (1200, 0, 6, 0, 2)], same))
    found = operations(tensors, native.copy, (0, 1))
    assert found is not None
    for tables, is_right in (([falling([5, 5, 1])] * 2, True), ([falling([4, 3, 2]), falling([4, 2, 2])], False)):
        other = tensors_of(plan_with([(24, 0, 6, 0, 1), (1200, 0, 6, 0, 2)], tables))
        assert (found.bound_to(other.addresses) is not None) is is_right


def test_operations_follow_views_to_another_plan() -> None:
    views = [(1000, 3, 6, WIDTH, 0), (2000, 3, 6, 0, 0)]
    found = operations(tensors_of(plan_with(views)), several, (0, 1))
    assert found is not None
    moved = tensors_of(plan_with([(1400, 3, 6, 2 * WIDTH, 0), (600, 3, 6, 0, 0)]))
    y, x = (next(iter(moved.of(view, range(7, 8)))) for view in (0, 1))
    assert in_iteration(found, moved, 7) == several(y, x)


def test_calls_without_operations_have_none() -> None:
    tensors = tensors_of(plan_with([(0, 3, 6, 0, 0), (600, 4, 6, 0, 0)]))
    stand_ins = tensors.stand_ins()
    some = [several(stand_ins[0], stand_ins[0]), native.copy(stand_ins[0], stand_ins[1]), ()]
    found = list(on_views(some, stand_ins))
    assert [each if each is None else len(each.rows) for each in found] == [2, None, 0]
    assert len(joined([each for each in found if each is not None]).rows) == 2


def test_stand_ins_tell_views_apart_by_their_columns() -> None:
    tensors = tensors_of(plan_with([(0, 300, 6, 0, 0), (0, 300, 6, 0, 0), (7, 1, 1, 0, 0)]))
    stand_ins = tensors.stand_ins()
    for view, columns in ((0, 6), (1, 6), (2, 1)):
        assert stand_ins[view].shape == tensors.fixed[view].shape  # type: ignore[union-attr]
        assert stand_ins[view].stride() == tensors.fixed[view].stride()  # type: ignore[union-attr]
        for column in range(columns):
            found, offset = stand_ins.views_at(np.array([stand_ins[view][:, column:].data_ptr()]))
            assert (found.tolist(), offset.tolist()) == ([view], [4 * column])
    assert stand_ins.views_at(np.array([SUMS.data_ptr(), 0]))[0].tolist() == [-1, -1]
