"""Diarization: speakers in turns; scores of pairs against the model without projection; kept axes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from nnet3.errors import ArgumentError, ModelFormatError, Nnet3Error
from nnet3.options import ClusteringOptions, PldaScoringOptions
from nnet3.speaker import diarize
from nnet3.speech.speaker.clustering import clusters_of
from nnet3.speech.speaker.diarizing import main_axes, scores_of_pairs
from nnet3.speech.speaker.plda import Plda
from nnet3.speech.speaker.speaker_model import SpeakerModel
from nnet3.speech.speaker.turns import Turn, stretches_of, turns_of, windows_in
from tests.seeds import RANDOM
from tests.speaker.made_voices import RATE, voice
from tests.speaker.slow_plda import random_covariance

PARTS = [(0, 3.0), (3, 4.0), (0, 3.0), (5, 3.0)]
CALL = np.concatenate([voice(who, 300 + n, seconds) for n, (who, seconds) in enumerate(PARTS)])


def test_speakers_have_their_turns(model_folder: Path) -> None:
    turns = diarize((CALL, RATE), model_folder, num_speakers=3)
    assert [turn.speaker for turn in turns] == [1, 2, 1, 3]
    begin = 0.0
    for turn, (_, seconds) in zip(turns, PARTS, strict=True):
        assert turn.start == pytest.approx(begin + 0.25, abs=0.1)
        assert turn.end == pytest.approx(begin + 0.25 + seconds, abs=0.1)
        begin += seconds + 0.5
    model = SpeakerModel(model_folder)
    assert {turn.speaker for turn in diarize((CALL, RATE), model, num_speakers=1)} == {1}
    apart = diarize((CALL, RATE), model, threshold=1e9)
    assert [turn.speaker for turn in apart] == list(range(1, len(apart) + 1))
    assert {turn.speaker for turn in diarize((CALL, RATE), model, threshold=-1e9)} == {1}


def test_what_is_too_short_has_no_turns(model_folder: Path) -> None:
    model = SpeakerModel(model_folder)
    assert diarize((np.ones(RATE, np.int16), RATE), model) == []
    assert diarize((voice(0, 1, 0.3), RATE), model) == []
    assert len(diarize((voice(0, 1, 0.3), RATE), model, min_segment=0.2)) == 1
    assert (
        len(diarize((voice(0, 1, 0.3), RATE), model, num_speakers=1, min_segment=0.001, window=0.001, period=0.001))
        == 1
    )
    with pytest.raises(ArgumentError, match="no option 'minimum'"):
        diarize((CALL, RATE), model, minimum=3)
    model.plda = None
    with pytest.raises(ModelFormatError, match="the file plda is missing"):
        diarize((CALL, RATE), model)


def test_one_frame_may_be_a_turn(model_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = SpeakerModel(model_folder)
    features, voiced = model.frames((voice(0, 1), RATE))
    monkeypatch.setattr(model, "frames", lambda _: (features, np.arange(len(voiced)) == 50))
    assert diarize((CALL, RATE), model, num_speakers=1, min_segment=0.001) == [Turn(0.5, 0.51, 1)]
    assert diarize((CALL, RATE), model, num_speakers=1, min_segment=0.02) == []


def test_turns_follow_from_vectors_of_windows(model_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the steps of the recipe, one after the other."""
    model = SpeakerModel(model_folder)
    assert model.plda is not None
    features, voiced = model.frames((CALL, RATE))
    windows = windows_in(stretches_of(voiced, 30), 150, 75, 50)
    rows = [features[first:end] for first, end in windows.tolist()]
    vectors = model.vectors(rows)
    scores = scores_of_pairs(model.plda, model.prepared(vectors), 0.1)
    labels = clusters_of(-scores, ClusteringOptions(threshold=-5.0))
    start, end, first = turns_of(windows[:, 0] / 100, windows[:, 1] / 100, labels)
    given = list[np.ndarray]()

    def vectors_of(utterances: Iterable[np.ndarray]) -> np.ndarray:
        given.extend(utterances)
        return vectors

    monkeypatch.setattr(model, "vectors", vectors_of)
    turns = diarize((CALL, RATE), model, threshold=5.0)
    assert all(np.array_equal(*pair) for pair in zip(given, rows, strict=True))
    np.testing.assert_allclose([turn[:2] for turn in turns], np.stack([start, end], axis=1))
    assert len(set(zip(labels[first].tolist(), (turn.speaker for turn in turns), strict=True))) == len(
        set(labels.tolist())
    )


def test_scores_of_pairs_are_ratios() -> None:
    dim = 5
    plda = Plda.of_covariances(RANDOM.normal(size=dim), random_covariance(RANDOM, dim), random_covariance(RANDOM, dim))
    vectors = RANDOM.normal(0, 2, (7, dim))
    own, _ = plda.in_own_space(vectors)
    whole = scores_of_pairs(plda, vectors, 1.0)
    np.testing.assert_allclose(whole, plda.ratios(own, [1], own), atol=1e-12)
    np.testing.assert_allclose(whole, whole.T, atol=1e-9)
    np.testing.assert_allclose(scores_of_pairs(plda, vectors, 0.9999), whole, atol=1e-9)
    options = PldaScoringOptions(normalize_length=False)
    rotated, _ = np.linalg.qr(RANDOM.normal(size=(dim, dim)))
    turned = plda.projected(rotated)
    for energy in (0.1, 0.5):  # whatever the axes of the space are
        scores = scores_of_pairs(plda, vectors, energy, options)
        np.testing.assert_allclose(scores_of_pairs(turned, vectors @ rotated.T, energy, options), scores, atol=1e-4)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_vectors_that_are_not_finite_are_refused(bad: float) -> None:
    """Eigenvalues of their variance do not converge."""
    vectors = RANDOM.standard_normal((6, 30))
    vectors[0, 0] = bad
    with pytest.raises(Nnet3Error, match="a vector has a NaN or an infinity"):
        scores_of_pairs(Plda(np.zeros(30), np.eye(30), np.ones(30)), vectors, 0.1)


def test_kept_axes_hold_more_than_the_share_and_one_more() -> None:
    """Variances of 4, 3, 2, 1, 0: what lies on the first axes is 0.4, 0.7, 0.9, 1."""
    points = np.sqrt(5 * np.array([4.0, 3, 2, 1, 0]))
    vectors = np.concatenate([np.diag(points), -np.diag(points)]) + 3
    for energy, count in ((0.1, 2), (0.39, 2), (0.41, 3), (0.89, 4), (0.95, 5), (0.9999999, 5)):
        axes = main_axes(vectors, energy)
        assert axes.shape == (count, 5)
        np.testing.assert_allclose(axes @ axes.T, np.eye(count), atol=1e-9)
    assert main_axes(np.ones((1, 5)), 0.5).shape == (1, 5)
