"""The inputs and outputs of an example, cut out of an utterance for a chunk."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

import numpy as np

from nnet3.base.index import indexes_at
from nnet3.base.kaldi_io.general import GeneralMatrix, rows_with_padding, take_rows
from nnet3.base.kaldi_io.sparse import SparseMatrix
from nnet3.base.kaldi_io.table_values import Posterior
from nnet3.errors import TrainingError
from nnet3.training.examples.chunks import Chunk
from nnet3.training.examples.example import NnetIo

FrameTargets: TypeAlias = "SparseMatrix | np.ndarray"


def chunk_inputs(
    features: GeneralMatrix,
    chunk: Chunk,
    rng: np.random.Generator,
    ivectors: np.ndarray | None = None,
    ivector_period: int = 1,
    ivector_frames: int | None = None,
) -> list[NnetIo]:
    """Returns the inputs of a chunk's example: `input`, and, given ivectors, `ivector`.

    `input`: (frames, dim) from t = -left_context on. Frames outside the utterance repeat its first or last frame;
    compressed features keep their codes. `ivector`: (1, dim) at t = 0, the row of `ivectors`, one row every
    `ivector_period` frames, that belongs to a frame drawn at random from the first `ivector_frames` frames of the input
    (None: from all).
    """
    frames = rows_with_padding(features, chunk.first_input_frame, chunk.num_input_frames)
    inputs = [NnetIo("input", indexes(-chunk.left_context, chunk.num_input_frames), frames)]
    if ivectors is not None:
        frame = chunk.first_input_frame + int(rng.integers(ivector_frames or chunk.num_input_frames))
        row = min(max(frame, 0) // ivector_period, len(ivectors) - 1)
        inputs.append(NnetIo("ivector", indexes(0, 1), ivectors[row : row + 1].copy()))
    return inputs


def indexes(first: int, count: int, step: int = 1) -> np.ndarray:
    """Returns (count, 3) int32: n = 0, t = first, first + step ..., x = 0."""
    return indexes_at(first + step * np.arange(count))


def check_length(what: str, count: int, num_frames: int, factor: int, tolerance: int) -> None:
    """Raises TrainingError unless `count` is within `tolerance` of the output frames of `num_frames` input frames."""
    expected = -(-num_frames // factor)
    if abs(count - expected) > tolerance:
        raise TrainingError(
            f"{num_frames} frames of features need {expected} {what} (frame subsampling factor {factor}), got {count}, "
            f"which is off by more than {tolerance}"
        )


def check_ivectors(ivectors: np.ndarray | None, period: int, num_frames: int, tolerance: int) -> None:
    """Raises TrainingError unless the ivectors, if any, are for `num_frames` frames, within `tolerance`."""
    if ivectors is not None and (len(ivectors) == 0 or abs(len(ivectors) * period - num_frames) > tolerance):
        raise TrainingError(
            f"{len(ivectors)} ivectors, one every {period} frames, do not belong to {num_frames} frames of features "
            f"(off by more than {tolerance})"
        )


def posterior_matrix(posterior: Posterior, num_pdfs: int) -> SparseMatrix:
    """Returns (frames, num_pdfs): ids ascending, the weights of equal ones added, zeros left out."""
    if len(posterior.ids) and not (posterior.ids.min() >= 0 and posterior.ids.max() < num_pdfs):
        raise TrainingError(
            f"posteriors of the ids {posterior.ids.min()} to {posterior.ids.max()} are not of {num_pdfs} pdfs"
        )
    frames = len(posterior.indptr) - 1
    frame = np.repeat(np.arange(frames), np.diff(posterior.indptr))
    cell, cell_of_element = np.unique(frame * num_pdfs + posterior.ids, return_inverse=True)
    weights = np.zeros(len(cell), np.float32)
    np.add.at(weights, cell_of_element, posterior.weights)
    cell, weights = cell[weights != 0], weights[weights != 0]
    indptr = np.searchsorted(cell, np.arange(frames + 1) * num_pdfs)
    return SparseMatrix(frames, num_pdfs, indptr, (cell % num_pdfs).astype(np.int32), weights)


def alignment_matrix(pdfs: np.ndarray, num_pdfs: int) -> SparseMatrix:
    """Returns (frames, num_pdfs) with a 1 in every frame's row, at the column of the frame's pdf."""
    frames = len(pdfs)
    return posterior_matrix(Posterior(np.arange(frames + 1), pdfs, np.ones(frames, np.float32)), num_pdfs)


def chunk_supervision(supervision: FrameTargets, chunk: Chunk, factor: int) -> NnetIo:
    """Returns `output` of a chunk, its t from 0 on in steps of `factor`.

    Sparse rows are multiplied by the chunk's weights; frames behind the last row have none. Of full rows the last one
    is repeated.
    """
    count = chunk.num_frames // factor
    rows = chunk.first_frame // factor + np.arange(count)
    times = indexes(0, count, factor)
    if not isinstance(supervision, SparseMatrix):
        return NnetIo("output", times, supervision[np.minimum(rows, len(supervision) - 1)])
    rows = rows[rows < supervision.rows]
    taken = take_rows(supervision, rows)
    assert isinstance(taken, SparseMatrix), "rows of a sparse matrix are one"
    weights = np.repeat(chunk.output_weights[: len(rows)], np.diff(taken.indptr))
    indptr = np.concatenate([taken.indptr, np.full(count - len(rows), taken.indptr[-1])])
    return NnetIo("output", times, replace(taken, rows=count, indptr=indptr, values=taken.values * weights))
