"""Features of recordings, and training examples: stretches of them with their speaker as the class."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from nnet3.examples import EXAMPLES, example_writer
from nnet3.kaldi_io import matrix_writer, open_matrix_table
from nnet3.options import XvectorMakingOptions
from nnet3.training.examples.xvector_making import Stretch, XvectorStatistics, make_xvector_examples
from recipes.spoken_digits.features import fbank, less_means
from recipes.spoken_digits.recordings import Recording

LENGTHS = 24, 32, 44  # frames of stretches: few, so that many of equal length meet in minibatches


def write_features(recordings: Sequence[Recording], path: Path) -> None:
    """A table of log mel energies, less the mean of each recording: that of the channel tells speakers apart too well.

    Recordings shorter than the shortest stretch repeat their ends.
    """
    utterances = [fbank(recording.samples, recording.rate) for recording in recordings]
    with matrix_writer(f"ark:{path}") as table:
        for recording, rows in zip(recordings, less_means(utterances, range(len(utterances))), strict=True):
            missing = max(LENGTHS[0] - len(rows), 0)
            table.write(recording.key, np.pad(rows, ((missing // 2, missing - missing // 2), (0, 0)), mode="edge"))


def speaker_of(key: str) -> str:
    """The speaker of an utterance with such a key."""
    return key.split("-")[0]


def write_examples(features: Path, speakers: Sequence[str], count: int, seed: int, path: Path) -> None:
    """An archive with so many stretches of each recording of these speakers, of random lengths, anywhere in it."""
    rng = np.random.default_rng(seed)
    with open_matrix_table(f"ark:{features}") as table:
        utterances = [(key, rows) for key, rows in table if speaker_of(key) in speakers]
    stretches = {}
    for key, rows in utterances:
        lengths = rng.choice([length for length in LENGTHS if length <= len(rows)], count)
        starts = rng.integers(len(rows) - lengths + 1)
        label = speakers.index(speaker_of(key))
        stretches[key] = [
            Stretch(number, *some, label) for number, some in enumerate(zip(starts, lengths, strict=True))
        ]
    options = XvectorMakingOptions(num_pdfs=len(speakers))
    made = list(make_xvector_examples(utterances, stretches, options, XvectorStatistics()))
    with example_writer(f"ark:{path}", EXAMPLES) as writer:
        for number in rng.permutation(len(made)):
            stretch, key, example = made[number]
            writer.write(f"{key}-{stretch}", example)
