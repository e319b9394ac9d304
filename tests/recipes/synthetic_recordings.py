"""A ZIP of made-up recordings of three lengths: each digit two tones, each speaker a shift of them."""

from __future__ import annotations

import io
import wave
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

RATE = 8000
_LENGTHS = (1300, 1900, 2500)  # few, so that few programs are compiled


def write_recordings(
    path: Path, speakers: Sequence[str], num_recordings: int, digits: Sequence[int] = range(10)
) -> Path:
    rng = np.random.default_rng(0)
    with zipfile.ZipFile(path, "w") as archive:
        for place, speaker in enumerate(speakers):
            for digit in digits:
                for index in range(num_recordings):
                    samples = _word(digit, place, rng)
                    archive.writestr(f"recordings/{digit}_{speaker}_{index}.wav", _wav(samples))
    return path


def _word(digit: int, speaker: int, rng: np.random.Generator) -> np.ndarray:
    times = np.arange(int(rng.choice(_LENGTHS))) / RATE
    first, second = 250 + 300 * digit, 3300 - 250 * digit
    half = len(times) // 2
    pitch = np.where(np.arange(len(times)) < half, first, second) * (1 + 0.02 * speaker)
    tone = 4000 * np.sin(2 * np.pi * np.cumsum(pitch) / RATE)
    return (tone + 100 * rng.standard_normal(len(times))).astype("<i2")


def _wav(samples: np.ndarray) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(RATE)
        writer.writeframes(samples.tobytes())
    return file.getvalue()
