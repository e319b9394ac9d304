"""Blocks of rows against a dictionary from index to row, for arbitrary sets of rows."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

from nnet3.base.index import NO_TIME, find_rows, unique_rows
from nnet3.errors import RequestError
from nnet3.model.components.time_blocks import TimeBlocks, order_rows, time_blocks
from tests.components.index_harness import table

INDEXES = st.sets(st.tuples(st.integers(0, 2), st.integers(-6, 12), st.integers(0, 1)), min_size=1, max_size=20)
OFFSETS = st.lists(st.integers(-5, 5), min_size=1, max_size=4, unique=True)


@given(outputs=INDEXES, offsets=OFFSETS, missing=st.lists(st.booleans(), min_size=80, max_size=80))
def test_blocks_lead_from_each_output_to_its_inputs(
    outputs: set[tuple[int, int, int]], offsets: list[int], missing: list[bool]
) -> None:
    wanted = [(n, t + offset, x) for n, t, x in sorted(outputs) for offset in offsets]
    kept = [index for index, drop in zip(wanted, missing, strict=False) if not drop]
    inputs, _ = unique_rows(np.array(kept or wanted[:1], np.int32))
    inputs, ordered = order_rows(inputs, np.array(sorted(outputs), np.int32), offsets)
    plan = TimeBlocks.load(time_blocks(inputs, ordered, offsets), "cpu")

    found: dict[tuple[int, int], int] = {}  # output row and offset: input row
    for block in plan.blocks:
        input_rows = block.of_input(np.arange(len(inputs)))
        output_rows = block.of_output(np.arange(len(ordered)))
        assert len(input_rows) == len(output_rows) > 0
        assert block.is_whole == (len(output_rows) == len(ordered))
        found.update(
            {(int(row), block.offset): int(source) for row, source in zip(output_rows, input_rows, strict=True)}
        )
    row_of = {tuple(index): row for row, index in enumerate(inputs.tolist())}
    for row, (n, t, x) in enumerate(ordered.tolist()):
        for number, offset in enumerate(offsets):
            source = found.get((row, number))
            if t != NO_TIME and (n, t + offset, x) in row_of:
                assert source == row_of[n, t + offset, x]
            elif t != NO_TIME and source is not None:
                assert inputs[source, 1] == NO_TIME

    fresh = [row for block in plan.blocks[: plan.num_fresh] for row in block.of_input(np.arange(len(inputs)))]
    assert len(set(fresh)) == len(fresh)
    assert set(fresh) | set(np.arange(len(inputs))[plan.uncovered].tolist()) == set(range(len(inputs)))
    assert plan.input_padding.tolist() == np.flatnonzero(inputs[:, 1] == NO_TIME).tolist()
    assert plan.output_padding.tolist() == np.flatnonzero(ordered[:, 1] == NO_TIME).tolist()


def test_nothing_grows_with_the_length_of_a_forward_pass() -> None:
    """Every other row of the outputs is padding: only backward passes need to know its rows."""
    found = list[dict[str, object]]()
    for length in (8, 11):
        outputs = table([*range(0, 2 * length, 2), 2 * length + 1])
        inputs, ordered = order_rows(table(range(-1, 2 * length + 3)), outputs, [-1, 1])
        of_both = {name: array.tolist() for name, array in time_blocks(inputs, ordered, [-1, 1]).items()}
        arrays = time_blocks(inputs, ordered, [-1, 1], need_backprop=False)
        found.append({name: array.tolist() for name, array in arrays.items()})
        assert len(of_both["output_padding"]) == length + 1
        assert of_both | found[-1] == of_both
        forward = TimeBlocks.load(arrays, "cpu")
        with pytest.raises(RequestError, match="precomputed for the forward pass alone"):
            forward.output_without_padding(torch.ones(len(ordered), 1))
        with pytest.raises(RequestError, match="precomputed for the forward pass alone"):
            forward.clear_uncovered(torch.ones(len(inputs), 1))
    assert found[0] == found[1]


def test_output_grid_has_all_times_of_all_sequences() -> None:
    outputs = np.array([(0, 4, 0), (1, -2, 0), (1, 1, 1)], np.int32)
    _, ordered = order_rows(outputs, outputs, [0])
    assert len(ordered) == 3 * 3  # times -2, 1, 4 for the three pairs (n, x)
    assert (find_rows(ordered, outputs) >= 0).all()


def test_inputs_without_padding_where_none_is_needed() -> None:
    outputs = table(range(0, 12, 3), ns=range(2))
    inputs = table([t + offset for t in range(0, 12, 3) for offset in (-1, 0)], ns=range(2))
    ordered, _ = order_rows(inputs, outputs, [-1, 0])
    assert len(ordered) == len(inputs)
    assert not (ordered[:, 1] == NO_TIME).any()


def test_too_much_padding_is_refused() -> None:
    outputs = table([0, 1, 1_000_000_000])
    with pytest.raises(RequestError, match="equally spaced"):
        order_rows(outputs, outputs, [0])


@given(
    images=st.lists(st.tuples(st.integers(-3, 3), st.integers(-1, 1)), min_size=1, max_size=4, unique=True),
    start=st.integers(-5, 5),
    step=st.integers(1, 3),
    num_times=st.integers(1, 5),
    offsets=OFFSETS,
    by_time=st.booleans(),
    shuffle=st.randoms(use_true_random=False),
)
def test_regular_tables_are_ordered_as_any_others(
    images: list[tuple[int, int]],
    start: int,
    step: int,
    num_times: int,
    offsets: list[int],
    by_time: bool,
    shuffle: random.Random,
) -> None:
    times = range(start, start + step * num_times, step)
    pairs = [(image, t) for t in times for image in images] if by_time else list(itertools.product(images, times))
    outputs = np.array([(n, t, x) for (n, x), t in pairs], np.int32)
    used = sorted({t + offset for t in times for offset in offsets})
    inputs = np.array([(n, t, x) for (n, x) in images for t in used], np.int32)
    shuffled = [table[shuffle.sample(range(len(table)), len(table))] for table in (inputs, outputs)]
    expected, found = order_rows(*shuffled, offsets), order_rows(inputs, outputs, offsets)
    for mine, others in zip(found, expected, strict=True):
        assert mine.dtype == np.int32
        assert mine.tolist() == others.tolist()
