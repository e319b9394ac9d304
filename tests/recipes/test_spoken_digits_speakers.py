"""The recipe of speakers: its parts against slow versions, and all of it on made-up recordings, untrained."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import nnet3
from nnet3.examples import EXAMPLES, ExampleReader
from recipes.spoken_digits.words import WordTraining
from recipes.spoken_digits_speakers import recipe
from recipes.spoken_digits_speakers.__main__ import main
from recipes.spoken_digits_speakers.verification import Trials, Vectors, train_plda
from tests.recipes.synthetic_recordings import write_recordings
from tests.seeds import RANDOM

pytest.importorskip("kaldi_native_fbank", reason="features of speech need kaldi-native-fbank")
pytest.importorskip("matplotlib", reason="the report needs matplotlib")


def _best_threshold(same: list[float], different: list[float]) -> float:
    """The errors where the shares of misses and of false alarms differ least, by trying all thresholds."""
    errors = []
    for threshold in sorted({*same, *different}):
        misses = sum(score < threshold for score in same) / len(same)
        alarms = sum(score >= threshold for score in different) / len(different)
        errors.append((abs(misses - alarms), (misses + alarms) / 2))
    return min(errors, key=lambda pair: pair[0])[1]


def test_the_equal_error_rate_is_where_both_errors_are_equal() -> None:
    for count in (1, 7, 40):
        same, different = RANDOM.normal(0.5, 1, count), RANDOM.normal(-0.5, 1, 2 * count)
        rate = Trials(same, different).equal_error_rate
        assert rate == pytest.approx(_best_threshold(same.tolist(), different.tolist()))
    assert Trials(np.array([0.5, 0.7]), np.array([-0.5, 0.2])).equal_error_rate == 0.0


def test_trials_are_all_pairs() -> None:
    vectors = Vectors(np.array(["a", "a", "b"]), np.array([[1.0, 0], [1, 1], [0, 1]]))
    trials = vectors.word_trials()
    np.testing.assert_allclose(trials.same, [0.5**0.5])
    np.testing.assert_allclose(trials.different, [0, 0.5**0.5], atol=1e-12)
    enrolled = vectors.speaker_trials(vectors)
    assert (len(enrolled.same), len(enrolled.different)) == (3, 3)


def test_plda_tells_speakers_apart_by_what_differs_between_them() -> None:
    """Speakers differ in the first two numbers; in the others there is noise, which cosines do not know."""
    noise = RANDOM.normal(0, [0.3, 0.3, 3, 3, 3], (6, 80, 5))
    noise[:, :, :2] += 2 * np.array([[np.cos(angle), np.sin(angle)] for angle in np.arange(6)])[:, np.newaxis]
    names = np.repeat(list("abcdef"), 40)
    known, test = (Vectors(names, half.reshape(-1, 5)) for half in np.split(noise, 2, axis=1))
    score = train_plda(known)
    assert test.word_trials(score).equal_error_rate < 0.05 < test.word_trials().equal_error_rate
    assert test.speaker_trials(known, score).equal_error_rate < 0.05


@pytest.mark.filterwarnings("ignore:.*has no statistics:RuntimeWarning")
def test_from_recordings_to_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = {}

    def save_untrained(
        network: Path, archives: Sequence[Path], valid: Sequence[Path], training: WordTraining, folder: Path
    ) -> None:
        with ExampleReader(f"ark:{archives[0]}", EXAMPLES) as examples:
            seen[folder.name] = [(key, *(io.matrix.shape for io in example.ios)) for key, example in examples]
        few = network.read_text().replace("name=tdnn6 dim=128", "name=tdnn6 dim=4")  # PLDA needs more vectors
        nnet3.Nnet.from_xconfig(few).save(folder / "final.raw")

    monkeypatch.setattr(recipe, "train_network", save_untrained)
    archive = write_recordings(tmp_path / "recordings.zip", ["ann", "bob", "cat", "dan"], 10, [3])
    done = CliRunner().invoke(main, ["--recordings", str(archive), "--out", str(tmp_path / "out"), "--quick"])
    assert done.exit_code == 0, done.output
    assert list(seen) == ["everybody", "without-ann-bob", "without-cat-dan"]
    assert len(seen["everybody"]) == 12  # three recordings of each to train on
    for _, given, wanted in seen["without-ann-bob"]:
        assert given[0] in (24, 32, 44)
        assert wanted == (1, 2)
    text = (tmp_path / "out" / "report.md").read_text()
    assert "40 recordings of 4 speakers" in text
    assert "| speakers left out | word against word | 40 of one, 50 of two | " in text
    assert (tmp_path / "out" / "speakers.png").read_bytes().startswith(b"\x89PNG")
