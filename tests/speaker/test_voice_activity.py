"""Frames with a voice, against a loop over frames and their neighbours."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from nnet3.errors import Nnet3Error
from nnet3.options import VadOptions
from nnet3.speech.speaker.voice_activity import selected_frames, voiced_frames


@given(
    seed=st.integers(0, 10**6),
    frames=st.integers(1, 40),
    context=st.integers(0, 12),
    share=st.sampled_from([0.12, 0.5, 0.6, 0.9]),
    scale=st.sampled_from([0.0, 0.5, 1.0]),
)
def test_enough_neighbours_are_loud(seed: int, frames: int, context: int, share: float, scale: float) -> None:
    energy = np.random.default_rng(seed).normal(10, 6, frames).astype(np.float32)
    options = VadOptions(5.5, scale, context, share)
    loud = energy > np.float32(5.5) + np.float32(
        np.float32(scale) * np.float32(energy.sum(dtype=float)) / np.float32(frames)
    )
    expected = []
    for frame in range(frames):
        around = loud[max(frame - context, 0) : frame + context + 1]
        expected.append(np.float32(around.sum()) >= np.float32(len(around)) * np.float32(share))
    features = np.stack([energy, np.full(frames, np.inf, np.float32)], axis=1)
    assert voiced_frames(features, options).tolist() == expected


def test_three_of_five_are_enough_for_a_share_of_0_6() -> None:
    """In float32, as Kaldi has it: 5 * 0.6 is 3 there."""
    energy = np.array([[9], [9], [9], [0], [0]], np.float32)
    assert voiced_frames(energy, VadOptions(5.0, 0.0, 4)).all()


def test_rows_are_selected() -> None:
    rows = np.arange(8, dtype=np.float32).reshape(4, 2)
    np.testing.assert_array_equal(selected_frames(rows, np.array([0, 1, 0, 1], np.float32)), rows[[1, 3]])
    for voiced, why in (
        ([0, 0, 0, 0], "no frame of it"),
        ([1, 1], "4 frames, and the voice"),
        ([0, 2, 1, 0], "other than 0 and 1"),
    ):
        with pytest.raises(Nnet3Error, match=why):
            selected_frames(rows, np.array(voiced, np.float32))


def test_what_has_no_energy_is_refused() -> None:
    with pytest.raises(Nnet3Error, match="no frames"):
        voiced_frames(np.zeros((0, 2), np.float32))
    with pytest.raises(Nnet3Error, match="a NaN"):
        voiced_frames(np.full((2, 2), np.nan, np.float32))
