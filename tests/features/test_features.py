"""Features by kaldi-native-fbank, online CMVN and splicing, whole and in pieces."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from nnet3.asr import FeatureStream
from nnet3.errors import ArgumentError, ModelFormatError
from nnet3.options import FbankOptions, MfccOptions, OnlineCmvnOptions, SpliceOptions
from nnet3.speech.features.features import OnlineCmvn, SplicedTransform, _computer
from tests.asr.slow_ivectors import SlowCmvn, spliced
from tests.asr.small_model import FEATURES, random_cmvn_stats, random_features
from tests.effort import draws
from tests.seeds import RANDOM

cuts = st.lists(st.integers(0, 60), min_size=1, max_size=6)


@settings(max_examples=draws(15))
@given(
    st.sampled_from([8000, 16000, 11025]),
    st.booleans(),
    st.sampled_from([MfccOptions(sample_frequency=8000), FbankOptions(sample_frequency=8000, use_energy=True)]),
    st.lists(st.integers(0, 3000), min_size=1, max_size=5),
)
def test_pieces_make_no_difference_to_any_bit(
    rate: int, snip: bool, options: MfccOptions | FbankOptions, pieces: list[int]
) -> None:
    options = type(options)(**options.values() | {"snip_edges": snip})
    samples = (1000 * RANDOM.normal(size=sum(pieces))).astype(np.float32)
    whole = FeatureStream(options, rate).accept(samples, last=True)
    stream, rows, done = FeatureStream(options, rate), [], 0
    for number, piece in enumerate(pieces, start=1):
        done += piece
        rows.append(stream.accept(samples[done - piece : done], last=number == len(pieces)))
    assert np.array_equal(np.concatenate(rows), whole)
    if rate == 8000 and snip:
        assert len(whole) == max(0, 1 + (done - 200) // 80)
    assert whole.shape[1] == options.dim


@pytest.mark.parametrize("kind", [MfccOptions, FbankOptions])
def test_every_option_of_the_file_reaches_the_package(kind: type[MfccOptions | FbankOptions]) -> None:
    others = {
        "sample_frequency": 8000.0, "frame_length": 30.0, "frame_shift": 20.0, "dither": 0.5,
        "preemphasis_coefficient": 0.5, "remove_dc_offset": False, "window_type": "hamming", "blackman_coeff": 0.3,
        "round_to_power_of_two": False, "snip_edges": False, "num_mel_bins": 20, "low_freq": 50.0, "high_freq": 3000.0,
        "raw_energy": False, "energy_floor": 2.0, "htk_compat": True, "num_ceps": 12, "cepstral_lifter": 10.0,
        "use_log_fbank": False, "use_power": False,
    }  # fmt: skip
    defaults = kind()
    mine = {name: value for name, value in others.items() if hasattr(defaults, name)}
    mine["use_energy"] = not defaults.use_energy
    assert set(mine) == set(defaults.values()) - {"allow_downsample", "allow_upsample"}
    before, after = str(_of(defaults)).splitlines(), str(_of(kind(**mine))).splitlines()
    changed = sum(old != new for a, b in zip(before, after, strict=True) for old, new in _parts(a, b))
    assert changed == len(mine)


def _of(options: MfccOptions | FbankOptions) -> object:
    """Returns the options of the package, as those of ours were given to it."""
    given: list[object] = []
    import kaldi_native_fbank

    class Recorder:
        def __init__(self, theirs: object):
            given.append(theirs)

    with pytest.MonkeyPatch.context() as patch:
        for name in ("OnlineMfcc", "OnlineFbank"):
            patch.setattr(kaldi_native_fbank, name, Recorder)
        _computer(options)
    return given[0]


def _parts(a: str, b: str) -> list[tuple[str, str]]:
    return list(zip(a.split(","), b.split(","), strict=True))


def test_a_rate_that_the_file_refuses_is_an_error() -> None:
    with pytest.raises(ArgumentError, match="the audio has 8000 Hz, the model 16000 Hz and --allow-upsample=false"):
        FeatureStream(MfccOptions(allow_upsample=False), 8000)
    with pytest.raises(ArgumentError, match="the audio has 48000 Hz, the model 16000 Hz and --allow-downsample=false"):
        FeatureStream(MfccOptions(allow_downsample=False), 48000)
    rate: Any = "8000"
    with pytest.raises(ArgumentError, match="the sample rate must be a number, got '8000'"):
        FeatureStream(MfccOptions(), rate)


@settings(max_examples=draws(25))
@given(
    cuts,
    st.booleans(),
    st.booleans(),
    st.sampled_from([(20, 20, 20), (30, 10, 5), (600, 600, 200), (40, 0, 0)]),
    st.sampled_from([(), (0, 3)]),
    st.sampled_from([-math.inf, -3.0, 0.0, 100.0]),
)
def test_cmvn_is_that_of_each_frames_time(
    pieces: list[int],
    with_speaker: bool,
    variance: bool,
    frames: tuple[int, int, int],
    skip: tuple[int, ...],
    min_energy: float,
) -> None:
    options = OnlineCmvnOptions(*frames, min_energy, normalize_variance=variance, skip_dims=skip)
    everybody, speaker = random_cmvn_stats(RANDOM), random_cmvn_stats(RANDOM, 17.5) if with_speaker else None
    rows = random_features(RANDOM, sum(pieces))
    cmvn, slow = OnlineCmvn(options, everybody, speaker), SlowCmvn(rows, options, everybody, speaker)
    done = 0
    for piece in pieces:
        cmvn.accept(rows[done : done + piece])
        done += piece
        looked_at = (
            RANDOM.integers(max(0, done - 30), done, (RANDOM.integers(0, 12), 2)) if done else np.zeros((0, 2), int)
        )
        got = cmvn.at(looked_at)
        assert got.shape == (*looked_at.shape, FEATURES)
        expected = np.array([slow.at(t) for t in looked_at.reshape(-1)]).reshape(got.shape)
        # One frame alone, without anybody else's, has no variance.
        good = ~((looked_at == 0) & variance & (frames[1] == 0))
        if frames[1] > 0 or not variance:
            np.testing.assert_allclose(got[good], expected[good], rtol=1e-3, atol=1e-4)
        cmvn.forget(done - 30)
    assert cmvn.stats[0, -1] == len(rows)
    np.testing.assert_allclose(cmvn.stats[:, :-1], [rows.sum(axis=0), (rows**2).sum(axis=0)], rtol=1e-5, atol=1e-3)


def test_a_quiet_frame_takes_the_statistics_of_the_one_before_it() -> None:
    everybody = np.array([[10.0, 0, 10], [0, 0, 0]])
    cmvn = OnlineCmvn(OnlineCmvnOptions(6, 6, 2, min_energy=50.0), everybody)
    cmvn.accept(np.array([[60, 4], [0, 4], [60, 7]], np.float32))
    got = cmvn.at(np.array([0, 1, 1, 1, 2]))
    # sums of the second feature are 4 and, with the third frame, 15; everybody's are 0; counts 1+2, 3+2, 5+1, 6, 3+2
    np.testing.assert_allclose(got[:, 1], [4 - 4 / 3, 4 - 4 / 5, 4 - 4 / 6, 4 - 4 / 6, 7 - 15 / 5], rtol=1e-6)


def test_cmvn_without_means_changes_nothing() -> None:
    rows = random_features(RANDOM, 5)
    cmvn = OnlineCmvn(OnlineCmvnOptions(normalize_mean=False), random_cmvn_stats(RANDOM))
    cmvn.accept(rows)
    assert np.array_equal(cmvn.at(np.arange(5)), rows)


def test_columns_to_skip_must_be_there() -> None:
    with pytest.raises(ModelFormatError, match="skip-dims names column 6, but there are 6"):
        OnlineCmvn(OnlineCmvnOptions(skip_dims=(1, 6)), random_cmvn_stats(RANDOM))


@settings(max_examples=draws(15))
@given(cuts, st.integers(0, 4), st.integers(0, 4), st.booleans())
def test_frames_are_spliced_when_those_behind_them_are_there(
    pieces: list[int], left: int, right: int, affine: bool
) -> None:
    rows = random_features(RANDOM, sum(pieces))
    matrix = RANDOM.normal(size=(3, FEATURES * (left + 1 + right) + affine)).astype(np.float32)
    transform = SplicedTransform(SpliceOptions(left, right), matrix, FEATURES)
    parts, done = [], 0
    for piece in [*pieces, 0]:
        done += piece
        is_last = len(parts) == len(pieces)
        parts.append(transform.apply(rows[transform.next_frames(done, is_last)]) if done else np.zeros((0, 3)))
        assert transform.done == sum(map(len, parts)) == (done if is_last else max(0, done - right))
        assert transform.first_needed == max(0, transform.done - left)
    expected = spliced(lambda t: rows[t].astype(np.float64), len(rows), left, right, matrix)
    np.testing.assert_allclose(np.concatenate(parts), expected, rtol=1e-4, atol=1e-4)


def test_a_transform_of_other_features_is_refused() -> None:
    with pytest.raises(ModelFormatError, match="must have 42 or 43 columns, for 7 frames of 6 features, got 40: is it"):
        SplicedTransform(SpliceOptions(3, 3), np.zeros((2, 40), np.float32), FEATURES)
