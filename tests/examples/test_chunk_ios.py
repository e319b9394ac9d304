"""The inputs of an example, and whether lengths belong together."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3.errors import TrainingError
from nnet3.training.examples.chunk_ios import check_ivectors, check_length, chunk_inputs, indexes
from nnet3.training.examples.chunks import Chunk

FEATURES = np.arange(20, dtype=np.float32)[:, None]


@pytest.mark.parametrize("frames", [None, 3])
def test_an_ivector_of_a_frame_of_the_chunk_or_of_so_many_frames(frames: int | None) -> None:
    """One row a frame by default, and the last row for frames behind it."""
    chunk = Chunk(15, 4, 2, 3, np.ones(4, np.float32))  # frames 13 .. 21
    drawn = set()
    for seed in range(100):
        _, ivector = chunk_inputs(FEATURES, chunk, np.random.default_rng(seed), FEATURES, ivector_frames=frames)
        assert ivector.indexes.tolist() == [[0, 0, 0]]
        drawn.add(float(ivector.matrix[0, 0]))
    assert drawn == (set(range(13, 20)) if frames is None else {13, 14, 15})


def test_indexes_count_on_in_steps() -> None:
    assert indexes(-1, 3).tolist() == [[0, -1, 0], [0, 0, 0], [0, 1, 0]]
    assert indexes(2, 2, 3).tolist() == [[0, 2, 0], [0, 5, 0]]


def test_the_tolerance_is_what_may_be_missing_or_too_many() -> None:
    """Of ivectors in frames, of supervision in output frames."""
    for rows in (8, 9, 10, 11, 12):
        check_ivectors(np.ones((rows, 1), np.float32), 10, 100, 20)
        check_length("rows", rows, 28, 3, 2)
    for rows in (7, 13):
        with pytest.raises(
            TrainingError, match=rf"{rows} ivectors, one every 10 frames, .* 100 frames .* more than 20"
        ):
            check_ivectors(np.ones((rows, 1), np.float32), 10, 100, 20)
        with pytest.raises(TrainingError, match=rf"28 frames of features need 10 rows .*got {rows}"):
            check_length("rows", rows, 28, 3, 2)
    with pytest.raises(TrainingError, match="0 ivectors"):
        check_ivectors(np.ones((0, 1), np.float32), 10, 100, 100)
