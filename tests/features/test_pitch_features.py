"""Features of pitches, against a slow version and Kaldi's numbers, whole and in pieces."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3.base.options.pitch import PitchFeatureOptions, PitchOptions
from nnet3.errors import Nnet3Error
from nnet3.speech.arrays.aliases import Rows
from nnet3.speech.features.pitch import PitchTracker, pieces
from nnet3.speech.features.pitch_features import PitchFeatures, PitchFeatureStream, WithPitch, voiced_probability
from nnet3.training.examples.c_random import CRandom
from tests.asr.voice import voice

#: What process-kaldi-pitch-feats of Kaldi writes for `voice()`, noise included: the first frames.
_KALDIS = [
    [-0.7246106, -0.02799034, 0.146333],
    [-0.7919011, 0.03186035, 0.2798052],
    [-0.8658655, 0.1116619, 0.3161873],
    [-0.8993368, 0.1715117, 0.2777759],
    [-0.9989979, 0.2114124, 0.1240282],
    [-1.131554, 0.2513123, 0.0877386],
    [-1.310935, 0.2712622, -0.01090697],
]


def _pitches() -> Rows:
    tracker = PitchTracker(PitchOptions())
    tracker.accept(voice(), last=True)
    return tracker.found()


def test_features_are_kaldis() -> None:
    random = CRandom(0)
    features = PitchFeatures(PitchFeatureOptions(), lambda count: np.array([random.gauss() for _ in range(count)]))
    assert np.abs(features.of(_pitches(), np.arange(48))[:7] - _KALDIS).max() < 2e-5


def _slow(pitches: Rows, options: PitchFeatureOptions) -> Rows:
    """Frame by frame, without noise."""
    nccf, logs, count = pitches[:, 0], np.log(pitches[:, 1].astype(float)), len(pitches)
    found = []
    for frame in range(count + options.delay):
        t = max(frame - options.delay, 0)
        near = range(
            max(t - options.normalization_left_context, 0), min(t + options.normalization_right_context + 1, count)
        )
        weights = [float(voiced_probability(nccf[k : k + 1].astype(float))[0]) for k in near]
        mean = sum(w * logs[k] for w, k in zip(weights, near, strict=True)) / sum(weights)
        steps = range(-options.delta_window, options.delta_window + 1)
        change = sum(j * logs[min(max(t + j, 0), count - 1)] for j in steps) / sum(j * j for j in steps)
        voicing = options.pov_scale * ((1.0001 - nccf[t]) ** 0.15 - 1) + options.pov_offset
        all_four = (
            (options.add_pov_feature, voicing),
            (options.add_normalized_log_pitch, options.pitch_scale * (logs[t] - mean)),
            (options.add_delta_pitch, options.delta_pitch_scale * change),
            (options.add_raw_log_pitch, logs[t]),
        )
        found.append([value for is_added, value in all_four if is_added])
    return np.array(found, np.float32)


@pytest.mark.parametrize(
    "options",
    [
        PitchFeatureOptions(),
        PitchFeatureOptions(
            normalization_left_context=5, normalization_right_context=2, delta_window=3, delay=4, pov_offset=1.0
        ),
        PitchFeatureOptions(add_pov_feature=False, add_delta_pitch=False, add_raw_log_pitch=True, pitch_scale=0.5),
    ],
)
def test_features_are_those_of_the_slow_version(options: PitchFeatureOptions) -> None:
    pitches = _pitches()
    found = PitchFeatures(options).of(pitches, np.arange(len(pitches) + options.delay))
    assert found.shape == (48 + options.delay, options.dim)
    assert np.abs(found - _slow(pitches, options)).max() < 1e-5


def test_correlations_beyond_one_are_taken_for_one() -> None:
    features = PitchFeatures(PitchFeatureOptions())
    beyond, one = (features.of(np.array([[c, 100], [-c, 110]], np.float32), np.arange(2)) for c in (1.5, 1))
    assert np.array_equal(beyond, one)


@pytest.mark.parametrize("forgets", [False, True])
def test_frames_come_when_those_behind_them_are_there(forgets: bool) -> None:
    samples = np.tile(voice(), 3)
    options, features = PitchOptions(frames_per_chunk=4), PitchFeatureOptions(normalization_right_context=10, delay=2)
    stream = PitchFeatureStream(options, features, 16000, forgets=forgets)
    found = [stream.accept(piece, last) for piece, last in pieces(samples, options)]
    ready = np.cumsum([len(rows) for rows in found])
    assert ready[-1] == stream.num_frames == 148 + 2
    assert ready[9] == (40 * 160 - 25 * 16 - 82 * 4) // 160 + 1 - 10 + 2  # samples of 40 frames, with lags
    tracker = PitchTracker(options)
    tracker.accept(samples, last=True)
    whole = PitchFeatures(features).of(tracker.found(), np.arange(150))
    assert np.median(np.abs(np.concatenate(found) - whole)) < 1e-4


def test_what_is_no_pitch() -> None:
    features = PitchFeatures(PitchFeatureOptions())
    for rows, message in (
        (np.ones((3, 3), np.float32), "expected NCCF and pitch, 2 columns, got 3 columns"),
        (np.zeros((3, 2), np.float32), "a pitch is not above 0"),
        (np.full((3, 2), np.nan, np.float32), "a number is not finite"),
    ):
        with pytest.raises(Nnet3Error, match=message):
            features.of(rows, np.arange(3))


def test_audio_of_another_rate_is_resampled() -> None:
    options, features = PitchOptions(sample_frequency=8000), PitchFeatureOptions(add_raw_log_pitch=True)
    of_16000 = PitchFeatureStream(PitchOptions(), features, 16000).accept(voice(), last=True)
    assert of_16000.shape == (48, 4)
    resampled = PitchFeatureStream(options, features, 16000).accept(voice(), last=True)
    assert np.median(np.abs(resampled - of_16000)[:, 3]) < 0.006


def test_frames_wait_for_their_pitch() -> None:
    samples, features = voice(), np.arange(150, dtype=np.float32).reshape(50, 3)
    stream = PitchFeatureStream(PitchOptions(), PitchFeatureOptions(normalization_right_context=5), 16000)
    both, found, given = WithPitch(stream, 3), list[Rows](), 0
    for number in range(10):
        found.append(both.accept(features[given : given + 5], samples[800 * number :][:800]))
        given += 5
    found.append(both.accept(features[:0], samples[:0], last=True))
    rows = np.concatenate(found)
    assert rows.shape == (48, 6)
    assert np.array_equal(rows[:, :3], features[:48])
    assert len(found[0]) == 0
    assert np.isfinite(rows).all()
