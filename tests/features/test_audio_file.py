"""Recordings: every width and number of channels, whole, out of pipes, cut, empty, and what is none."""

from __future__ import annotations

import io
import wave

import numpy as np
import pytest

from nnet3.errors import ModelFormatError
from nnet3.speech.features.audio import PcmReader
from nnet3.speech.features.audio_file import open_audio, open_raw
from nnet3.speech.features.audio_source import AudioSource
from tests.seeds import RANDOM

RATE = 11025
MONO = RANDOM.integers(-(1 << 15), 1 << 15, (4001, 1)).astype("<i2")
STEREO = RANDOM.integers(-(1 << 15), 1 << 15, (4001, 2)).astype("<i2")


class Pipe:
    """A file that only goes forwards."""

    def __init__(self, contents: bytes):
        self.read = io.BytesIO(contents).read


def wav(contents: bytes, width: int, channels: int = 1) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setparams((channels, width, RATE, 0, "NONE", ""))
        writer.writeframes(contents)
    return file.getvalue()


def samples(recording: AudioSource, seconds: float = 0.05) -> np.ndarray:
    """Returns all samples in the scale of 16 bits, one column."""
    reader = PcmReader(recording.channels)
    return np.concatenate([reader.read(piece) for piece in recording.pieces(seconds)])


@pytest.mark.parametrize("opened", [io.BytesIO, Pipe])
@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_widths(opened: type, width: int) -> None:
    wide = (MONO.astype("<i4") << 16).view("u1").reshape(-1, 4)
    contents = wide[:, 4 - width :].tobytes() if width > 1 else (wide[:, 3] ^ 128).tobytes()
    recording = open_audio(opened(wav(contents, width)), "a.wav")
    assert (recording.rate, recording.channels, recording.said) == (RATE, 1, len(MONO))
    assert recording.seconds == len(MONO) / RATE
    expected = MONO[:, 0] if width > 1 else MONO[:, 0] >> 8 << 8
    assert np.array_equal(samples(recording), expected)
    assert recording.notice == ""


@pytest.mark.parametrize("seconds", [0.0, 0.01, 0.2, 9.0])
def test_stereo_in_pieces_of_any_length(seconds: float) -> None:
    """With a header and without."""
    expected = STEREO.astype(float).mean(axis=1)
    for recording in (
        open_audio(Pipe(wav(STEREO.tobytes(), 2, 2)), "a.wav"),
        open_raw(Pipe(STEREO.tobytes()), "a.raw", RATE, 2),
    ):
        assert recording.channels == 2
        assert np.array_equal(samples(recording, seconds), expected)
        assert recording.notice == ""


def test_a_pipe_does_not_say_its_length() -> None:
    """Programs that write WAV into a pipe leave the largest number there."""
    contents = bytearray(wav(MONO.tobytes(), 2))
    contents[4:8] = contents[40:44] = b"\xff" * 4
    recording = open_audio(Pipe(bytes(contents)), "-")
    assert recording.seconds is None
    assert np.array_equal(samples(recording), MONO[:, 0])
    assert recording.notice == ""


@pytest.mark.parametrize("width", [2, 3])
def test_a_cut_file_gives_what_is_there_and_says_so(width: int) -> None:
    whole = wav(bytes(6 * 1000), width, 2)
    recording = open_audio(Pipe(whole[: 44 + 1201]), "a.wav")
    assert len(samples(recording)) == 1200 // (2 * width)
    assert recording.notice == f"the file is cut: {1200 // (2 * width)} of {3000 // width} samples are there"
    raw = open_raw(Pipe(bytes(1201)), "a.raw", RATE, 2)
    assert len(samples(raw)) == 300
    assert raw.notice == "the last sample is cut"


@pytest.mark.parametrize("contents", [b"", wav(b"", 2), wav(b"", 2)[:44], wav(bytes(400), 2)[:45]])
def test_an_empty_recording_is_an_error(contents: bytes) -> None:
    with pytest.raises(ModelFormatError, match=r"a\.wav: there is no sample in this recording"):
        samples(open_audio(Pipe(contents), "a.wav"))
    with pytest.raises(ModelFormatError, match="there is no sample in this recording"):
        samples(open_raw(Pipe(contents[:1]), "a.raw", RATE, 1))


@pytest.mark.parametrize("contents", [b"nonsense", wav(bytes(400), 2)[:30], b"RIFF\4\0\0\0WAVE"])
def test_what_is_no_recording_is_refused(contents: bytes) -> None:
    with pytest.raises(ModelFormatError, match=r"a\.wav: (this is no WAV file of integers|soundfile cannot read this)"):
        open_audio(Pipe(contents), "a.wav")
