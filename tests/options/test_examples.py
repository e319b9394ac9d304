"""Options of making examples: lengths are rounded to output frames, and what cannot be meant is refused."""

from __future__ import annotations

import pytest

from nnet3.base.options.examples import (
    WHOLE,
    ChainMakingOptions,
    ChainMergingOptions,
    ChunkOptions,
    CopyingOptions,
    InputOptions,
    MakingOptions,
    MergingOptions,
    SubsetOptions,
)
from nnet3.errors import ArgumentError, Nnet3Error, TrainingError


def test_lengths_but_not_the_overlap_become_multiples_of_the_subsampling_factor() -> None:
    options = ChunkOptions((20, 31), num_frames_overlap=4, frame_subsampling_factor=3)
    assert (options.num_frames, options.num_frames_overlap) == ((21, 33), 4)
    assert ChunkOptions(WHOLE, num_frames_overlap=4, frame_subsampling_factor=3).num_frames == WHOLE


def test_the_overlap_is_less_than_a_chunk() -> None:
    assert ChunkOptions((4,), num_frames_overlap=3).num_frames_overlap == 3
    assert ChunkOptions((4,), num_frames_overlap=5, frame_subsampling_factor=3).num_frames_overlap == 5
    with pytest.raises(ArgumentError, match="less than the 6 frames of a chunk, got 6") as caught:
        ChunkOptions((4,), num_frames_overlap=6, frame_subsampling_factor=3)
    assert caught.value.option == "num_frames_overlap"


@pytest.mark.parametrize("num_frames", [(), (0,), (-1, 5), (5, -1)])
def test_lengths_that_cannot_be_meant(num_frames: tuple[int, ...]) -> None:
    with pytest.raises(ArgumentError, match=r"num_frames must be .*> 0, or -1 alone"):
        ChunkOptions(num_frames)


@pytest.mark.parametrize(("name", "value"), [("left_context", -1), ("right_context", 1_000_001)])
def test_contexts_are_bounded(name: str, value: int) -> None:
    with pytest.raises(ArgumentError, match=f"{name} must be"):
        ChunkOptions(**{name: value})  # type: ignore[arg-type]
    assert ChunkOptions(left_context_initial=-1).left_context_initial == -1


@pytest.mark.parametrize("kind", [InputOptions, MakingOptions, ChainMakingOptions])
def test_mistakes_in_making_are_errors_of_training(kind: type[InputOptions]) -> None:
    with pytest.raises(TrainingError, match=r"online_ivector_period must be .*>= 1"):
        kind(online_ivector_period=0)


def test_chain_examples_are_merged_in_smaller_minibatches() -> None:
    assert (MergingOptions().minibatch_size, ChainMergingOptions().minibatch_size) == ("256", "64")


@pytest.mark.parametrize(
    ("given", "contexts"), [({}, (None, None)), ({"left_context": 0}, (0, None)), ({"right_context": 3}, (None, 3))]
)
def test_a_context_below_zero_is_all(given: dict[str, int], contexts: tuple[int | None, int | None]) -> None:
    assert CopyingOptions(**given).contexts() == contexts


def test_a_subset_has_at_least_one_example() -> None:
    with pytest.raises(Nnet3Error, match=r"count must be .*>= 1"):
        SubsetOptions(count=0)
