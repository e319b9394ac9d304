"""Recordings with transcripts: folders, pairs of files, segments, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nnet3.cli.speech_data import SpeechData
from nnet3.errors import Nnet3Error
from tests.asr.small_recognizer import RATE
from tests.asr.spoken_tones import spoken, wav_bytes, write_data

TEXTS = {"a": ["high", "low"], "b": ["low"], "c": []}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_data(tmp_path / "data", TEXTS)


def test_a_folder(folder: Path) -> None:
    data = SpeechData.of(str(folder))
    assert data.transcripts == {key: tuple(words) for key, words in TEXTS.items()}
    found = {each.key: each for each in data.utterances(["c", "a"])}
    assert list(found) == ["a", "c"]  # in the order of the recordings
    assert found["a"].words == ("high", "low")
    assert found["a"].rate == RATE
    assert found["a"].seconds == pytest.approx(1.2)
    assert np.abs(found["a"].samples).max() > 3000


def test_two_files(folder: Path) -> None:
    data = SpeechData.of(f"{folder}/wav.scp,{folder}/text")
    assert [each.key for each in data.utterances(data.transcripts)] == ["a", "b", "c"]


def test_segments_cut_recordings(folder: Path) -> None:
    samples = spoken(["high", "low", "high"])
    (folder / "talk.wav").write_bytes(wav_bytes(np.stack([samples, samples], axis=1)[:, 0]))
    (folder / "wav.scp").write_text(f"talk {folder}/talk.wav\n")
    (folder / "segments").write_text("a talk 0.5 1.25\nb talk 0 0.25\nc talk 1.5 99\n")
    found = {each.key: each for each in SpeechData.of(str(folder)).utterances(["a", "c"])}
    np.testing.assert_array_equal(found["a"].samples, samples[4000:10000])
    np.testing.assert_array_equal(found["c"].samples, samples[12000:])  # as far as the recording goes


def test_what_cannot_be_read_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "a.wav").write_bytes(b"RIFF")
    with open(folder / "text", "a") as text:
        text.write("d high\ne low\n")
    data = SpeechData.of(str(folder))
    for _ in range(2):
        assert data.recorded == ["a", "b", "c"]
    assert [each.key for each in data.utterances(data.recorded)] == ["b", "c"]
    said = capsys.readouterr().err
    assert said.count("warning: a: ") == 1
    assert said.count("warning: 1 of 3 utterances could not be read and are left out\n") == 1
    assert said.count("has no recording of 2 utterances, such as 'd'\n") == 1


def test_utterances_without_a_recording(folder: Path) -> None:
    (folder / "segments").write_text("a a 0 0.5\nb talk 0 1\n")
    assert SpeechData.of(str(folder)).recorded == ["a"]
    (folder / "wav.scp").write_text(f"talk2 {folder}/a.wav\n")
    with pytest.raises(
        Nnet3Error, match=r"wav\.scp has no recording of 3 utterances, such as 'a': there are no others"
    ):
        _ = SpeechData.of(str(folder)).recorded


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("text", "", "there is no transcript"),
        ("text", "a high\na low\n", "'a' is there twice"),
        ("segments", "a talk 1\n", "expected KEY RECORDING BEGIN END, in seconds, got 'a talk 1'"),
        ("segments", "a talk 1 1\n", "expected KEY RECORDING BEGIN END"),
        ("segments", "a talk 1 nan\n", "expected KEY RECORDING BEGIN END"),
        ("segments", "a\n", "expected KEY RECORDING BEGIN END"),
        ("segments", "a talk one 2\n", "expected KEY RECORDING BEGIN END"),
        ("wav.scp", "talk\n", "expected 'KEY FILENAME'"),
        ("wav.scp", "talk a.wav\ntalk b.wav\n", "wav.scp: the key 'talk' is there twice"),
    ],
)
def test_bad_files(folder: Path, name: str, text: str, message: str) -> None:
    (folder / name).write_text(text)
    data = SpeechData.of(str(folder))
    with pytest.raises(Nnet3Error, match=message):
        list(data.utterances(data.recorded))


def test_files_that_are_not_there(folder: Path) -> None:
    for name in ("text", "wav.scp"):
        (folder / name).rename(folder / "gone")
        with pytest.raises(Nnet3Error, match=f"{name}: there is no such file: expected a folder with wav.scp and text"):
            SpeechData.of(str(folder))
        (folder / "gone").rename(folder / name)
    with pytest.raises(Nnet3Error, match="there is no such folder"):
        SpeechData.of("nowhere")
