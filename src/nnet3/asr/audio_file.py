"""Recordings: audio files read whole; WAV by Python itself, other formats by soundfile."""

from __future__ import annotations

import importlib
import io
import wave
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nnet3.errors import ModelFormatError

_UNKNOWN_SIZE = 0x7FFF0000  # bytes that pipes say where they do not know
_WIDTHS = {1: "u1", 2: "<i2", 4: "<i4"}


@dataclass(frozen=True, eq=False)
class AudioFile:
    """Samples (frames, channels), integers or floats in the scale of 16 bits, and their rate.

    `notice` tells what is odd about the file, "" for nothing.
    """

    samples: npt.NDArray[np.generic]
    rate: int
    notice: str = ""

    @property
    def seconds(self) -> float:
        return len(self.samples) / self.rate


def read_audio_file(contents: bytes, source: str) -> AudioFile:
    """Reads a file of WAV, or of any format that soundfile knows. Raises ModelFormatError, also if it is empty."""
    try:
        with wave.open(io.BytesIO(contents)) as file:
            recording = _of_wave(file)
    except (wave.Error, EOFError):
        recording = _of_soundfile(contents, source)
    if not len(recording.samples):
        raise ModelFormatError("there is no sample in this recording", source)
    return recording


def read_raw(contents: bytes, rate: int, channels: int) -> AudioFile:
    """Reads 16-bit little-endian samples without a header."""
    whole = len(contents) - len(contents) % (2 * channels)
    notice = "" if whole == len(contents) else "the last sample is cut"
    return AudioFile(np.frombuffer(contents[:whole], "<i2").reshape(-1, channels), rate, notice)


def _of_wave(file: wave.Wave_read) -> AudioFile:
    channels, width, said = file.getnchannels(), file.getsampwidth(), file.getnframes()
    size = channels * width
    contents = file.readframes(said)
    frames = len(contents) // size
    contents = contents[: frames * size]
    if width == 3:  # as the upper bytes of 32 bits
        wide = np.zeros((frames * channels, 4), np.uint8)
        wide[:, 1:] = np.frombuffer(contents, np.uint8).reshape(-1, 3)
        samples: npt.NDArray[np.generic] = wide.view("<i4").reshape(-1, channels)
    else:
        samples = np.frombuffer(contents, _WIDTHS[width]).reshape(-1, channels)
    is_cut = frames < said and said * size < _UNKNOWN_SIZE
    notice = f"the file is cut: {frames} of {said} samples are there" if is_cut else ""
    return AudioFile(samples, file.getframerate(), notice)


def _of_soundfile(contents: bytes, source: str) -> AudioFile:
    try:
        soundfile: Any = importlib.import_module("soundfile")
    except (ImportError, OSError):
        raise ModelFormatError(
            "this is no WAV file of integers: for other formats `pip install soundfile`, or give PCM with --raw", source
        ) from None
    try:
        samples, rate = soundfile.read(io.BytesIO(contents), dtype="float32", always_2d=True)
    except (RuntimeError, TypeError, ValueError) as error:
        raise ModelFormatError(f"soundfile cannot read this: {error}", source) from None
    return AudioFile(np.asarray(samples, np.float32) * 32768, int(rate))
