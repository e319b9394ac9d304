"""Recordings of the two words of the small recognizer: tones of 1800 and 300 Hz, with pauses between."""

from __future__ import annotations

import io
import wave
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tests.asr.small_recognizer import RATE
from tests.seeds import RANDOM

HERTZ = {"high": 1800, "low": 300}
_SECONDS, _PAUSE = 0.3, 0.2


def spoken(words: Sequence[str]) -> np.ndarray:
    """Returns samples of words, int16."""
    pause = np.zeros(round(_PAUSE * RATE))
    time = np.arange(round(_SECONDS * RATE)) / RATE
    parts = [pause]
    for word in words:
        parts += [4000 * np.sin(2 * np.pi * HERTZ[word] * time), pause]
    sound = np.concatenate(parts)
    return (sound + 200 * RANDOM.normal(size=len(sound))).astype("<i2")


def random_words(count: int) -> list[str]:
    """Returns words, of which no two that follow each other are equal: two tones in a row may be taken for one."""
    first = int(RANDOM.integers(2))
    return [list(HERTZ)[(first + number) % 2] for number in range(count)]


def wav_bytes(samples: np.ndarray) -> bytes:
    contents = io.BytesIO()
    with wave.open(contents, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(samples.tobytes())
    return contents.getvalue()


def write_data(folder: Path, transcripts: dict[str, Sequence[str]]) -> Path:
    """Writes wav.scp, text and recordings of these words, as in a data folder of Kaldi's."""
    folder.mkdir(parents=True, exist_ok=True)
    for key, words in transcripts.items():
        (folder / f"{key}.wav").write_bytes(wav_bytes(spoken([word for word in words if word in HERTZ])))
    (folder / "wav.scp").write_text("".join(f"{key} {folder / key}.wav\n" for key in transcripts))
    (folder / "text").write_text("".join(f"{key} {' '.join(words)}\n" for key, words in transcripts.items()))
    return folder
