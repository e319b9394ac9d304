"""Strings of digits as features, and where in them each phone is thought to be."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from nnet3.kaldi_io import matrix_writer
from recipes.spoken_digits.features import fbank, read_features
from recipes.spoken_digits.recordings import Recording
from recipes.spoken_digits.strings import digits_of, join_strings
from recipes.spoken_digits_chain.phones import PHONES_OF_DIGIT, phones_of


def write_speech(recordings: list[Recording], count: int, vary: bool, seed: int, folder: Path, name: str) -> None:
    """`NAME.ark` with features, less their mean over the string, and `NAME.json` with the ends of digits."""
    ends = {}
    with matrix_writer(f"ark:{folder}/{name}.ark") as table:
        for string in join_strings(recordings, count, vary, seed):
            rows = fbank(string.samples, string.rate)
            table.write(string.key, rows - rows.mean(axis=0))
            ends[string.key] = string.ends.tolist()
    (folder / f"{name}.json").write_text(json.dumps(ends))


def read_speech(folder: Path, name: str) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """Keys, features (frames, 40) and alignments: phones and how many frames each lasts, (phones, 2).

    A digit lies where its recording was put; its phones share it equally. That is not true, so supervision has to
    leave phones some room.
    """
    ends = json.loads((folder / f"{name}.json").read_text())
    return [
        (key, rows, uniform_alignment(digits_of(key), np.array(ends[key]) * len(rows)))
        for key, rows in read_features(folder / f"{name}.ark")
    ]


def uniform_alignment(digits: list[int], ends: np.ndarray) -> np.ndarray:
    """Phones and their lengths (phones, 2) for digits that end after so many frames each (digits,)."""
    edges = np.append(0, ends)
    steps = np.arange(1, PHONES_OF_DIGIT + 1) / PHONES_OF_DIGIT
    phone_ends = (edges[:-1, None] + np.diff(edges)[:, None] * steps).round().astype(int).ravel()
    return np.stack([phones_of(digits), np.diff(phone_ends, prepend=0)], axis=1)
