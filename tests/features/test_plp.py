"""PLP features: each step against its formula, written out for a frame, and all of it against a slow computation."""

from __future__ import annotations

import math

import numpy as np
import pytest

from nnet3.errors import ArgumentError
from nnet3.options import FbankOptions, PlpOptions
from nnet3.speech.features.features import FeatureStream
from nnet3.speech.features.plp import PlpCepstra, equal_loudness, mel_centres
from tests.seeds import RANDOM

pytest.importorskip("kaldi_native_fbank", reason="features of audio need kaldi-native-fbank")
RATE = 8000


def _samples() -> np.ndarray:
    time = np.arange(RATE // 2) / RATE
    tone = 3000 * np.sin(2 * np.pi * 440 * time) + 1000 * np.sin(2 * np.pi * 1800 * time)
    return (tone + 200 * RANDOM.normal(size=len(time))).astype(np.float32)


def _slow(mel: np.ndarray, options: PlpOptions) -> list[float]:
    """Log error and cepstra of one frame's mel bins, number by number, in double precision."""
    high = options.high_freq if options.high_freq > 0 else options.sample_frequency / 2 + options.high_freq
    low_mel, high_mel = (1127 * math.log(1 + f / 700) for f in (options.low_freq, high))
    bins, heard = options.num_mel_bins, []
    for k in range(bins):
        centre = 700 * (math.exp((low_mel + (k + 1) * (high_mel - low_mel) / (bins + 1)) / 1127) - 1)
        square = centre**2
        loud = (square / (square + 1.6e5)) ** 2 * (square + 1.44e6) / (square + 9.61e6)
        heard.append((float(mel[k]) * loud) ** options.compress_factor)
    spectrum = [heard[0], *heard, heard[-1]]
    both = [*spectrum, *spectrum[-2:0:-1]]  # the spectrum of a real signal
    order = options.lpc_order
    auto = [
        sum(v * math.cos(2 * math.pi * i * k / len(both)) for k, v in enumerate(both)) / len(both)
        for i in range(order + 1)
    ]
    table = np.array([[auto[abs(i - j)] for j in range(order)] for i in range(order)])
    predictor = -np.linalg.solve(table, np.array(auto[1:]))  # the normal equations
    error = auto[0] + float(predictor @ np.array(auto[1:]))
    cepstra = [math.log(error)]
    for n in range(1, order + 1):
        cepstra.append(-predictor[n - 1] - sum((n - j) / n * predictor[j - 1] * cepstra[n - j] for j in range(1, n)))
    return cepstra


@pytest.mark.parametrize(
    "options",
    [
        PlpOptions(sample_frequency=RATE),
        PlpOptions(sample_frequency=RATE, use_energy=False, cepstral_lifter=0.0, cepstral_scale=0.5),
        PlpOptions(sample_frequency=RATE, num_mel_bins=15, lpc_order=8, num_ceps=6, high_freq=-200.0, htk_compat=True),
        PlpOptions(sample_frequency=RATE, raw_energy=False, energy_floor=1e12, compress_factor=0.25),
    ],
)
def test_features_are_those_of_the_formulas(options: PlpOptions) -> None:
    samples = _samples()
    rows = FeatureStream(options, RATE).accept(samples, last=True)
    shared = {name: getattr(options, name) for name in ("num_mel_bins", "high_freq", "raw_energy", "energy_floor")}
    linear = FbankOptions(sample_frequency=RATE, use_log_fbank=False, use_energy=True, **shared)
    mel = FeatureStream(linear, RATE).accept(samples, last=True)
    assert rows.shape == (len(mel), options.num_ceps)
    lifter = options.cepstral_lifter
    for row, energies in zip(np.roll(rows, 1, axis=1) if options.htk_compat else rows, mel, strict=True):
        expected = _slow(energies[1:], options)[: options.num_ceps]
        for n in range(options.num_ceps):
            lifted = 1 + lifter / 2 * math.sin(math.pi * n / lifter) if lifter else 1.0
            expected[n] *= lifted * options.cepstral_scale
        if options.use_energy:
            expected[0] = energies[0]
        assert row == pytest.approx(expected, rel=2e-3, abs=2e-3)


def test_pieces_make_no_difference() -> None:
    samples, options = _samples(), PlpOptions(sample_frequency=RATE)
    whole = FeatureStream(options, RATE).accept(samples, last=True)
    stream = FeatureStream(options, RATE)
    parts = [stream.accept(samples[k : k + 700], last=k + 700 >= len(samples)) for k in range(0, len(samples), 700)]
    assert np.array_equal(np.concatenate(parts), whole)


def test_loudness_and_centres() -> None:
    centres = mel_centres(PlpOptions(sample_frequency=16000, num_mel_bins=3, low_freq=0.0))
    assert centres == pytest.approx([614.3, 1767.8, 3933.6], rel=1e-4)
    assert equal_loudness(np.float32([0, 1000])) == pytest.approx([0, (1 / 1.16) ** 2 * 2.44 / 10.61], rel=1e-5)


def test_silence_is_finite() -> None:
    """A frame of zeros has no prediction; Kaldi's features of it are not numbers either, but for the energy."""
    options = PlpOptions(sample_frequency=RATE)
    rows = PlpCepstra(options).of(np.ones((2, 24), np.float32))
    assert np.isfinite(rows).all()
    assert rows[:, 0].tolist() == [1, 1]


def test_more_cepstra_than_the_prediction_has() -> None:
    with pytest.raises(ArgumentError, match="num_ceps must be at most lpc_order"):
        PlpOptions(num_ceps=14)
