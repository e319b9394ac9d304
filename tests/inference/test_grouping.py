"""Grouping: every chunk is computed once, minibatches are no larger than they may be and hardly padded."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from nnet3.inference.cutting import OutputChunk
from nnet3.inference.grouping import Lengths, minibatches, partial_size, rounded_up


@pytest.mark.parametrize(
    ("most", "factor", "count", "size"),
    [
        *[(128, 0.5, count, size) for count, size in ((1, 2), (5, 8), (9, 16), (63, 64), (64, 128), (128, 128))],
        *[(8, 0.0, count, 8) for count in (1, 7, 8)],
        *[(1, 0.9, 1, 1), (128, 0.5, 1000, 128), (32, 0.25, 3, 8)],
    ],
)
def test_sizes_of_minibatches_that_are_not_full(most: int, factor: float, count: int, size: int) -> None:
    assert partial_size(most, factor, count) == size


@given(st.integers(1, 10**6))
def test_lengths_are_rounded_up_to_few(length: int) -> None:
    assert length <= rounded_up(length) <= length * (1 + 1 / 32)
    assert rounded_up(rounded_up(length)) == rounded_up(length)
    assert len({rounded_up(each) for each in range(65, 129)}) == 32


@given(
    st.lists(st.tuples(st.integers(1, 300), st.integers(0, 1)), min_size=1, max_size=60),
    st.integers(1, 8),
    st.integers(1, 1000),
    st.sampled_from(Lengths),
)
def test_minibatches(given: list[tuple[int, int]], most: int, most_outputs: int, lengths: Lengths) -> None:
    parts = [(n, OutputChunk(0, length, 0, length, left, 0, 0, most)) for n, (length, left) in enumerate(given)]
    made = list(minibatches(parts, lambda part: 0, lambda _, count: count, lengths, most_outputs))
    assert sorted(number for batch in made for number, _ in batch.parts) == list(range(len(given)))
    for batch in made:
        longest = batch.parts[0][1].num_outputs
        assert len({(chunk.left, chunk.right) for _, chunk in batch.parts}) == 1
        assert len(batch.parts) == batch.sequences <= most
        assert batch.sequences == 1 or sum(given[number][0] for number, _ in batch.parts) <= most_outputs
        for number, part in batch.parts:
            length, left = given[number]
            assert (part.used, part.left) == (length, left)
            assert part.num_outputs == (length if lengths is Lengths.ANY else longest)
            assert length <= part.num_outputs <= (1.12 * length + 1 if lengths is Lengths.PADDED else longest)
            assert lengths is not Lengths.EQUAL or length == longest
