"""Ivectors of the recognizer of Vosk's wheel, which has Kaldi inside, for one small random extractor."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nnet3.asr import IvectorModel, OnlineIvectors
from nnet3.options import IvectorOptions, OnlineCmvnOptions
from nnet3.speech.features.ivectors import IvectorFiles
from tests.asr.golden_ivectors import ARRAYS, FEATURES, GOLDEN, NEAR


def _model(name: str, **options: Any) -> IvectorModel:
    parts = ("final.ie", "final.dubm", "final.mat", "global_cmvn.stats", "splice.conf", f"{name}.conf")
    files = IvectorFiles(*(GOLDEN / part for part in parts))
    return files.load(IvectorOptions(**options), OnlineCmvnOptions(min_energy=50.0))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("plain", {}),
        ("quiet", {}),
        ("narrow", {"num_gselect": 2, "min_post": 0.2, "ivector_period": 7, "max_count": 3.0}),
        ("scaled", {"posterior_scale": 0.5, "max_count": 20.0, "online_cmvn_iextractor": True, "ivector_period": 5}),
    ],
)
def test_ivectors_of_an_utterance(name: str, options: dict[str, Any]) -> None:
    got, _ = _model(name, **options).compute(FEATURES)
    np.testing.assert_allclose(got, ARRAYS[name], **NEAR)


def test_ivectors_of_a_speaker_of_three_utterances() -> None:
    model, speaker, rows = _model("speaker", max_count=4.0, max_remembered_frames=70.0), None, []
    for utterance in np.split(FEATURES, ARRAYS["speaker_ends"][:-1]):
        stream = OnlineIvectors(replace(model, options=replace(model.options, use_most_recent_ivector=False)), speaker)
        stream.accept(utterance, last=True)
        rows += [stream.at(frame) for frame in (*range(0, len(utterance), 10), len(utterance) - 1)]
        speaker = stream.speaker_state()
    np.testing.assert_allclose(rows, ARRAYS["speaker"], **NEAR)


def test_ivectors_of_a_stream_whose_frames_have_weights() -> None:
    stream, rows = OnlineIvectors(_model("weighted", max_count=5.0), weighted=True), []
    for given in np.unique(ARRAYS["weighted_given"]).tolist():
        stream.accept(FEATURES[(given - 1) // 20 * 20 : given], last=given == len(FEATURES))
        now = ARRAYS["weighted_given"] == given
        stream.weigh(ARRAYS["weighted_frames"][now], ARRAYS["weighted_changes"][now].astype(float))
        rows.append(stream.at(stream.ready - 1))
    np.testing.assert_allclose(rows, ARRAYS["weighted"], **NEAR)
