"""The memory that operations use is that of the tensors they were made of, no float more, in all iterations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from torch import Tensor

from nnet3.base.native import operations as native
from nnet3.base.native.operations import FLOAT_BYTES, NUM_MATRICES, STAYS, Operations
from nnet3.base.native.panels import columns_of_panel
from nnet3.base.native.ranges import Ranges, ReachableMemory, check_scratch, stretch_of
from nnet3.errors import ExecutionError

BEFORE, AFTER = 3, 4  # floats beside the rows of a matrix


def matrix(rows: int, columns: int) -> Tensor:
    """Columns of a wider matrix."""
    return torch.zeros(rows + 2, BEFORE + columns + AFTER)[1:-1, BEFORE : BEFORE + columns]


def made(name: str, rows: int, columns: int, inner: int) -> tuple[Operations | None, list[Tensor]]:
    """Operations, and the tensors that they use, those that are written first."""
    inner += 2**16 // (rows * columns) if name == "panels" else 0  # smaller products are not packed
    y, a, b, vector = matrix(rows, columns), matrix(rows, columns), matrix(rows, columns), torch.zeros(columns)
    x, weights, turned = matrix(rows, inner), matrix(columns, inner), matrix(inner, columns).t()
    row, b_row, gru = matrix(1, columns), matrix(1, columns), [matrix(rows, columns) for _ in range(5)]
    width = columns_of_panel()
    cut = torch.zeros(-(-columns // width), BEFORE + inner + AFTER, width)[:, BEFORE : BEFORE + inner]
    lstm = matrix(rows, 2 * columns), matrix(rows, 5 * columns + 3 * (inner % 2)), torch.zeros(3, columns)
    cases: dict[str, tuple[Operations | None, list[Tensor]]] = {
        "copy": (native.copy(y, a), [y, a]),
        "fill": (native.fill(y, 2.0), [y]),
        "add": (native.add(y, a, 1.0, vector), [y, a, vector]),
        "scale": (native.scale(y, 2.0), [y]),
        "multiply": (native.multiply(y, a, vector, b), [y, a, vector, b]),
        "sum_rows": (native.sum_rows(row, a, b, b_row), [row, a, b, b_row]),
        "sigmoid": (native.sigmoid(y, a), [y, a]),
        "tanh": (native.tanh(y, a), [y, a]),
        "relu": (native.relu(y, a), [y, a]),
        "sigmoid_backward": (native.sigmoid_backward(y, a, b, None), [y, a, b]),
        "tanh_backward": (native.tanh_backward(y, a, b, a), [y, a, b]),
        "relu_backward": (native.relu_backward(y, a, b, vector), [y, a, b, vector]),
        "normalize": (native.normalize(y, a, 1.0), [y, a]),
        "product": (native.product(y, x, weights, vector), [y, x, weights, vector]),
        "combine": (native.product(y, x, turned, b), [y, x, turned, b]),
        "panels": (native.product(y, x, turned, a, packs=True), [y, x, turned, a]),
        "panel_product": (native.panel_product(y, x, cut, vector), [y, x, cut, vector]),
        "lstm": (native.lstm(*lstm, use_dropout=bool(inner % 2)), list(lstm)),
        "gru": (native.gru(gru[0], gru[1], vector, *gru[2:4], gru[4]), [gru[0], gru[4], *gru[1:4], vector]),
    }
    return cases[name]


NAMES = [
    *("copy", "fill", "add", "scale", "multiply", "sum_rows", "sigmoid", "tanh", "relu", "sigmoid_backward"),
    *("tanh_backward", "relu_backward", "normalize", "product", "combine", "panels", "panel_product", "lstm"),
    "gru",
]


def check(
    memory: ReachableMemory,
    operations: Operations,
    moves: tuple[int, ...] = STAYS,
    iterations: int = 1,
    tables: Sequence[np.ndarray] = (),
) -> None:
    rows, moving = np.array(operations), np.array([moves] * len(operations))
    memory.check(Ranges(rows, moving), rows[:, native.ADDRESSES], tables, iterations)


@pytest.mark.parametrize("name", NAMES)
@given(rows=st.integers(1, 12), columns=st.integers(1, 70), inner=st.integers(1, 70))
def test_ranges_are_those_of_tensors(name: str, rows: int, columns: int, inner: int) -> None:
    operations, tensors = made(name, rows, columns, inner)
    if operations is None:  # x of fewer columns than its weights lie apart
        assert name in ("product", "combine")
        return
    numbers = np.array(operations)
    begin, end = Ranges(numbers, np.array([STAYS] * len(operations)))(numbers[:, native.ADDRESSES], [], 1)
    assert set(zip(begin.tolist(), end.tolist(), strict=True)) == {stretch_of(each) for each in tensors}


@pytest.mark.parametrize("name", NAMES)
def test_a_float_less_at_either_end_is_noticed(name: str) -> None:
    operations, tensors = made(name, 5, 40, 7)
    assert operations is not None
    check(ReachableMemory(tensors, []), operations)
    for number, tensor in enumerate(tensors):
        first, last = stretch_of(tensor)
        floats = (last - first) // FLOAT_BYTES
        flat = tensor.as_strided((floats,), (1,))
        others = [each for each in tensors if each is not tensor]
        for short in (flat[1:], flat[:-1]):
            with pytest.raises(ExecutionError, match=r"are none of this program\..*NNET3_NATIVE=0"):
                check(ReachableMemory([*others, short], []), operations)
        if number < 1 + (name == "gru"):
            with pytest.raises(ExecutionError, match="are none of this program"):
                check(ReachableMemory(others, [tensor]), operations)
    num_written = 1 + (name == "gru")
    check(ReachableMemory(tensors[:num_written], tensors[num_written:]), operations)


@pytest.mark.parametrize("step", [3, -3])
def test_both_ends_of_a_loop(step: int) -> None:
    memory = torch.zeros(10, 3)
    y, x = memory[:1] if step > 0 else memory[-1:], torch.zeros(1, 3)
    operations = native.copy(y, x) or ()
    moves = (step, *STAYS[1:])
    check(ReachableMemory([memory], [x]), operations, moves, 10)
    with pytest.raises(ExecutionError, match="48 bytes for matrix 0 of operation 0"):
        check(ReachableMemory([memory[1:-1], y], [x]), operations, moves, 4)
    with pytest.raises(ExecutionError, match=r"132 bytes for matrix 0 of operation 0 \(kind 0\) in 11 iterations"):
        check(ReachableMemory([memory], [x]), operations, moves, 11)
    check(ReachableMemory([], []), native.copy(y[:0], x[:0]) or (), moves, 99)


def test_rows_of_tables_in_every_iteration() -> None:
    """Where rows begin and how many there are is anything in iterations between the first and the last."""
    memory, x = torch.zeros(10, 3), torch.zeros(4, 3)
    operations, moving = native.copy(memory[:4], x) or (), list(STAYS)
    moving[NUM_MATRICES], moving[2 * NUM_MATRICES], moving[3 * NUM_MATRICES] = 3, 1, 1
    moves, of_others = tuple(moving), np.zeros((1, 2), np.int64)  # a loop with fewer iterations
    for blocks, is_right in (
        ([[0, 4], [6, 4], [0, 4]], True),
        ([[0, 4], [7, 3], [0, 4]], True),
        ([[0, 4], [7, 4], [0, 4]], False),
        ([[0, 4], [-1, 1], [0, 4]], False),
        ([[0, 4], [0, 5], [0, 4]], False),
        ([[0, 4], [99, 0], [0, 4]], True),
    ):
        tables = [of_others, np.array(blocks)]
        if is_right:
            check(ReachableMemory([memory], [x]), operations, moves, 3, tables)
            continue
        with pytest.raises(ExecutionError, match=r"for matrix [01] of operation 0"):
            check(ReachableMemory([memory], [x]), operations, moves, 3, tables)
    with pytest.raises(ExecutionError, match="a table of rows has fewer than the 4 iterations"):
        check(ReachableMemory([memory], [x]), operations, moves, 4, [of_others, np.array([[0, 4]] * 3)])


def test_memory_that_lies_in_other_memory() -> None:
    whole = torch.zeros(100)
    memory = ReachableMemory([whole, whole[10:20], whole[:0]], [])
    check(memory, native.fill(whole[15:60].view(5, 9), 1.0) or ())


def test_panels_lie_in_scratch_memory() -> None:
    operations, _ = made("panels", 8, 40, 1)
    rows, moves = np.array(operations), np.array([STAYS] * len(operations))
    check_scratch(rows, moves, 205 * 48, 16)
    rows[:, native.SCRATCH] = 100
    check_scratch(rows, moves, 100 + 205 * 48, 16)
    for floats, width in ((100 + 205 * 48 - 1, 16), (100 + 205 * 48, 32)):
        with pytest.raises(ExecutionError, match="panels of native code do not fit"):
            check_scratch(rows, moves, floats, width)
    moves[-1, -1] = 0
    with pytest.raises(ExecutionError, match="panels of native code do not fit"):
        check_scratch(rows, moves, 10**6, 16)
