"""The arena: blocks that live together never share memory, those that do not live together do."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nnet3.compute.arena import ALIGNMENT, Arena, Block, pack

KIB = 1024


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


def test_arena_gives_views_of_one_storage() -> None:
    arena = Arena([Block(24, 0, 1), Block(6, 0, 1)], torch.device("cpu"))
    matrix, signs = arena.block(0, (2, 3), torch.float32), arena.block(1, (2, 3), torch.bool)
    assert matrix.shape == signs.shape == (2, 3)
    signs.fill_(False)
    matrix.fill_(7)
    assert not signs.any()
    assert arena.typed(torch.float32)[arena.offsets[0] // 4] == 7
    assert arena.num_bytes == 2 * ALIGNMENT


def test_no_blocks_at_all() -> None:
    assert Arena([], torch.device("cpu")).typed(torch.float32).shape == (0,)
