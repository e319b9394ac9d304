"""The chunk splitter: worked examples, what holds of every split, and a slow oracle."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, strategies as st

from nnet3.errors import ArgumentError
from nnet3.options import WHOLE, ChunkOptions
from nnet3.training.examples.chunks import Chunk, ChunkSplitter


@pytest.mark.parametrize(
    ("num_frames", "length", "lengths"),
    [
        ((30, 20), 19, []),
        ((30, 20), 20, [20]),
        ((30, 20), 29, [20, 20]),
        ((30, 20), 30, [30]),
        ((30, 20), 45, [20, 30]),
        ((30, 20), 55, [30, 30]),
        ((140, 100, 160), 120, [100]),
        ((140, 100, 160), 139, [100, 100]),
        ((140, 100, 160), 150, [140]),
        ((140, 100, 160), 190, [100, 100]),
        ((140, 100, 160), 300, [140, 160]),
        ((140, 100, 160), 440, [140, 140, 160]),
    ],
)
def test_worked_examples_have_their_lengths(num_frames: tuple[int, ...], length: int, lengths: list[int]) -> None:
    splitter = ChunkSplitter(ChunkOptions(num_frames))
    for seed in range(10):
        chunks = splitter.split(length, np.random.default_rng(seed))
        assert sorted(chunk.num_frames for chunk in chunks) == lengths


options = st.builds(
    ChunkOptions,
    num_frames=st.lists(st.integers(6, 30), min_size=1, max_size=3).map(tuple),
    num_frames_overlap=st.integers(0, 3),
    left_context=st.integers(0, 5),
    right_context=st.integers(0, 5),
    left_context_initial=st.integers(-1, 5),
    right_context_final=st.integers(-1, 5),
    frame_subsampling_factor=st.integers(1, 3),
).filter(lambda made: made.num_frames_overlap < min(made.num_frames))


@given(options, st.integers(1, 400), st.integers(0, 2**32))
def test_what_holds_of_every_split(made: ChunkOptions, length: int, seed: int) -> None:
    splitter = ChunkSplitter(made)
    chunks = splitter.split(length, np.random.default_rng(seed))
    assert bool(chunks) == (length >= min(made.num_frames))
    if not chunks:
        return
    factor = made.frame_subsampling_factor
    assert {chunk.num_frames for chunk in chunks} <= set(made.num_frames)
    lengths = [chunk.num_frames for chunk in chunks]
    assert lengths in (sorted(lengths), sorted(lengths, reverse=True))
    assert all(chunk.first_frame % factor == 0 and chunk.first_frame >= 0 for chunk in chunks)
    assert chunks[-1].first_frame + chunks[-1].num_frames <= length + factor - 1
    starts = [chunk.first_frame for chunk in chunks]
    assert starts == sorted(starts)
    expected = [made.left_context] * len(chunks)
    if made.left_context_initial >= 0:
        expected[0] = made.left_context_initial
    assert [chunk.left_context for chunk in chunks] == expected
    expected = [made.right_context] * len(chunks)
    if made.right_context_final >= 0:
        expected[-1] = made.right_context_final
    assert [chunk.right_context for chunk in chunks] == expected
    _check_weights(chunks, factor)
    _check_gaps(chunks, factor, -(-length // factor))
    assert splitter.num_frames_in_chunks == sum(lengths)


def _check_weights(chunks: list[Chunk], factor: int) -> None:
    """What the chunks give to a frame together is 1."""
    total: dict[int, float] = {}
    for chunk in chunks:
        assert len(chunk.output_weights) == chunk.num_frames // factor
        for number, weight in enumerate(chunk.output_weights.tolist()):
            frame = chunk.first_frame // factor + number
            total[frame] = total.get(frame, 0.0) + weight
    assert list(total.values()) == pytest.approx([1.0] * len(total))


def _check_gaps(chunks: list[Chunk], factor: int, num_frames: int) -> None:
    """Spread evenly before, between and behind the chunks; overlaps by the length of the shorter one, the first ones
    longer where it does not come out even. In output frames."""
    starts, counts = [c.first_frame // factor for c in chunks], [c.num_frames // factor for c in chunks]
    ends = [start + count for start, count in zip(starts, counts, strict=True)]
    gaps = [start - end for start, end in zip([*starts, num_frames], [0, *ends], strict=True)]
    missing = sum(counts) - num_frames
    if missing <= 0:
        assert max(gaps) - min(gaps) <= 1
        return
    shorter = [min(pair) for pair in pairwise(counts)]
    shares = [missing * least // sum(shorter) for least in shorter]
    rest = missing - sum(shares)
    assert gaps == [0, *(-share - (k < rest) for k, share in enumerate(shares)), 0]


@given(options, st.integers(1, 400))
def test_candidates_are_those_of_the_oracle(made: ChunkOptions, length: int) -> None:
    own = sorted(tuple(sorted(split)) for split in ChunkSplitter(made).candidates(length))
    assert own == sorted(_oracle(made, length))


def _oracle(made: ChunkOptions, length: int) -> list[tuple[int, ...]]:
    """Straight from the words of docs/examples.md; sorted lists, those of two others alone twice if they differ."""
    principal = made.num_frames[0]
    overlap = made.num_frames_overlap / principal
    most = 2 * max(made.num_frames) + principal
    extra = 0
    while length > most:
        length -= principal - made.num_frames_overlap
        extra += 1
    costs: list[tuple[float, tuple[int, ...]]] = []
    for split in _all_splits(made.num_frames, most // (principal - made.num_frames_overlap) + 5):
        total = sum(split) - overlap * sum(min(a, b) for a, b in pairwise(split))
        if total > most + principal:
            continue
        cost = total - length if total > length else 2 * (length - total)
        if max(split) <= length:
            costs.append((cost, split))
    if not costs:
        return []
    best = min(cost for cost, _ in costs)
    return [tuple(sorted((*split, *[principal] * extra))) for cost, split in costs if cost < best + 1.9999]


def _all_splits(num_frames: tuple[int, ...], most: int) -> Iterator[tuple[int, ...]]:
    others = sorted(set(num_frames[1:]))
    found = set()
    for count in range(most):
        found |= {tuple(sorted([num_frames[0]] * count))}
        found |= {tuple(sorted([a] + [num_frames[0]] * count)) for a in others}
        found |= {tuple(sorted([a, b] + [num_frames[0]] * count)) for a in others for b in others}
    yield from found - {()}
    yield from {(a, b) for a in others for b in others if a < b}


def test_gaps_are_spread_and_overlaps_stand_between_chunks() -> None:
    chunks = ChunkSplitter(ChunkOptions((10,))).split(22, np.random.default_rng(0))  # 2 frames in 3 places
    gaps = [chunks[0].first_frame, chunks[1].first_frame - 10 - chunks[0].first_frame, 22 - 10 - chunks[1].first_frame]
    assert sorted(gaps) == [0, 1, 1]
    chunks = ChunkSplitter(ChunkOptions((10,))).split(27, np.random.default_rng(0))  # 3 frames too many
    assert [chunk.first_frame for chunk in chunks] == [0, 8, 17]
    np.testing.assert_allclose(chunks[1].output_weights, [0.5, 0.5, 1, 1, 1, 1, 1, 1, 1, 0.5])


def test_draws_reach_every_candidate_and_both_directions() -> None:
    splitter = ChunkSplitter(ChunkOptions((30, 20, 21)))
    rng = np.random.default_rng(3)
    drawn = {tuple(chunk.num_frames for chunk in splitter.split(41, rng)) for _ in range(200)}
    assert drawn == {(20, 21), (21, 20), (21, 21)}
    assert splitter.num_utterances == 200
    assert "split 200 utterances of 8200 frames into 400 chunks; " in splitter.summary()


def test_what_is_counted_over_utterances() -> None:
    splitter = ChunkSplitter(ChunkOptions((10,)))
    assert splitter.summary().startswith("split 0 utterances of 0 frames into 0 chunks; 0.0 % of the frames")
    for length in (27, 22, 38):  # three chunks, 3 frames in two of them; two chunks; four, 2 frames in two
        splitter.split(length, np.random.default_rng(0))
    assert splitter.summary() == (
        "split 3 utterances of 87 frames into 9 chunks; 103.4 % of the frames are in chunks, "
        "5.7 % are there again in the next one"
    )


def test_by_default_chunks_are_single_frames() -> None:
    chunks = ChunkSplitter(ChunkOptions()).split(30, np.random.default_rng(0))
    assert {(chunk.num_frames, chunk.num_input_frames) for chunk in chunks} == {(1, 1)}
    assert {chunk.first_input_frame - chunk.first_frame for chunk in chunks} == {0}
    assert ChunkOptions(left_context=1_000_000).left_context == 1_000_000


def test_whole_utterances_are_one_chunk() -> None:
    splitter = ChunkSplitter(ChunkOptions(WHOLE, left_context_initial=2, right_context=3, frame_subsampling_factor=3))
    (chunk,) = splitter.split(11, np.random.default_rng(0))
    assert (chunk.first_frame, chunk.num_frames, chunk.left_context, chunk.right_context) == (0, 11, 2, 3)
    assert chunk.output_weights.tolist() == [1, 1, 1]
    assert (chunk.first_input_frame, chunk.num_input_frames) == (-2, 16)


def test_the_overlap_is_not_rounded_up_to_output_frames() -> None:
    """Kaldi makes 29 chunks of 12 frames here, 5 or so apart; with an overlap of 9 there would be 45 and more."""
    splitter = ChunkSplitter(ChunkOptions((10, 4), num_frames_overlap=7, frame_subsampling_factor=3))
    assert (12,) * 29 in splitter.candidates(151)
    assert {len(split) for split in splitter.candidates(151)} == {29, 30}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"num_frames": ()}, "must be > 0"),
        ({"num_frames": (0,)}, "must be > 0"),
        ({"num_frames": (-1, 3)}, "must be > 0"),
        ({"num_frames": (5,), "num_frames_overlap": 5}, "less than the 5 frames of a chunk, got 5"),
        ({"num_frames": (5,), "num_frames_overlap": -1}, "num_frames_overlap must be >= 0, got -1"),
        ({"frame_subsampling_factor": 0}, r"factor must be within \[1, 1000\], got 0"),
        ({"left_context": -1}, r"left_context must be within \[0, 1000000\], got -1"),
        ({"right_context": -1}, r"right_context must be within \[0, 1000000\], got -1"),
        ({"left_context": 1_000_001}, r"left_context must be within \[0, 1000000\], got 1000001"),
        ({"right_context_final": 1_000_001}, "right_context_final must be <= 1000000, got 1000001"),
    ],
)
def test_wrong_options_are_refused(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        ChunkOptions(**wrong)  # type: ignore[arg-type]
