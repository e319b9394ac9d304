"""Spoken digits of the demo: which recordings are for what, their features, chunks, and how utterances are decided."""

from __future__ import annotations

import io
import wave
import zipfile
from pathlib import Path

import numpy as np
import pytest

from nnet3.cli.demo import speech
from nnet3.errors import Nnet3Error
from nnet3.model.nnet import Nnet
from tests.seeds import RANDOM

pytest.importorskip("kaldi_native_fbank")
RATE = 8000


def _samples(seconds: float) -> np.ndarray:
    return (3000 * RANDOM.normal(size=round(seconds * RATE))).astype("<i2")


def _wav(samples: np.ndarray, channels: int = 1, width: int = 2) -> bytes:
    contents = io.BytesIO()
    with wave.open(contents, "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(RATE)
        file.writeframes(samples.tobytes())
    return contents.getvalue()


def _zip(path: Path, files: dict[str, bytes]) -> str:
    with zipfile.ZipFile(path, "w") as file:
        for name, contents in files.items():
            file.writestr(name, contents)
    return str(path)


@pytest.fixture
def archive(tmp_path: Path) -> str:
    """Of digits 3 and 7, recordings 4 to 6 of one speaker, of 0.3 s to 0.55 s."""
    names = [f"recordings/{digit}_ann_{number}.wav" for digit in (7, 3) for number in (6, 5, 4)]
    files = {name: _wav(_samples(0.3 + 0.05 * number)) for number, name in enumerate(names)}
    return _zip(tmp_path / "digits.zip", {"README": b"", "recordings/x.wav": b"", **files})


def test_recordings_by_name(archive: str) -> None:
    utterances = speech.read_utterances(archive)
    assert [(u.digit, u.speaker, u.recording) for u in utterances] == [(d, "ann", n) for d in (3, 7) for n in (4, 5, 6)]
    assert [u.features.shape for u in utterances] == [(frames, 13) for frames in (55, 50, 45, 40, 35, 30)]
    for utterance in utterances:
        assert utterance.features.dtype == np.float32
        np.testing.assert_allclose(utterance.features.mean(axis=0), 0, atol=1e-4)
        np.testing.assert_allclose(utterance.features.std(axis=0), 1, atol=5e-3)


def test_hardly_any_variance_is_not_blown_up(tmp_path: Path) -> None:
    file = _zip(tmp_path / "silence.zip", {"0_ann_0.wav": _wav(np.zeros(RATE, "<i2"))})
    assert np.abs(speech.read_utterances(file)[0].features).max() < 0.1


def test_features_are_mfccs_without_dither_and_without_energy() -> None:
    samples = _samples(0.5).astype(np.float32)
    features = speech.mfcc(samples, RATE)
    assert features.shape == (50, 13)
    np.testing.assert_array_equal(features, speech.mfcc(samples, RATE))
    louder = speech.mfcc(10 * samples, RATE)
    np.testing.assert_allclose(louder[:, 1:], features[:, 1:], atol=1e-2)
    num_bins = 23  # of which the first coefficient is the sum, by the square root of their number
    np.testing.assert_allclose(louder[:, 0] - features[:, 0], 2 * np.log(10) * np.sqrt(num_bins), rtol=1e-3)
    assert len(speech.mfcc(samples, 2 * RATE)) == 25


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"7_ann_1.wav": _wav(np.zeros(800, "<i2"), channels=2)}, "not a ZIP of WAV files: 7_ann_1.wav is not 16-bit"),
        ({"7_ann_1.wav": _wav(np.zeros(800, "u1"), width=1)}, "not a ZIP of WAV files: 7_ann_1.wav is not 16-bit"),
        ({"7_ann_1.wav": b"RIFF"}, "not a ZIP of WAV files"),
        ({"7_ann_1.txt": b"", "77_ann_1.wav": b""}, "no files named DIGIT_SPEAKER_INDEX.wav in it"),
    ],
)
def test_what_is_no_such_archive(tmp_path: Path, files: dict[str, bytes], message: str) -> None:
    with pytest.raises(Nnet3Error, match=message):
        speech.read_utterances(_zip(tmp_path / "bad.zip", files))


def test_no_archive_at_all(tmp_path: Path) -> None:
    with pytest.raises(Nnet3Error, match="this is a folder; give the ZIP"):
        speech.read_utterances(str(tmp_path))
    with pytest.raises(Nnet3Error, match="no such file; give the ZIP"):
        speech.read_utterances(str(tmp_path / "x"))
    (tmp_path / "x").write_text("x")
    with pytest.raises(Nnet3Error, match="not a ZIP of WAV files"):
        speech.read_utterances(str(tmp_path / "x"))


