"""Streams decoded piece by piece: the same as the whole utterance at once, pauses, and what is known of a speaker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from nnet3.asr import FeatureStream, Model, OnlineIvectors
from nnet3.errors import ArgumentError, ExecutionError
from nnet3.options import EndpointRule, LatticeOptions, OnlineCmvnOptions, SilenceWeightingOptions
from nnet3.speech.asr.acoustic_stream import UNKNOWN_SPEAKER, SpeakerKnown
from nnet3.speech.asr.online_decoder import OnlineDecoder, OnlineStream
from nnet3.speech.features.audio import samples_at_once
from nnet3.speech.search.endpoints import Endpointing
from nnet3.speech.search.utterance_decoder import UtteranceDecoder, UtteranceSearch
from tests.asr.small_model import FEATURES, SILENCE, random_cmvn_stats
from tests.asr.small_recognizer import RATE, audio, write_recognizer
from tests.seeds import RANDOM

SOUND = audio(1.7).astype(np.float32)
NEVER = EndpointRule(min_trailing_silence=1000)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return Model(write_recognizer(tmp_path_factory.mktemp("models") / "model"))


def _utterances(model: Model) -> UtteranceDecoder:
    return UtteranceDecoder(model.transition_model, model.front.decoding, LatticeOptions(), 1.0, allow_partial=True)


def _decoder(model: Model, chunk_seconds: float, rule: EndpointRule | None = None, **changes: object) -> OnlineDecoder:
    front = replace(model.front, silence_weighting=SilenceWeightingOptions(), **changes)  # type: ignore[arg-type]
    begin: Callable[[], UtteranceSearch] = partial(UtteranceSearch, _utterances(model), model.graph.search)
    endpoints = None if rule is None else Endpointing({"rule": rule}, 0.03)
    return OnlineDecoder(front, begin, chunk_seconds, endpoints, SILENCE)


def _state(known: SpeakerKnown) -> list[np.ndarray]:
    assert known.ivectors is not None
    statistics = known.ivectors.statistics
    assert statistics is not None
    return [np.asarray(known.ivectors.cmvn_stats), statistics.linear, statistics.quadratic]


def test_all_at_once_is_the_whole_utterance_with_its_last_ivector(model: Model) -> None:
    """The second utterance, too, whose ivector begins with what the first has left."""
    decoder, known = _decoder(model, 0.0), UNKNOWN_SPEAKER
    for sound in (SOUND, SOUND[: len(SOUND) // 2]):
        found, after = decoder.decode(RATE, sound, known)
        features = FeatureStream(model.front.features, RATE).accept(sound, last=True)
        assert model.front.ivectors is not None
        ivectors = OnlineIvectors(model.front.ivectors, known.ivectors)
        ivectors.accept(features, last=True)
        scores = model.front.computer().compute(features, ivectors.at(len(features) - 1)).numpy()
        expected = _utterances(model).decode(model.graph.search, scores)
        assert np.array_equal(found.transition_ids, expected.transition_ids)
        assert found.cost == pytest.approx(expected.cost, rel=1e-5)
        known = SpeakerKnown(ivectors.speaker_state())
        assert all(np.allclose(*pair) for pair in zip(_state(after), _state(known), strict=True))


@pytest.mark.parametrize("chunk", [0.011, 0.07, 0.18, 0.5, 5.0])
def test_pieces_make_no_difference_without_ivectors(model: Model, chunk: float) -> None:
    """Of a network whose ivector is always that of an extractor that does not know anything."""
    assert model.front.ivectors is not None
    blind = replace(model.front.ivectors, transform=0 * model.front.ivectors.transform)
    expected, _ = _decoder(model, -1.0, ivectors=blind).decode(RATE, SOUND)
    found, _ = _decoder(model, chunk, NEVER, ivectors=blind).decode(RATE, SOUND)
    assert len(found) == len(expected)
    assert np.array_equal(found.words, expected.words)


def test_a_pause_ends_an_utterance_and_the_rest_is_lost(model: Model) -> None:
    sound = np.concatenate([SOUND, np.zeros(RATE, np.float32), SOUND])
    whole, _ = _decoder(model, 0.1, NEVER).decode(RATE, sound)
    found, known = _decoder(model, 0.1, EndpointRule(min_trailing_silence=0.3)).decode(RATE, sound)
    assert len(found) < len(whole)
    phones = model.transition_model.phone(found.transition_ids)
    assert (phones[-10:] == SILENCE[0]).all()
    assert known.ivectors is not None
    heard = known.ivectors.cmvn_stats
    assert heard is not None
    assert 3 * len(found) <= heard[0, -1] < 100 * len(sound) / RATE - 10


def test_segments_follow_one_another_in_a_stream(model: Model) -> None:
    sound = np.concatenate([SOUND, np.zeros(RATE, np.float32), SOUND])
    rule, rows, segments = EndpointRule(min_trailing_silence=0.3, max_relative_cost=np.inf), 0, 0
    with OnlineStream(_decoder(model, 0.1, rule), RATE) as stream:
        for first in range(0, len(sound), 800):
            stream.accept(sound[first : first + 800], first + 800 >= len(sound))
            if stream.has_paused():
                assert len(stream.hearing.found()) == stream.num_rows
                rows, segments = rows + stream.num_rows, segments + 1
                stream.begin_segment()
        rows += stream.num_rows
    frames = 1 + (len(sound) - 200) // 80
    assert (rows, segments > 0) == (-(-frames // 3), True)


def test_sums_of_a_normalised_input_go_on(model: Model) -> None:
    decoder = _decoder(model, 0.2, cmvn=(OnlineCmvnOptions(), random_cmvn_stats(RANDOM)))
    _, once = decoder.decode(RATE, SOUND)
    again, twice = decoder.decode(RATE, SOUND, once)
    assert once.input_stats is not None
    assert twice.input_stats is not None
    assert once.input_stats.shape == (2, FEATURES + 1)
    assert np.allclose(twice.input_stats, 2 * once.input_stats)
    assert again.cost != decoder.decode(RATE, SOUND)[0].cost


def test_what_cannot_be_decoded(model: Model) -> None:
    decoder = _decoder(model, 0.2)
    with pytest.raises(ExecutionError, match=r"0\.0125 s of audio are too short"):
        decoder.decode(RATE, SOUND[:100])
    assert len(decoder.decode(RATE, SOUND[:300])[0]) == 1  # the computer is free again
    refusing = _decoder(model, 0.2, features=replace(model.front.features, allow_upsample=False))
    with pytest.raises(ArgumentError, match="allow-upsample=false"):
        refusing.decode(RATE // 2, SOUND)
    with pytest.raises(ExecutionError, match="silence-phones"):
        replace(_decoder(model, 0.2, NEVER), silence_phones=())


def test_without_any_path_the_lattice_is_empty(model: Model) -> None:
    search = UtteranceSearch(_utterances(model), model.graph.search)
    last = search.search.tokens.last
    last.state, last.cost = last.state[:0], last.cost[:0]
    assert search.found().lattice.fst.num_states == 0


def test_the_samples_of_a_piece_are_counted_in_float32() -> None:
    sizes = {(8000, 0.06): 480, (16000, 0.18): 2880, (8000, 1e-6): 1, (8000, -1.0): 0, (8000, 0.0): 0}
    sizes[8000, 3e38] = 800_000_000
    for (rate, seconds), samples in sizes.items():
        assert samples_at_once(rate, seconds) == samples
