"""Training examples: each utterance is one, with the digit it says as the target of every output frame."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import nnet3
from nnet3.examples import EXAMPLES, ChunkOptions, ExampleMaker, MakingOptions, example_writer
from nnet3.training.examples.chunk_ios import alignment_matrix
from recipes.spoken_digits.features import padded, read_features
from recipes.spoken_digits.recordings import digit_of

FACTOR = 6  # frames from one output to the next
MULTIPLE = 24  # of frames, which utterances are padded to


def write_examples(features: Path, nnet: nnet3.Nnet, folder: Path) -> None:
    """An archive of examples for each table of features."""
    options = MakingOptions(
        ChunkOptions(
            num_frames=(-1,),  # whole utterances
            left_context=nnet.left_context,
            right_context=nnet.right_context,
            frame_subsampling_factor=FACTOR,
        )
    )
    for path in sorted(features.glob("*.ark")):
        maker = ExampleMaker(options)
        with example_writer(f"ark:{folder}/{path.name}", EXAMPLES) as table:
            for key, rows in read_features(path):
                frames = padded(rows, MULTIPLE)
                digits = np.full(len(frames) // FACTOR, digit_of(key), np.int32)
                for name, example in maker.make(key, frames, alignment_matrix(digits, 10)):
                    table.write(name, example)
