"""Strings of three to seven digits, made by joining recordings of one speaker."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from nnet3.kaldi_io import matrix_writer
from recipes.spoken_digits.features import fbank, varied
from recipes.spoken_digits.recordings import Recording, speakers_of

FEWEST, MOST = 3, 7


def write_strings(recordings: list[Recording], count: int, vary: bool, seed: int, path: Path) -> None:
    """A table of features of so many strings; half of them at another speed and volume and with noise if `vary`."""
    rng = np.random.default_rng(seed)
    speakers = speakers_of(recordings)
    own = {speaker: [each for each in recordings if each.speaker == speaker] for speaker in speakers}
    with matrix_writer(f"ark:{path}") as table:
        for number in range(count):
            speaker = speakers[number % len(speakers)]
            chosen = rng.choice(len(own[speaker]), rng.integers(FEWEST, MOST + 1))
            parts = [own[speaker][each] for each in chosen]
            samples = np.concatenate([part.samples for part in parts])
            if vary and rng.uniform() < 0.5:
                samples = varied(samples, rng)
            digits = "".join(str(part.digit) for part in parts)
            table.write(f"{speaker}-{digits}-{number:05d}", fbank(samples, parts[0].rate))


def digits_of(key: str) -> list[int]:
    """The digits that a string with such a key says."""
    return [int(digit) for digit in key.split("-")[1]]


def edit_distance(said: list[int], heard: list[int]) -> int:
    """The fewest digits to put in, take out or replace that make one of the other."""
    distances = np.arange(len(heard) + 1)
    for row, digit in enumerate(said, 1):
        previous, distances = distances, np.empty_like(distances)
        distances[0] = row
        for column, other in enumerate(heard, 1):
            replaced = previous[column - 1] + (digit != other)
            distances[column] = min(replaced, previous[column] + 1, distances[column - 1] + 1)
    return int(distances[-1])
