"""Packing: blocks that live together never share memory, those that do not live together do."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, strategies as st

from nnet3.engine.runtime import packing
from nnet3.engine.runtime.packing import ALIGNMENT, lowest_gap, stacked
from tests.effort import EFFORT

KIB = 1024


class Block(NamedTuple):
    num_bytes: int
    first: int
    last: int


def pack(blocks: list[Block]) -> tuple[list[int], int]:
    return packing.pack(*[[block[field] for block in blocks] for field in range(3)])


def most_live(blocks: list[Block]) -> int:
    """The least that any plan can do with: the most bytes alive at one command."""
    return max(
        sum(-(-b.num_bytes // ALIGNMENT) * ALIGNMENT for b in blocks if b.first <= time <= b.last)
        for time in range(max(b.last for b in blocks) + 1)
    )


@st.composite
def random_blocks(draw: st.DrawFn) -> list[Block]:
    spans = st.tuples(st.integers(0, 30), st.integers(0, 30)).map(sorted)
    return [
        Block(draw(st.integers(0, 1000)), first, last) for first, last in draw(st.lists(spans, min_size=1, max_size=30))
    ]


@given(random_blocks())
def test_blocks_alive_together_do_not_overlap(blocks: list[Block]) -> None:
    offsets, total = pack(blocks)
    for i, a in enumerate(blocks):
        assert offsets[i] % ALIGNMENT == 0
        assert offsets[i] + a.num_bytes <= total
        for j, b in enumerate(blocks[:i]):
            alive_together = a.first <= b.last and b.first <= a.last
            disjoint = offsets[i] + a.num_bytes <= offsets[j] or offsets[j] + b.num_bytes <= offsets[i]
            assert disjoint or not alive_together


@given(random_blocks(), st.randoms(use_true_random=False))
def test_blocks_of_other_sizes_are_stacked_likewise(blocks: list[Block], rng: random.Random) -> None:
    offsets, total = pack(blocks)
    _, first, last = np.array(blocks).T
    meet = (first[:, None] <= last) & (last[:, None] >= first)
    sizes = np.array([rng.randint(0, 1000) for _ in blocks])
    (*_, least), (*begins, most) = stacked(np.array(offsets), meet, np.stack([np.array(blocks)[:, 0], sizes], axis=1)).T
    assert least <= total
    begins, total = np.array(begins), most
    ends = begins + sizes
    apart = (ends[:, None] <= begins) | (ends <= begins[:, None])
    assert (apart | ~meet | np.eye(len(blocks), dtype=bool)).all()
    assert not (begins % ALIGNMENT).any()
    assert ends.max() <= total < ends.max() + ALIGNMENT


@given(random_blocks())
def test_memory_is_no_less_than_needed_and_no_more_than_all(blocks: list[Block]) -> None:
    total = pack(blocks)[1]
    assert most_live(blocks) <= total <= sum(-(-b.num_bytes // ALIGNMENT) * ALIGNMENT for b in blocks)


@pytest.mark.parametrize("sizes", [[1] * 10, [1, 2, 3, 4, 5], [5, 4, 3, 2, 1]], ids=["equal", "growing", "shrinking"])
def test_a_chain_needs_only_its_largest_neighbours(sizes: list[int]) -> None:
    blocks = [Block(size * KIB, time, time + 1) for time, size in enumerate(sizes)]
    assert pack(blocks)[1] == most_live(blocks) == max(a + b for a, b in pairwise(sizes)) * KIB


def test_training_pattern_needs_only_what_is_alive() -> None:
    """Values that stay until the backward part takes them in reverse order, between short-lived derivatives."""
    steps = 50
    values = [Block(KIB, t, 2 * steps - t) for t in range(steps)]
    derivs = [Block(KIB, 2 * steps - t - 1, 2 * steps - t) for t in range(steps)]
    assert pack(values + derivs)[1] == most_live(values + derivs)


@pytest.mark.parametrize("freed_first", [0, 1])
def test_neighbours_make_room_together(freed_first: int) -> None:
    """Two small blocks, a large one in their place, two small ones: gaps are joined in either direction."""
    small = [Block(KIB, 2, 4 + (number != freed_first)) for number in range(2)]
    again = [Block(KIB, 7 + (number == freed_first), 9) for number in range(2)]
    assert pack([*small, Block(2 * KIB, 6, 6), *again])[1] == 2 * KIB


def test_a_block_is_freed_only_after_its_last_command() -> None:
    """A command reads its input and writes its output at the same time."""
    offsets, total = pack([Block(KIB, 0, 3), Block(KIB, 3, 5), Block(KIB, 4, 6)])
    assert offsets[0] != offsets[1]
    assert offsets[2] == offsets[0]
    assert total == 2 * KIB


def test_no_blocks_at_all() -> None:
    assert pack([]) == ([], 0)


def recurrent_blocks(count: int, seed: int = 0) -> list[Block]:
    """Short lives of a few sizes along the program, and some that last."""
    rng = np.random.default_rng(seed)
    first = np.sort(rng.integers(0, 2 * count, count))
    length = np.where(rng.random(count) < 0.3, rng.integers(0, 2 * count, count), rng.integers(1, 20, count))
    sizes = rng.choice([1024, 4096, 2048, 640], count)
    return [Block(*block) for block in zip(sizes.tolist(), first.tolist(), (first + length).tolist(), strict=True)]


def test_thousands_of_blocks_lie_tightly() -> None:
    blocks = recurrent_blocks(3000 if EFFORT > 1 else 1000)
    assert pack(blocks)[1] <= 1.03 * most_live(blocks)


def test_few_blocks_lie_more_tightly_still() -> None:
    programs = [recurrent_blocks(60, seed) for seed in range(20)]
    assert np.mean([pack(blocks)[1] / most_live(blocks) for blocks in programs]) < 1.01


def test_blocks_of_equal_lives_lie_side_by_side() -> None:
    big, small = Block(8 * KIB, 0, 1), [Block(KIB, 2, 3) for _ in range(8)]
    offsets, total = pack([big, *small])
    assert total == 8 * KIB
    assert sorted(offsets[1:]) == [KIB * i for i in range(8)]


@pytest.mark.parametrize(
    ("taken", "size", "place"),
    [
        ([], 3, 0),
        ([(2, 5)], 2, 0),
        ([(2, 5)], 3, 5),
        ([(0, 2), (4, 6)], 2, 2),
        ([(4, 6), (0, 2)], 3, 6),
        ([(0, 9), (1, 2), (11, 12)], 2, 9),  # one lies within the other
    ],
)
def test_the_lowest_gap(taken: list[tuple[int, int]], size: int, place: int) -> None:
    begins, ends = np.array(taken, dtype=np.int64).reshape(-1, 2).T
    assert lowest_gap(begins, ends, size) == place
