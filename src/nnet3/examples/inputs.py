"""The inputs of an example: the frames of a chunk with their context, and an ivector."""

from __future__ import annotations

import numpy as np

from nnet3.errors import TrainingError
from nnet3.examples.chunks import Chunk
from nnet3.examples.io import NnetIo
from nnet3.kaldi_io import GeneralMatrix
from nnet3.kaldi_io.general import rows_with_padding


def chunk_inputs(
    features: GeneralMatrix,
    chunk: Chunk,
    rng: np.random.Generator,
    ivectors: np.ndarray | None = None,
    ivector_period: int = 1,
    ivector_frames: int | None = None,
) -> list[NnetIo]:
    """`input` with t from -left_context on, and `ivector`, if there are some, with t = 0.

    Frames outside of the utterance repeat its first or last one; compressed features keep their codes. The ivector is
    that of a frame drawn at random, of the input or, if given, of `ivector_frames` frames from its first one on.
    `ivectors` is (rows, dim), one row every `ivector_period` frames.
    """
    frames = rows_with_padding(features, chunk.first_input_frame, chunk.num_input_frames)
    inputs = [NnetIo("input", indexes(-chunk.left_context, chunk.num_input_frames), frames)]
    if ivectors is not None:
        frame = chunk.first_input_frame + int(rng.integers(ivector_frames or chunk.num_input_frames))
        row = min(max(frame, 0) // ivector_period, len(ivectors) - 1)
        inputs.append(NnetIo("ivector", indexes(0, 1), ivectors[row : row + 1].copy()))
    return inputs


def indexes(first: int, count: int, step: int = 1) -> np.ndarray:
    """(count, 3) int32: n = 0, t = first, first + step ..., x = 0."""
    made = np.zeros((count, 3), np.int32)
    made[:, 1] = first + step * np.arange(count)
    return made


def check_length(what: str, count: int, num_frames: int, factor: int, tolerance: int) -> None:
    """Raise TrainingError unless `count` is within `tolerance` of the output frames of so many input frames."""
    expected = -(-num_frames // factor)
    if abs(count - expected) > tolerance:
        raise TrainingError(
            f"{num_frames} frames of features need {expected} {what} (frame subsampling factor {factor}), got {count}, "
            f"which is off by more than {tolerance}"
        )


def check_ivectors(ivectors: np.ndarray, period: int, num_frames: int, tolerance: int) -> None:
    """Raise TrainingError unless the ivectors are for so many frames, within `tolerance`."""
    if len(ivectors) == 0 or abs(len(ivectors) * period - num_frames) > tolerance:
        raise TrainingError(
            f"{len(ivectors)} ivectors, one every {period} frames, do not belong to {num_frames} frames of features "
            f"(off by more than {tolerance})"
        )
