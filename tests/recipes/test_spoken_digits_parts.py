"""Parts of the recipe alone: variants of recordings, padding, strings, edit distances, stages."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from recipes.spoken_digits.features import coloured_noise, less_means, padded, read_features, varied
from recipes.spoken_digits.recordings import Recording, digit_of, is_variant
from recipes.spoken_digits.stages import run_stage
from recipes.spoken_digits.strings import write_strings


def test_variants_differ_in_length_and_a_little_in_volume():
    samples = 1000 * np.sin(np.arange(4000) / 5).astype(np.float32)
    variants = [varied(samples, np.random.default_rng(seed)) for seed in range(10)]
    assert all(4000 / 1.26 < len(each) < 4000 / 0.79 for each in variants)
    louder = 10 * np.log10([np.mean(each**2) / np.mean(samples**2) for each in variants])
    assert np.all(np.abs(louder) <= 4.001)
    assert np.ptp(louder) > 1


def test_what_is_taken_away_is_the_mean_of_all_frames_of_a_group():
    utterances = [np.array([[1.0], [3.0]]), np.array([[8.0]]), np.array([[5.0]])]
    first, second, alone = less_means(utterances, ["ann", "ann", "bob"])
    assert (first.tolist(), second.tolist(), alone.tolist()) == ([[-3.0], [-1.0]], [[4.0]], [[0.0]])


def test_noise_has_power_one():
    for seed in range(10):
        noise = coloured_noise(1001, np.random.default_rng(seed))
        assert len(noise) == 1001
        assert np.mean(noise**2) == pytest.approx(1)


def test_padding_repeats_the_outer_frames_equally():
    rows = np.arange(5, dtype=np.float32)[:, None]
    assert padded(rows, 8)[:, 0].tolist() == [0, 0, 1, 2, 3, 4, 4, 4]
    assert padded(rows, 5) is not None
    assert padded(rows, 5)[:, 0].tolist() == [0, 1, 2, 3, 4]


def test_keys_say_digit_and_variant():
    recording = Recording(7, "ann", 3, 8000, np.zeros(1))
    assert recording.key == "ann-7-03"
    assert (digit_of(recording.key), is_variant(recording.key), is_variant(f"{recording.key}-2")) == (7, False, True)
    assert recording.part == "test"


def test_a_string_is_of_one_speaker(tmp_path: Path):
    pytest.importorskip("kaldi_native_fbank", reason="features of speech need kaldi-native-fbank")
    rng = np.random.default_rng(0)
    recordings = [
        Recording(digit, speaker, 9, 8000, rng.standard_normal(1600).astype(np.float32))
        for speaker, digits in (("ann", range(5)), ("bob", range(5, 10)))
        for digit in digits
    ]
    write_strings(recordings, 10, False, 0, tmp_path / "strings.ark")
    strings = read_features(tmp_path / "strings.ark")
    assert len(strings) == 10
    for key, rows in strings:
        speaker, digits, _ = key.split("-")
        assert all((digit in "01234") == (speaker == "ann") for digit in digits)
        assert len(rows) == 20 * len(digits)
    for speaker in ("ann", "bob"):
        own = np.concatenate([rows for key, rows in strings if key.startswith(speaker)])
        assert np.allclose(own.mean(axis=0), 0, atol=1e-4)


def test_a_stage_is_done_again_when_its_settings_change(tmp_path: Path):
    made: list[str] = []

    def make(folder: Path) -> None:
        made.append(",".join(sorted(path.name for path in folder.iterdir())))
        (folder / "result").write_text("")

    first = run_stage(tmp_path, "stage", {"epochs": 1}, make)
    again = run_stage(tmp_path, "stage", {"epochs": 1}, make)
    other = run_stage(tmp_path, "stage", {"epochs": 2}, make)
    assert (first.key == again.key, first.key == other.key) == (True, False)
    assert made == ["begun.json", "begun.json"]


def test_a_stage_that_failed_finds_what_it_has_left(tmp_path: Path):
    seen: list[bool] = []

    def make(folder: Path) -> None:
        seen.append((folder / "half").is_file())
        (folder / "half").write_text("")
        if len(seen) == 1:
            raise RuntimeError("interrupted")

    with pytest.raises(RuntimeError, match="interrupted"):
        run_stage(tmp_path, "stage", {}, make)
    run_stage(tmp_path, "stage", {}, make)
    assert seen == [False, True]
