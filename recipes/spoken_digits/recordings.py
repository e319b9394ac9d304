"""The recordings: a ZIP of WAV files `DIGIT_SPEAKER_INDEX.wav`, as the Free Spoken Digit Dataset has them."""

from __future__ import annotations

from pathlib import Path

from nnet3.cli.demo.speech import SpokenDigit, read_spoken_digits
from nnet3.errors import Nnet3Error

NUM_TEST = 5  # recordings 0 to 4 of each speaker and digit are the customary test set
NUM_VALID = 2  # the next ones are held out from training, to watch it


class Recording(SpokenDigit):
    """One spoken digit."""

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
    recordings = [Recording(**vars(spoken)) for spoken in read_spoken_digits(archive)]
    for part in ("train", "valid", "test"):
        if not any(recording.part == part for recording in recordings):
            raise Nnet3Error(f"{archive}: none of its {len(recordings)} recordings has an index of the {part} set")
    if len(speakers_of(recordings)) < 2:
        raise Nnet3Error(f"{archive}: recordings of one speaker only; leaving one out takes two or more")
    return recordings


def speakers_of(recordings: list[Recording]) -> list[str]:
    """In alphabetical order."""
    return sorted({recording.speaker for recording in recordings})
