"""Silence behind recordings: sample by sample as Kaldi's program adds it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from nnet3.errors import ArgumentError, Nnet3Error
from nnet3.options import TrailingSilenceOptions
from nnet3.speech.features.trailing_silence import with_silence
from tests.seeds import RANDOM

RATE = 1000


def slow(samples: list[float], options: TrailingSilenceOptions) -> list[float]:
    more, search, size, shift = (
        int(np.float32(seconds) * np.float32(RATE))
        for seconds in (
            *(options.extra_silence_length, options.silence_search_length),
            *(options.silence_extract_length, options.silence_extract_shift),
        )
    )
    best, least = samples[:size], sum(x * x for x in samples[:size])
    for begin, end in ((0, search), (len(samples) - search, len(samples))):
        while begin + size < end:
            piece = samples[begin : begin + size]
            energy = sum(x * x for x in piece)
            if 0 < energy < least:
                best, least = piece, energy
            begin += shift
    window = [0.54 - 0.46 * math.cos(2 * math.pi * i / (size - 1)) for i in range(size)]
    piece = [w * x for w, x in zip(window, best, strict=True)]
    half = size // 2
    out = [*samples, *([0.0] * more)]
    at = len(samples) - half
    for i in range(half):
        out[at + i] *= window[half + i]
    while at + size < len(out):
        for i in range(size):
            out[at + i] += piece[i]
        at += half
    for i in range(at, len(out)):
        out[i] += piece[i - at]
    return out


@given(st.integers(60, 300), st.integers(2, 40), st.integers(1, 20), st.integers(1, 120))
def test_as_the_slow_one(length: int, size: int, shift: int, more: int) -> None:
    options = TrailingSilenceOptions(
        extra_silence_length=(more + 0.5) / RATE,
        silence_search_length=50.5 / RATE,
        silence_extract_length=(size + 0.5) / RATE,
        silence_extract_shift=(shift + 0.5) / RATE,
    )
    samples = RANDOM.integers(-3000, 3000, length).astype(np.float32) * (RANDOM.random(length) > 0.3)
    found = with_silence(samples.astype(np.float32), RATE, options)
    assert np.allclose(found, slow(samples.tolist(), options), rtol=1e-5, atol=1e-2)


def test_a_recording_without_any_noise(caplog: pytest.LogCaptureFixture) -> None:
    assert not with_silence(np.zeros(RATE, np.float32), RATE, TrailingSilenceOptions()).any()
    assert "no energy" in caplog.text


def test_what_cannot_be_extended() -> None:
    with pytest.raises(Nnet3Error, match="first and last 500 samples of 400"):
        with_silence(np.ones(400, np.float32), RATE, TrailingSilenceOptions())
    with pytest.raises(Nnet3Error, match=r"0\.0001 s are less than a sample"):
        with_silence(np.ones(RATE, np.float32), RATE, TrailingSilenceOptions(extra_silence_length=1e-4))
    with pytest.raises(ArgumentError, match=r"must be below silence_search_length, 0\.5"):
        TrailingSilenceOptions(silence_extract_length=0.5)
