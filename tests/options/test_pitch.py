"""Options of pitch: Kaldi's defaults, and what makes no sense."""

from __future__ import annotations

from typing import Any

import pytest

from nnet3.errors import ArgumentError
from nnet3.options import PitchFeatureOptions, PitchOptions


def test_samples_of_frames() -> None:
    assert (PitchOptions().window_samples, PitchOptions().shift_samples) == (100, 40)
    assert (PitchFeatureOptions().dim, PitchFeatureOptions(add_raw_log_pitch=True).dim) == (3, 4)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"min_f0": 400.0}, "min_f0 must be below max_f0, 400, got 400"),
        ({"lowpass_cutoff": 2500.0}, "at most half of both sample frequencies, 16000 and 4000, got 2500"),
        ({"max_f0": 1700.0}, "max_f0 is too high for a resample_frequency of 4000"),
        ({"simulate_first_pass_online": True}, "needs frames_per_chunk above 0"),
        ({"frame_shift": 0.2}, "frame_shift must be a sample of 4000 Hz or more"),
    ],
)
def test_options_that_make_no_sense(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        PitchOptions(**given)


def test_some_feature_must_be_added() -> None:
    with pytest.raises(ArgumentError, match="at least one of the features of pitch"):
        PitchFeatureOptions(add_pov_feature=False, add_normalized_log_pitch=False, add_delta_pitch=False)
