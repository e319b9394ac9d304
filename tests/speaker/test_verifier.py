"""Verification: enrolled speakers are told apart; scores are those of PLDA; cosines without it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nnet3.errors import ArgumentError, Nnet3Error
from nnet3.speaker import Verifier
from nnet3.speech.speaker.speaker_model import SpeakerModel
from tests.speaker.made_voices import RATE, SPEAKERS, voice


def test_speakers_are_known_again(model_folder: Path) -> None:
    verifier = Verifier(model_folder)
    for who in range(SPEAKERS):
        verifier.enrol(f"s{who}", (voice(who, 100), RATE))
        verifier.enrol(f"s{who}", (voice(who, 101), RATE))
    assert verifier.speakers == [f"s{who}" for who in range(SPEAKERS)]
    for who in range(SPEAKERS):
        scores = verifier.scores((voice(who, 200), RATE))
        assert max(scores, key=lambda name: scores[name]) == f"s{who}"
        assert all(score < 0 for name, score in scores.items() if name != f"s{who}")


def test_scores_are_those_of_plda(model_folder: Path) -> None:
    model = SpeakerModel(model_folder)
    assert model.plda is not None
    verifier, both = Verifier(model), [(voice(3, n), RATE) for n in (7, 8)]
    verifier.enrol("one", *both)
    mean = np.mean([model.vector(each) for each in both], axis=0, dtype=np.float32)
    test = model.vector((voice(3, 9), RATE))
    enrolled, _ = model.plda.in_own_space(model.prepared(mean[np.newaxis]), [2])
    own, _ = model.plda.in_own_space(model.prepared(test[np.newaxis]))
    expected = model.plda.ratios(enrolled, [2], own)[0, 0]
    assert verifier.score("one", (voice(3, 9), RATE)) == pytest.approx(expected)
    assert verifier.compare(both[0], both[1]) == pytest.approx(verifier.compare(both[1], both[0]), rel=1e-4)


def test_without_plda_scores_are_cosines(model_folder: Path) -> None:
    model = SpeakerModel(model_folder)
    model.plda = None
    assert Verifier(model).compare((voice(0, 1), RATE), (voice(0, 1), RATE)) == pytest.approx(1.0)
    assert Verifier(model).compare((voice(0, 1), RATE), (voice(1, 1), RATE)) < 0.9


def test_who_is_not_enrolled_is_no_speaker(model_folder: Path) -> None:
    verifier = Verifier(model_folder)
    with pytest.raises(ArgumentError, match="nobody is enrolled"):
        verifier.scores((voice(0, 1), RATE))
    with pytest.raises(ArgumentError, match="at least one recording of 'anna'"):
        verifier.enrol("anna")
    with pytest.raises(Nnet3Error):
        verifier.enrol("anna", (voice(0, 1), RATE), (np.zeros(RATE, np.int16), RATE))
    assert verifier.speakers == []
    verifier.enrol("anna", (voice(0, 1), RATE))
    with pytest.raises(ArgumentError, match="'eva' is not enrolled; enrolled are: anna"):
        verifier.score("eva", (voice(0, 1), RATE))
