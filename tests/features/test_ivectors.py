"""Online ivectors of whole streams against a slow version, by any sequence of pieces, requests and weights."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from nnet3.asr import IvectorModel, OnlineIvectors, SpeakerState
from nnet3.errors import ExecutionError, ModelFormatError
from nnet3.options import IvectorOptions, OnlineCmvnOptions, SpliceOptions
from nnet3.speech.features.ivector_files import from_packed
from tests.asr.slow_ivectors import SlowIvectors
from tests.asr.small_model import FEATURES, IVECTOR, random_features, random_ivector_model
from tests.effort import draws
from tests.seeds import RANDOM

# Short windows, so that few frames see all cases.
CMVN = OnlineCmvnOptions(cmn_window=30, speaker_frames=20, global_frames=10)
CMVNS = st.sampled_from([CMVN, replace(CMVN, min_energy=1.0)])
OPTIONS = st.sampled_from(
    [
        IvectorOptions(),
        IvectorOptions(num_gselect=2, min_post=0.2, max_count=1.0),
        IvectorOptions(posterior_scale=1.0, online_cmvn_iextractor=True, ivector_period=7),
        IvectorOptions(max_count=3.0, min_post=0.0, num_gselect=20),
    ]
)
NEAR = {"rtol": 2e-3, "atol": 2e-3}  # of values of up to 30: by conjugate gradients from another start


@settings(max_examples=draws(12))
@given(OPTIONS, CMVNS, st.integers(1, 80), st.booleans())
def test_ivectors_of_an_utterance_are_those_of_the_slow_version(
    options: IvectorOptions, cmvn: OnlineCmvnOptions, frames: int, affine: bool
) -> None:
    model = random_ivector_model(RANDOM, options, cmvn, affine=affine)
    features, period = random_features(RANDOM, frames), options.ivector_period
    slow, expected = SlowIvectors(model, features), []
    for frame in range(frames):
        slow.add([(frame, 1.0)])
        if frame % period == 0:
            expected.append(slow.exact())
    got, _ = model.compute(features)
    assert got.shape == (-(-frames // period), IVECTOR)
    np.testing.assert_allclose(got, expected, **NEAR)


def test_an_utterance_without_frames_has_no_ivectors() -> None:
    got, speaker = random_ivector_model(RANDOM).compute(random_features(RANDOM, 0))
    assert got.shape == (0, IVECTOR)
    assert speaker.statistics is not None
    assert speaker.statistics.count == 0


@settings(max_examples=draws(12))
@given(OPTIONS, st.lists(st.tuples(st.integers(0, 30), st.booleans(), st.integers(0, 10)), min_size=1, max_size=6))
def test_the_newest_ivector_is_that_of_all_frames_asked_for(
    options: IvectorOptions, steps: list[tuple[int, bool, int]]
) -> None:
    model = random_ivector_model(RANDOM, options, CMVN)
    features = random_features(RANDOM, sum(step[0] for step in steps))
    stream, slow, given, done = OnlineIvectors(model), SlowIvectors(model, features), 0, 0
    expected = np.zeros(IVECTOR)
    for number, (new, asks, back) in enumerate(steps, start=1):
        given += new
        stream.accept(features[given - new : given], last=number == len(steps))
        assert stream.ready == (given if number == len(steps) else max(0, given - model.splice.right_context))
        if asks and stream.ready:
            frame = max(0, stream.ready - 1 - back)
            if frame >= done:
                slow.add([(each, 1.0) for each in range(done, frame + 1)])
                done, expected = frame + 1, slow.exact()
            np.testing.assert_allclose(stream.at(frame), expected, **NEAR)


def test_the_greedy_extractor_takes_all_frames_in() -> None:
    model = random_ivector_model(RANDOM, IvectorOptions(greedy_ivector_extractor=True))
    features = random_features(RANDOM, 40)
    stream, other = OnlineIvectors(model), OnlineIvectors(replace(model, options=IvectorOptions()))
    for each in (stream, other):
        each.accept(features)
    assert np.array_equal(stream.at(3), other.at(38))
    ivectors, _ = model.compute(features)
    assert np.array_equal(ivectors, np.tile(ivectors[0], (4, 1)))


@settings(max_examples=draws(12))
@given(
    OPTIONS,
    st.booleans(),
    st.lists(
        st.lists(st.tuples(st.integers(0, 25), st.sampled_from([0.001, 0.999, -0.999, 1.0, 0.5])), max_size=8),
        max_size=5,
    ),
)
def test_weights_of_frames_add_up_until_they_are_asked_for(
    options: IvectorOptions, by_period: bool, rounds: list[list[tuple[int, float]]]
) -> None:
    options = replace(options, use_most_recent_ivector=not by_period)
    model = random_ivector_model(RANDOM, options, CMVN)
    features = random_features(RANDOM, 30)
    stream, slow = OnlineIvectors(model, weighted=True), SlowIvectors(model, features)
    stream.accept(features, last=True)
    done, waiting = 0, [(29, 1.0)]
    stream.weigh(np.array([29]), np.array([1.0]))
    for number, changes in enumerate(rounds):
        waiting += changes
        stream.weigh(np.array([frame for frame, _ in changes], int), np.array([change for _, change in changes]))
        frame = min(5 * number + 3, 28)
        points = [u for u in range(done, frame + 1) if u % options.ivector_period == 0] if by_period else [frame]
        for point in dict.fromkeys([*points, frame]):
            slow.add([pair for pair in waiting if pair[0] <= point])
            waiting = [pair for pair in waiting if pair[0] > point]
            if point in points:
                expected = slow.exact()
        done = frame + 1
        got = stream.at(frame)
        if not by_period and slow.count > 0.05:  # where much is taken away nothing is left to estimate from
            np.testing.assert_allclose(got, expected, **NEAR)
        elif by_period and slow.count > 0.05 and points:
            np.testing.assert_allclose(stream._statistics.linear, slow.linear, rtol=1e-3, atol=1e-3)
        assert stream._statistics.count == pytest.approx(slow.count, abs=1e-9)


def test_a_frame_needs_a_weight_where_frames_have_weights() -> None:
    stream = OnlineIvectors(random_ivector_model(RANDOM), weighted=True)
    stream.accept(random_features(RANDOM, 20))
    stream.weigh(np.arange(10), np.ones(10))
    stream.at(9)
    with pytest.raises(ExecutionError, match="frame 10 and those after it have no weight yet"):
        stream.at(10)
    stream.weigh(np.arange(12, 15), np.zeros(3))
    before = stream.at(14)
    stream.weigh(np.arange(3), np.full(3, -1.0))
    assert np.array_equal(stream.at(12), before)  # that frame was taken in before


@settings(max_examples=draws(6))
@given(st.lists(st.integers(1, 40), min_size=2, max_size=4), st.sampled_from([1000.0, 25.0]), OPTIONS)
def test_a_speakers_state_goes_on_in_the_next_utterance(
    utterances: list[int], remembered: float, options: IvectorOptions
) -> None:
    options = replace(options, max_remembered_frames=remembered)
    model = random_ivector_model(RANDOM, options, CMVN)
    speaker, known, total = None, None, np.zeros((2, FEATURES + 1))
    for frames in utterances:
        features = random_features(RANDOM, frames)
        slow = SlowIvectors(model, features, known)
        asked = (frames - 1) // options.ivector_period * options.ivector_period  # the last frame that has an ivector
        slow.add([(frame, 1.0) for frame in range(asked + 1)])
        got, speaker = model.compute(features, speaker)
        assert len(got) == -(-frames // options.ivector_period)
        total[:, :-1] += [features.sum(axis=0), (features**2).sum(axis=0)]
        total[0, -1] += frames
        total = total * min(1, remembered / total[0, -1])
        factor = min(1, remembered * options.posterior_scale / slow.count)
        most, prior = options.max_count, 1 - factor
        if most > 0:
            prior = (max(factor * slow.count, most) - factor * max(slow.count, most)) / most
        slow.count, slow.linear = factor * slow.count, factor * slow.linear + prior * slow.prior
        slow.quadratic = factor * slow.quadratic + prior * np.eye(IVECTOR)
        known = (total, slow.count, slow.quadratic, slow.linear)
        statistics = speaker.statistics
        np.testing.assert_allclose(speaker.cmvn_stats, total, rtol=1e-5, atol=1e-3)
        np.testing.assert_allclose(statistics.linear, slow.linear, rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(from_packed(statistics.quadratic, IVECTOR), slow.quadratic, rtol=1e-3, atol=1e-3)


def test_a_state_is_not_changed_by_its_use() -> None:
    model = random_ivector_model(RANDOM)
    features = random_features(RANDOM, 30)
    _, speaker = model.compute(features)
    first, _ = model.compute(features, speaker)
    second, _ = model.compute(features, speaker)
    assert np.array_equal(first, second)
    assert not np.array_equal(first, model.compute(features, SpeakerState())[0])


def test_misuse_is_an_error() -> None:
    stream = OnlineIvectors(random_ivector_model(RANDOM))
    with pytest.raises(ExecutionError, match="there is no ivector for frame 0 yet: 0 frames are ready"):
        stream.at(0)
    with pytest.raises(ExecutionError, match="the frames of this stream have no weights"):
        stream.weigh(np.arange(2), np.ones(2))
    with pytest.raises(ExecutionError, match=r"features must be \(frames, 6\), got \(3, 5\)"):
        stream.accept(np.zeros((3, 5), np.float32))
    stream.accept(random_features(RANDOM, 3), last=True)
    with pytest.raises(ExecutionError, match="the stream of features has ended"):
        stream.accept(random_features(RANDOM, 3))


def test_parts_that_do_not_fit_are_refused() -> None:
    model, fewer = random_ivector_model(RANDOM), random_ivector_model(RANDOM)
    gmm = fewer.gmm
    half = type(gmm)(gmm.weights[:4], gmm.means_inv_vars[:4], gmm.inv_vars[:4])
    with pytest.raises(ModelFormatError, match=r"\(final.dubm\) has 4 Gaussians, the extractor \(final.ie\) 8"):
        replace(model, gmm=half)
    with pytest.raises(ModelFormatError, match=r"the transform \(final.mat\) has 4 rows, .* dimension 5, .* 5"):
        replace(model, transform=model.transform[:4])
    with pytest.raises(ModelFormatError, match=r"is it of other features, or of another splice.conf\?"):
        replace(model, splice=SpliceOptions(3, 3))
    assert isinstance(model, IvectorModel)


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e30])
def test_a_transform_of_other_numbers_is_refused(value: float) -> None:
    model = random_ivector_model(RANDOM)
    transform = model.transform.copy()
    transform[0, 0] = value
    with pytest.raises(ModelFormatError, match=r"the transform \(final.mat\) must have finite numbers up to 1e\+12"):
        replace(model, transform=transform)
