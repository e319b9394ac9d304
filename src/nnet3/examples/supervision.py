"""What an output is to be: posteriors, pdfs or vectors of each output frame, cut into chunks."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

import numpy as np

from nnet3.errors import TrainingError
from nnet3.examples.chunks import Chunk
from nnet3.examples.inputs import indexes
from nnet3.examples.io import NnetIo
from nnet3.kaldi_io import Posterior, SparseMatrix
from nnet3.kaldi_io.general import take_rows

Supervision: TypeAlias = "SparseMatrix | np.ndarray"


def posterior_matrix(posterior: Posterior, num_pdfs: int) -> SparseMatrix:
    """(frames, num_pdfs): ids ascending, the weights of equal ones added, zeros left out."""
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
    """(frames, num_pdfs) with a one in the column of each frame's pdf."""
    frames = len(pdfs)
    return posterior_matrix(Posterior(np.arange(frames + 1), pdfs, np.ones(frames, np.float32)), num_pdfs)


def chunk_supervision(supervision: Supervision, chunk: Chunk, factor: int) -> NnetIo:
    """`output` of a chunk, its t from 0 on in steps of `factor`.

    Sparse rows are multiplied by the chunk's weights; frames behind the last row have none. Of full ones the last row
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
