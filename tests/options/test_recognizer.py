"""Options of recognizers: what is derived from them, and which values conflict."""

from __future__ import annotations

from typing import Any

import pytest

from nnet3.errors import ArgumentError
from nnet3.options import (
    DecodingOptions,
    FbankOptions,
    IvectorOptions,
    MfccOptions,
    OnlineCmvnOptions,
    Options,
    SilenceOptions,
)


def test_features_have_so_many_numbers() -> None:
    assert MfccOptions(num_ceps=20).dim == 20
    assert FbankOptions(num_mel_bins=40).dim == 40
    assert FbankOptions(num_mel_bins=40, use_energy=True).dim == 41


def test_samples_are_counted_in_float32_as_in_kaldi() -> None:
    options = MfccOptions(sample_frequency=11025, frame_length=25, frame_shift=12.5, snip_edges=False)
    assert (options.frame_samples, options.shift_samples, options.transform_samples) == (275, 137, 512)
    assert (options.start_sample, MfccOptions().start_sample) == (68 - 137, 0)


@pytest.mark.parametrize(
    ("kind", "values", "option", "message"),
    [
        (MfccOptions, {"num_ceps": 24}, "num_ceps", "num_ceps must be at most num_mel_bins, 23, got 24"),
        (MfccOptions, {"high_freq": 8001.0}, "high_freq", "mel bins must lie between 0 and"),
        (MfccOptions, {"high_freq": -7980.0}, "high_freq", "got 20 to 20 Hz"),
        (FbankOptions, {"low_freq": 8000.0}, "low_freq", "mel bins must lie between"),
        (FbankOptions, {"sample_frequency": 100.0, "high_freq": 0.0, "frame_shift": 5.0}, "frame_shift", "got 0.5"),
        (
            FbankOptions,
            {"sample_frequency": 11025.0, "round_to_power_of_two": False},
            "round_to",
            "frames have 275: use",
        ),
        (OnlineCmvnOptions, {"normalize_mean": False, "normalize_variance": True}, "normalize_variance", "norm-means"),
        (IvectorOptions, {"min_post": 0.5}, "min_post", "min_post must be >= 0 and < 0.5, got 0.5"),
        (DecodingOptions, {"max_active": 100}, "min_active", "at most max_active, 100, got 200"),
        (DecodingOptions, {"determinize_max_delay": 20}, "determinize_min_chunk_size", "below .*_max_delay, 20"),
        (SilenceOptions, {"silence_phones": (1, 1)}, "silence_phones", "given twice"),
        (SilenceOptions, {"silence_phones": (0, 1)}, "silence_phones", "phones count from 1, got 0"),
    ],
)
def test_values_that_conflict_are_refused(
    kind: type[Options], values: dict[str, Any], option: str, message: str
) -> None:
    with pytest.raises(ArgumentError, match=message) as caught:
        kind(**values)
    assert caught.value.option.startswith(option)
