"""The recordings: a ZIP of WAV files `DIGIT_SPEAKER_INDEX.wav`, as the Free Spoken Digit Dataset has them."""

from __future__ import annotations

import io
import re
import wave
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nnet3.errors import Nnet3Error

_FILE = re.compile(r"(?:.*/)?(\d)_([A-Za-z0-9]+)_(\d+)\.wav")
NUM_TEST = 5  # recordings 0 to 4 of each speaker and digit are the customary test set
NUM_VALID = 2  # the next ones are held out from training, to watch it


@dataclass(frozen=True, eq=False)
class Recording:
    """One spoken digit. `samples` is (samples,) float32 with the values of 16-bit samples."""

    digit: int
    speaker: str
    index: int
    rate: int
    samples: np.ndarray

    @property
    def part(self) -> str:
        """test, valid or train."""
        if self.index < NUM_TEST:
            return "test"
        return "valid" if self.index < NUM_TEST + NUM_VALID else "train"

    @property
    def key(self) -> str:
        """As Kaldi names utterances: the speaker first."""
        return f"{self.speaker}-{self.digit}-{self.index:02d}"


def digit_of(key: str) -> int:
    """The digit that an utterance with such a key says."""
    return int(key.split("-")[1])


def is_variant(key: str) -> bool:
    """Whether it is the key of a recording that was made different, which ends with a number more."""
    return key.count("-") > 2


def read_recordings(archive: Path) -> list[Recording]:
    """All recordings, by name. Raises Nnet3Error if there is no such ZIP or a part of the data is missing in it."""
    if not archive.is_file():
        raise Nnet3Error(
            f"{archive}: no such file; give the ZIP of the Free Spoken Digit Dataset's recordings as --recordings"
        )
    try:
        with zipfile.ZipFile(archive) as file:
            names = [name for name in sorted(file.namelist()) if _FILE.fullmatch(name)]
            recordings = [_recording(name, file.read(name)) for name in names]
    except (zipfile.BadZipFile, wave.Error, EOFError) as error:
        raise Nnet3Error(f"{archive}: not a ZIP of WAV files: {error}") from None
    if not recordings:
        raise Nnet3Error(f"{archive}: no files named DIGIT_SPEAKER_INDEX.wav in it, such as 7_jackson_32.wav")
    for part in ("train", "valid", "test"):
        if not any(recording.part == part for recording in recordings):
            raise Nnet3Error(f"{archive}: none of its {len(recordings)} recordings has an index of the {part} set")
    if len(speakers_of(recordings)) < 2:
        raise Nnet3Error(f"{archive}: recordings of one speaker only; leaving one out takes two or more")
    return recordings


def speakers_of(recordings: list[Recording]) -> list[str]:
    """In alphabetical order."""
    return sorted({recording.speaker for recording in recordings})


def _recording(name: str, data: bytes) -> Recording:
    match = _FILE.fullmatch(name)
    assert match is not None
    with wave.open(io.BytesIO(data)) as file:
        if file.getsampwidth() != 2 or file.getnchannels() != 1:
            raise wave.Error(f"{name} is not 16-bit mono")
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(np.float32)
        return Recording(int(match[1]), match[2], int(match[3]), file.getframerate(), samples)
