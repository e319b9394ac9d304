"""Strings of three to seven digits, made by joining recordings of one speaker."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nnet3.kaldi_io import matrix_writer
from recipes.spoken_digits.features import fbank, less_means, varied
from recipes.spoken_digits.recordings import Recording, speakers_of

FEWEST, MOST = 3, 7


@dataclass(frozen=True, eq=False)
class Joined:
    """A string: `samples` (samples,) of all digits; `ends` (digits,) which part of it is over after each."""

    key: str
    speaker: str
    varied: bool
    samples: np.ndarray
    rate: int
    ends: np.ndarray


def join_strings(recordings: list[Recording], count: int, vary: bool, seed: int) -> Iterator[Joined]:
    """So many strings; half of them at another speed and volume and with noise if `vary`."""
    rng = np.random.default_rng(seed)
    speakers = speakers_of(recordings)
    own = {speaker: [each for each in recordings if each.speaker == speaker] for speaker in speakers}
    for number in range(count):
        speaker = speakers[number % len(speakers)]
        chosen = rng.choice(len(own[speaker]), rng.integers(FEWEST, MOST + 1))
        parts = [own[speaker][each] for each in chosen]
        samples = np.concatenate([part.samples for part in parts])
        ends = np.cumsum([len(part.samples) for part in parts]) / len(samples)
        different = vary and bool(rng.uniform() < 0.5)
        if different:
            samples = varied(samples, rng)
        digits = "".join(str(part.digit) for part in parts)
        yield Joined(f"{speaker}-{digits}-{number:05d}", speaker, different, samples, parts[0].rate, ends)


def write_strings(recordings: list[Recording], count: int, vary: bool, seed: int, path: Path) -> None:
    """A table of features of strings, less the mean of the speaker's strings, varied ones apart."""
    keys, groups, utterances = [], [], []
    for string in join_strings(recordings, count, vary, seed):
        keys.append(string.key)
        groups.append((string.speaker, string.varied))
        utterances.append(fbank(string.samples, string.rate))
    with matrix_writer(f"ark:{path}") as table:
        for key, rows in zip(keys, less_means(utterances, groups), strict=True):
            table.write(key, rows)


def digits_of(key: str) -> list[int]:
    """The digits that a string with such a key says."""
    return [int(digit) for digit in key.split("-")[1]]
