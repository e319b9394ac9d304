"""Inputs of the network as the recognizer makes them, and alignments that say when tones sound."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from nnet3.asr import AcousticStream, Model
from nnet3.errors import ExecutionError
from nnet3.model.hmm.segments import phone_segments
from nnet3.options import TuningOptions
from nnet3.speech.tuning.speech_aligner import SpeechAligner, Spoken
from nnet3.speech.tuning.spoken_graphs import SpokenGraphs
from tests.asr.small_model import random_cmvn_stats, write_matrix
from tests.asr.small_recognizer import RATE, write_recognizer
from tests.asr.spoken_tones import spoken
from tests.seeds import RANDOM

pytest.importorskip("kaldifst")
WORDS = ["high", "low", "high"]
SILENCE, PHONES = 1, {"high": 2, "low": 3}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_recognizer(tmp_path / "model")


def aligner_of(model: Model, **options: float) -> SpeechAligner:
    return SpeechAligner(model, SpokenGraphs(model.graph, WORDS), TuningOptions(**options))


def said(words: list[str]) -> Spoken:
    return Spoken("u", spoken(words).astype(np.float32), RATE, tuple(words))


def test_phones_are_those_of_the_words_when_they_sound(folder: Path) -> None:
    model = Model(folder)
    speech = aligner_of(model).align(said(WORDS))
    first, phones = phone_segments(speech.transition_ids, model.transition_model, "transition-ids")
    words = phones != SILENCE
    assert phones[words].tolist() == [PHONES[word] for word in WORDS]
    assert len(speech.transition_ids) == -(-len(speech.features) // 3)
    begins = model.seconds_per_row * first[words]
    np.testing.assert_allclose(begins, [0.2, 0.7, 1.2], atol=0.09)  # three rows; a tone lasts 0.3 s, a pause 0.2 s


@pytest.mark.parametrize("with_cmvn", [False, True])
def test_features_are_those_of_the_recognizer(folder: Path, with_cmvn: bool) -> None:
    if with_cmvn:
        write_matrix(random_cmvn_stats(RANDOM), folder / "am/global_cmvn.stats", binary=False)
    with open(folder / "conf/mfcc.conf", "a") as conf:
        conf.write("--dither=0\n")
    model, utterance = Model(folder), said(WORDS)
    speech = aligner_of(model, beam=500, retry_beam=1000).align(utterance)
    stream = AcousticStream(model.front, model.computer(), RATE)
    inputs = [stream.feed(piece) for piece in stream.pieces(utterance.samples)]
    frames = np.concatenate([each.frames for each in inputs])
    np.testing.assert_allclose(speech.features[: len(frames)], frames, rtol=1e-5, atol=1e-5)
    assert len(speech.features) - len(frames) < 5
    stream.close()


def test_silence_hardly_counts_in_ivectors(folder: Path) -> None:
    """Frames of the pauses weigh as the settings say: ivectors are those of weights that the alignment gives."""
    model = Model(folder)
    assert model.front.silence_weighting.silence_phones == (SILENCE,)
    speech = aligner_of(model).align(said(WORDS))
    assert speech.ivectors is not None
    phones = np.repeat(model.transition_model.phone(speech.transition_ids), 3)[: len(speech.features)]
    extractor = model.front.ivectors
    assert extractor is not None
    weights = np.where(phones == SILENCE, model.front.silence_weighting.silence_weight, 1).astype(np.float32)
    expected, _ = extractor.compute(speech.features, weights=weights)
    np.testing.assert_allclose(speech.ivectors, expected, rtol=1e-5, atol=1e-6)
    plain, _ = extractor.compute(speech.features)
    assert np.abs(plain - expected).max() > 1e-3


def test_without_weights_all_frames_count(folder: Path) -> None:
    model = Model(folder)
    everything = replace(model.front.silence_weighting, silence_weight=1.0)
    model.front = replace(model.front, silence_weighting=everything)
    speech = aligner_of(model).align(said(WORDS))
    assert model.front.ivectors is not None
    np.testing.assert_array_equal(speech.ivectors, model.front.ivectors.compute(speech.features)[0])


def test_what_cannot_be_aligned(folder: Path) -> None:
    aligner = aligner_of(Model(folder))
    short = replace(said(WORDS), samples=np.zeros(10, np.float32))
    with pytest.raises(ExecutionError, match="too short for a frame"):
        aligner.align(short)
    with pytest.raises(ExecutionError, match="no path through what was said"):
        aligner.align(replace(said(WORDS), samples=spoken(["low"])[:2000].astype(np.float32), words=("high",) * 30))
