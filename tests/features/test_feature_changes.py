"""Differences in time, neighbours, fewer frames, several kinds side by side, frame by frame."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3.errors import Nnet3Error
from nnet3.speech.features.feature_changes import pasted, shifted, spliced, subsampled, with_deltas

FEATURES = np.random.default_rng(5).normal(0, 3, (17, 3)).astype(np.float32)


def _slow_difference(track: np.ndarray, window: int) -> np.ndarray:
    """The regression formula of one column that goes on beyond its ends: (frames - 2 window,)."""
    norm = sum(j * j for j in range(-window, window + 1))
    return np.array(
        [sum(j * track[t + j] for j in range(-window, window + 1)) / norm for t in range(window, len(track) - window)]
    )


@pytest.mark.parametrize(("order", "window", "frames"), [(2, 2, 17), (3, 1, 17), (1, 4, 3), (0, 2, 5), (2, 3, 1)])
def test_differences_of_differences(order: int, window: int, frames: int) -> None:
    features = FEATURES[:frames]
    found = with_deltas(features, order, window)
    assert (found.shape, found.dtype) == ((frames, 3 * (order + 1)), np.float32)
    np.testing.assert_array_equal(found[:, :3], features)
    for column in range(3):
        reach = order * window
        track = np.concatenate([[features[0, column]] * reach, features[:, column], [features[-1, column]] * reach])
        track = track.astype(np.float64)
        for number in range(1, order + 1):
            track = _slow_difference(track, window)
            beyond = (order - number) * window
            own = track[beyond : len(track) - beyond]
            np.testing.assert_allclose(found[:, 3 * number + column], own, atol=1e-5)


@pytest.mark.parametrize(("left", "right", "frames"), [(4, 4, 17), (0, 2, 17), (3, 0, 2), (5, 5, 1), (0, 0, 4)])
def test_neighbours_side_by_side(left: int, right: int, frames: int) -> None:
    features = FEATURES[:frames]
    expected = [
        np.concatenate([features[min(max(t + j, 0), frames - 1)] for j in range(-left, right + 1)])
        for t in range(frames)
    ]
    np.testing.assert_array_equal(spliced(features, left, right), expected)


def test_fewer_frames_and_more() -> None:
    np.testing.assert_array_equal(subsampled(FEATURES, 3, 1), FEATURES[[1, 4, 7, 10, 13, 16]])
    np.testing.assert_array_equal(subsampled(FEATURES[:2], -3), FEATURES[[0, 0, 0, 1, 1, 1]])
    with pytest.raises(Nnet3Error, match="no frame is left of 17, from frame 17 on"):
        subsampled(FEATURES, 3, 17)


def test_side_by_side_as_far_as_all_go() -> None:
    found = pasted([FEATURES, FEATURES[:16, :1]], 1)
    np.testing.assert_array_equal(found, np.concatenate([FEATURES[:16], FEATURES[:16, :1]], axis=1))
    with pytest.raises(Nnet3Error, match="have 17, 15 frames, expected equally many"):
        pasted([FEATURES, FEATURES[:15]], 1)


def test_later_and_earlier() -> None:
    assert shifted(FEATURES, 0).tolist() == FEATURES.tolist()
    assert shifted(FEATURES, 2).tolist() == FEATURES[[0, 0, *range(15)]].tolist()
    assert shifted(FEATURES, -16).tolist() == FEATURES[[16] * 17].tolist()
    assert shifted(FEATURES, 99).tolist() == FEATURES[[0] * 17].tolist()