@pytest.mark.parametrize("place", range(0, 2000, 97))
def test_a_damaged_archive_is_one_clear_error_or_none(archive: str, tmp_path: Path, place: int) -> None:
    data = bytearray(Path(archive).read_bytes())
    data[place % len(data)] ^= 0x55
    (tmp_path / "bad.zip").write_bytes(data)
    found, message = [], "bad.zip"
    try:
        found = speech.read_utterances(str(tmp_path / "bad.zip"))
    except Nnet3Error as error:
        message = str(error)
    assert "bad.zip" in message
    known = {each.features.tobytes() for each in speech.read_utterances(archive)}
    assert {each.features.tobytes() for each in found} <= known, "what is read is what was written"


@pytest.mark.parametrize(
    ("number", "message"), [(4, "0 recordings to train on and 1 to"), (5, "1 recordings to train on and 0 to")]
)
def test_both_parts_are_needed(tmp_path: Path, number: int, message: str) -> None:
    with pytest.raises(Nnet3Error, match=message):
        speech.speech_tasks(_zip(tmp_path / "x.zip", {f"7_ann_{number}.wav": _wav(_samples(0.3))}), 1)


def test_the_task_has_its_schedule_goal_and_test_speakers(archive: str) -> None:
    (task,) = speech.speech_tasks(archive, 1)
    test = [u for u in speech.read_utterances(archive) if u.recording == 4]
    assert (task.name, task.goal, task.labels.tolist()) == ("tdnn", 0.94, [3, 7])
    assert (task.schedule.num_epochs, task.schedule.initial_learning_rate) == (8, 0.01)
    assert task.schedule.final_learning_rate == 0.001
    for picture, utterance in zip(task.pictures, test, strict=True):
        np.testing.assert_array_equal(picture, utterance.features.T)
    nnet = Nnet.from_config(task.config_text)
    assert (nnet.left_context, nnet.right_context) == (14, 14)
    (minibatch,) = task.test_minibatches
    (given,), (wanted,) = minibatch.inputs, minibatch.targets
    assert (given.name, wanted.name) == ("input", "output")
    chunks = [(test[0], 0), (test[0], 24), (test[0], 48), (test[1], 0), (test[1], 24)]
    frames = np.asarray(given.matrix).reshape(5, 24 + 28, 13)
    for chunk, (utterance, start) in zip(frames, chunks, strict=True):
        times = np.clip(np.arange(start - 14, start + 24 + 14), 0, len(utterance.features) - 1)
        np.testing.assert_array_equal(chunk, utterance.features[times])
    assert np.asarray(given.indexes)[: 24 + 28, 1].tolist() == list(range(-14, 24 + 14))
    assert np.asarray(wanted.indexes)[:24, 1].tolist() == list(range(24))
    assert np.asarray(wanted.indexes)[:, 0].tolist() == np.repeat(np.arange(5), 24).tolist()
    outputs = RANDOM.normal(size=(5, 24, 10))
    scores = task.judge([outputs.reshape(-1, 10)])
    sums = [
        outputs[0].sum(0) + outputs[1].sum(0) + outputs[2, : 55 - 48].sum(0),
        outputs[3].sum(0) + outputs[4, :16].sum(0),
    ]
    np.testing.assert_allclose(scores, sums, rtol=1e-12)


def test_minibatches_of_training(archive: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every other stretch of 12 frames, from a place at most 6 frames before the utterance on."""
    monkeypatch.setattr(speech, "_BATCH", 4)
    (task,) = speech.speech_tasks(archive, 1)
    train = [u for u in speech.read_utterances(archive) if u.recording > 4]
    minibatches = task.make_minibatches(0)
    assert len(minibatches) == 2  # of 9 or 10 chunks, less those that fill no minibatch
    places = set()
    for minibatch in minibatches:
        (given,), (wanted,) = minibatch.inputs, minibatch.targets
        assert np.asarray(given.indexes)[:40, 1].tolist() == list(range(-14, 26))
        assert np.asarray(wanted.indexes)[:, 1].tolist() == [0, 4, 8] * 4
        own = [_place(chunk, train) for chunk in np.asarray(given.matrix).reshape(4, 40, 13)]
        assert wanted.matrix.ids.tolist() == np.repeat([train[number].digit for number, _ in own], 3).tolist()
        places |= set(own)
    assert len(places) == 8
    for number in range(len(train)):
        firsts = {start % 24 for each, start in places if each == number}
        assert len(firsts) == 1
        assert firsts <= {18, 19, 20, 21, 22, 23, 0}
    again = speech.speech_tasks(archive, 1)[0].make_minibatches(0)
    np.testing.assert_array_equal(again[0].inputs[0].matrix, minibatches[0].inputs[0].matrix)
    monkeypatch.setattr(speech, "_BATCHES_PER_EPOCH", 1)
    assert len(task.make_minibatches(1)) == 1


def _place(chunk: np.ndarray, utterances: list[speech.Recording]) -> tuple[int, int]:
    """Of which utterance, and from where on, these frames are."""
    for number, utterance in enumerate(utterances):
        for start in range(-6, len(utterance.features)):
            times = np.clip(np.arange(start - 14, start + 12 + 14), 0, len(utterance.features) - 1)
            if np.array_equal(utterance.features[times], chunk):
                return number, start
    raise AssertionError("frames of no utterance")
