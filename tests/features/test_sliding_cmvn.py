"""Normalisation by a sliding window, against a loop over frames."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from nnet3.errors import Nnet3Error
from nnet3.options import SlidingCmvnOptions
from nnet3.speech.features.sliding_cmvn import normalised_by_window, windows_of


def _slow_window(frame: int, frames: int, options: SlidingCmvnOptions) -> tuple[int, int]:
    if options.center:
        first = frame - options.cmn_window // 2
        end = first + options.cmn_window
    else:
        first, end = frame - options.cmn_window, frame + 1
    if first < 0:
        first, end = 0, end - first
    if not options.center and end > frame:
        end = max(frame + 1, options.min_cmn_window)
    if end > frames:
        first, end = max(first - (end - frames), 0), frames
    return first, end


@given(
    frames=st.integers(1, 40),
    window=st.integers(1, 30),
    least=st.integers(0, 30),
    center=st.booleans(),
    variances=st.booleans(),
)
def test_each_frame_has_its_window(frames: int, window: int, least: int, center: bool, variances: bool) -> None:
    options = SlidingCmvnOptions(window, least, center, variances)
    rows = np.random.default_rng(frames).normal(50, 3, (frames, 2)).astype(np.float32)
    expected = []
    for frame in range(frames):
        first, end = _slow_window(frame, frames, options)
        part = rows[first:end].astype(float)
        row = rows[frame] - part.mean(axis=0)
        if variances:
            row = row / np.sqrt(np.maximum(part.var(axis=0), 1e-10)) if end - first > 1 else row * 0
        expected.append(row)
        assert tuple(int(side[frame]) for side in windows_of(frames, options)) == (first, end)
    np.testing.assert_allclose(normalised_by_window(rows, options)[0], expected, rtol=1e-4, atol=1e-4)


def test_floored_variances_are_counted() -> None:
    rows = np.array([[1, 2], [1, 3], [1, 2]], np.float32)
    changed, floored = normalised_by_window(rows, SlidingCmvnOptions(3, center=True, norm_vars=True))
    assert floored == 3
    np.testing.assert_array_equal(changed[:, 0], np.zeros(3))
    alone, floored = normalised_by_window(rows[:1], SlidingCmvnOptions(norm_vars=True))
    assert (alone.tolist(), floored) == ([[0, 0]], 0)


def test_many_loud_frames_keep_their_digits() -> None:
    rows = (1e4 + np.random.default_rng(0).normal(size=(20000, 1))).astype(np.float32)
    changed, _ = normalised_by_window(rows, SlidingCmvnOptions(300, center=True, norm_vars=True))
    part = rows[-300:].astype(float)
    assert changed[-1, 0] == pytest.approx(float((rows[-1, 0] - part.mean()) / part.std()), rel=1e-5)


def test_what_cannot_be_normalised() -> None:
    with pytest.raises(Nnet3Error, match="no frames"):
        normalised_by_window(np.zeros((0, 3), np.float32), SlidingCmvnOptions())
    with pytest.raises(Nnet3Error, match="a NaN"):
        normalised_by_window(np.full((2, 3), np.inf, np.float32), SlidingCmvnOptions())
