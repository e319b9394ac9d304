"""WAV files of speech: read, resampled, written."""

from __future__ import annotations

import io
import wave
from pathlib import Path

import numpy as np

RATE = 16000


def read_wave(contents: bytes) -> tuple[np.ndarray, int]:
    with wave.open(io.BytesIO(contents)) as file:
        return np.frombuffer(file.readframes(file.getnframes()), np.int16).astype(np.float64), file.getframerate()


def resample(samples: np.ndarray, rate: float) -> np.ndarray:
    """At 16 kHz, by a Fourier transform of the whole."""
    spectrum, size = np.fft.rfft(samples), round(len(samples) * RATE / rate)
    return np.fft.irfft(spectrum[: size // 2 + 1], size) * (size / len(samples))


def write_wave(path: Path, samples: np.ndarray, rate: int = RATE) -> None:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(np.clip(np.round(samples), -32768, 32767).astype("<i2").tobytes())
