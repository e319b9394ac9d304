"""The pitch of voices: Kaldi's numbers, a slow version, audio in pieces."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nnet3.base.options.pitch import PitchOptions
from nnet3.speech.arrays.aliases import Rows
from nnet3.speech.features.audio import Resampler, Samples
from nnet3.speech.features.pitch import PitchTracker, pieces
from tests.asr.voice import voice


def tracked(samples: Samples, options: PitchOptions) -> Rows:
    tracker, found = PitchTracker(options), list[Rows]()
    for piece, last in pieces(samples, options):
        tracker.accept(piece, last)
        if options.simulate_first_pass_online:
            found.append(tracker.found(sum(map(len, found))))
    return np.concatenate(found) if found else tracker.found()


#: What compute-kaldi-pitch-feats of Kaldi writes, every fourth frame: for `voice()`, and for a voice that comes nearer,
#: in pieces as a recognizer hears it, and at the end of all pieces.
_WHOLE = [
    [0.950278, 162.993],
    [0.990191, 183.719],
    [0.998344, 188.358],
    [0.973329, 172.185],
    [0.877033, 145.328],
    [0.664180, 130.225],
    [0.480577, 115.534],
    [0.939235, 124.509],
    [0.957368, 151.244],
    [0.982746, 178.303],
    [0.999834, 189.300],
    [0.984827, 180.090],
]
_FIRST = [
    [0.557684, 58.339],
    [0.963875, 62.558],
    [0.997559, 187.421],
    [0.973980, 170.476],
    [0.844961, 143.885],
    [0.493944, 133.514],
    [0.518505, 113.818],
    [0.939922, 125.132],
    [0.958452, 152.000],
    [0.982781, 178.303],
    [0.999836, 189.300],
    [0.985125, 179.194],
]
_AT_END = [
    [-0.446086, 136.885],
    [-0.393177, 136.885],
    [-0.447703, 136.885],
    [-0.161042, 136.885],
    [0.690685, 134.181],
    [0.795359, 126.386],
    [0.428532, 119.044],
    [0.940149, 125.757],
    [0.958452, 152.000],
    [0.982781, 178.303],
    [0.999836, 189.300],
    [0.985125, 179.194],
]


#: With `recompute_frame` 20 instead: the first frames are searched again.
_REDONE = [[0.568142, 187.421], [0.992111, 187.421], [0.994818, 186.489], *_FIRST[3:]]
#: With windows round the middles of frames: the first ones begin before the recording. And with preemphasis.
_BEFORE = [[0.0, 134.1814], [-0.536981, 134.1814], [-0.444064, 134.1814], [-0.438003, 134.1814]]
_ROUND_MIDDLES = [
    [0.000000, 128.2915],
    [-0.173120, 128.2915],
    [-0.061419, 128.2915],
    [-0.180425, 128.2915],
    [-0.376403, 128.2915],
    [0.169215, 128.2915],
    [0.063979, 128.2915],
    [0.406019, 128.9329],
    [0.885799, 142.4574],
    [0.939242, 167.9442],
    [0.989568, 186.4887],
    [0.988501, 186.4887],
]


_ONLINE: dict[str, Any] = {
    "frames_per_chunk": 5,
    "simulate_first_pass_online": True,
    "recompute_frame": 20,
    "max_frames_latency": 3,
}


def test_pitches_are_kaldis() -> None:
    _check(tracked(voice(), PitchOptions()), _WHOLE)
    nearer = np.round(voice() * (np.arange(8000) / 8000) ** 3).astype(np.float32)
    _check(tracked(nearer, PitchOptions(**_ONLINE)), _FIRST)
    _check(tracked(nearer, PitchOptions(frames_per_chunk=5)), _AT_END)
    _check(tracked(nearer, PitchOptions(frames_per_chunk=5, recompute_frame=20)), _REDONE)
    _check(tracked(nearer, PitchOptions(frames_per_chunk=5, snip_edges=False))[:16], _BEFORE)
    middles = PitchOptions(frames_per_chunk=5, snip_edges=False, preemphasis_coefficient=0.9)
    _check(tracked(nearer, middles)[:48], _ROUND_MIDDLES)


def _check(found: Rows, expected: list[list[float]]) -> None:
    assert found.shape == (4 * len(expected), 2)
    assert np.allclose(found[::4], expected, rtol=1e-5, atol=1e-6)


def _slow(samples: Samples, options: PitchOptions) -> Rows:
    """Frame by frame, lag by lag, state by state; for whole recordings."""
    resampler = Resampler(
        options.sample_frequency,
        options.resample_frequency,
        cutoff=options.lowpass_cutoff,
        crossings=options.lowpass_filter_width,
    )
    signal = resampler.accept(samples, last=True).astype(float)
    size, shift, rate = options.window_samples, options.shift_samples, options.resample_frequency
    lags = [1 / options.max_f0]
    while lags[-1] * (1 + options.delta_pitch) <= 1 / options.min_f0:
        lags.append(lags[-1] * (1 + options.delta_pitch))
    reach = options.upsample_filter_width / (2 * rate)
    measured = range(int(np.ceil(rate * (lags[0] - reach))), int(rate * (1 / options.min_f0 + reach)) + 1)
    ballast = (signal.var() * size) ** 2 * options.nccf_ballast
    costs, origins, voicing = np.zeros(len(lags)), [], []
    factor = np.log(1 + options.delta_pitch) ** 2 * options.penalty_factor
    for start in range(0, len(signal) - size + 1, shift):
        window = np.pad(
            signal[start : start + size + measured[-1]], (0, max(start + size + measured[-1] - len(signal), 0))
        )
        window = window - window[:size].mean()
        of_lag = {}
        for lag in measured:
            product = window[:size] @ window[lag : lag + size]
            energy = (window[:size] @ window[:size]) * (window[lag : lag + size] @ window[lag : lag + size])
            of_lag[lag] = product / np.sqrt(energy + ballast), product / np.sqrt(energy)
        at = np.array([_between(lag, of_lag, options) for lag in lags])  # (lags, 2)
        reached = [min(((i - j) ** 2 * factor + costs[j], j) for j in range(len(lags))) for i in range(len(lags))]
        local = [1 - at[i, 0] * (1 - options.soft_min_f0 * lags[i]) for i in range(len(lags))]
        costs = np.array([reached[i][0] + local[i] for i in range(len(lags))])
        costs -= costs.min()
        origins.append([origin for _, origin in reached])
        voicing.append(at[:, 1])
    state, found = int(costs.argmin()), []
    for frame in reversed(range(len(origins))):
        found.append([voicing[frame][state], 1 / lags[state]])
        state = origins[frame][state]
    return np.array(found[::-1], np.float32)


def _between(lag: float, of_lag: dict[int, tuple[float, float]], options: PitchOptions) -> np.ndarray:
    """The value at a lag between samples, by a windowed sinc."""
    rate, width = options.resample_frequency, options.upsample_filter_width
    found = np.zeros(2)
    for number, values in of_lag.items():
        distance = lag - number / rate
        if abs(distance) < width / rate:
            found += np.array(values) * np.sinc(rate * distance) * (1 + np.cos(np.pi * rate * distance / width)) / 2
    return found


def test_pitches_are_those_of_the_slow_version() -> None:
    """In loud places; where it is nearly silent, rounding decides."""
    options = PitchOptions(delta_pitch=0.03, min_f0=80, frame_shift=25)
    samples = voice(0.4)[:2900]
    assert np.allclose(tracked(samples, options), _slow(samples, options), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("snip_edges", [True, False])
def test_pieces_make_no_difference_if_loudness_is_taken_up_to_each_frame(snip_edges: bool) -> None:
    rng = np.random.default_rng(1)
    samples = voice() + rng.normal(0, 30, 8000).astype(np.float32)
    options = PitchOptions(nccf_ballast_online=True, snip_edges=snip_edges)
    whole, cut = PitchTracker(options), PitchTracker(options)
    whole.accept(samples, last=True)
    cuts = np.sort(rng.integers(0, len(samples), 12))
    for piece in np.split(samples, cuts):
        cut.accept(piece)
    cut.accept(samples[:0], last=True)
    assert len(cut.found()) == (50 if not snip_edges else 48)
    assert np.allclose(cut.found(), whole.found(), rtol=1e-4, atol=1e-4)


def test_frames_that_are_forgotten_leave_the_rest_as_it_is() -> None:
    options = PitchOptions(frames_per_chunk=5)
    whole, forgetful = PitchTracker(options), PitchTracker(options)
    for piece, last in pieces(voice(), options):
        whole.accept(piece, last)
        forgetful.accept(piece, last)
        forgetful.forget(max(forgetful.num_ready - 20, 0) if last else 0)
    assert np.array_equal(forgetful.found(30), whole.found(30))


def test_pitches_are_in_their_range_whatever_is_heard() -> None:
    noise = np.random.default_rng(0).normal(0, 1000, 16000).astype(np.float32)
    for lowest, highest in ((50, 400), (80, 300)):
        pitches = tracked(noise, PitchOptions(min_f0=lowest, max_f0=highest))[:, 1]
        assert lowest <= pitches.min() < pitches.max() <= highest + 1e-3


def test_silence_has_no_period_and_too_little_audio_no_frame() -> None:
    assert np.array_equal(tracked(np.zeros(8000, np.float32), PitchOptions())[:, 0], np.zeros(48))
    assert tracked(voice()[:300], PitchOptions()).shape == (0, 2)
