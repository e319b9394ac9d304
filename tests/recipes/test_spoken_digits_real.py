"""A little of the recipe on the real recordings."""

from __future__ import annotations

from pathlib import Path

import pytest

import nnet3
from recipes.spoken_digits import words
from recipes.spoken_digits.examples import write_examples
from recipes.spoken_digits.features import write_features
from recipes.spoken_digits.recordings import read_recordings
from tests.effort import nightly
from tests.shared_data import SHARED

RECORDINGS = SHARED / "data" / "fsdd" / "recordings.zip"
SPEAKERS = ("jackson", "theo")


@nightly
@pytest.mark.usefixtures("prepared_python")
@pytest.mark.skipif(not RECORDINGS.is_file(), reason=f"the recordings of spoken digits are not at {RECORDINGS}")
def test_two_speakers_are_understood_after_a_little_training(tmp_path: Path):
    pytest.importorskip("kaldi_native_fbank", reason="features of speech need kaldi-native-fbank")
    recordings = read_recordings(RECORDINGS)
    assert len(recordings) == 3000
    assert sum(recording.part == "test" for recording in recordings) == 300
    features, examples, trained = (tmp_path / name for name in ("features", "examples", "words"))
    for folder in (features, examples, trained):
        folder.mkdir()
    chosen = [each for each in recordings if each.speaker in SPEAKERS and (each.part != "train" or each.index % 3 == 0)]
    write_features(chosen, 0, 0, features)
    write_examples(features, nnet3.Nnet.from_xconfig(words.NETWORK.read_text()), examples)
    archives = [examples / f"{speaker}-train.ark" for speaker in SPEAKERS]
    valid = [examples / f"{speaker}-valid.ark" for speaker in SPEAKERS]
    words.train_words(archives, valid, words.WordTraining(epochs=8, minibatch=32, models=4), trained)
    decisions = words.decide(nnet3.load(trained / "final.raw"), sorted(features.glob("*-test.ark")))
    assert len(decisions.keys) == 100
    assert decisions.accuracy > 0.6
