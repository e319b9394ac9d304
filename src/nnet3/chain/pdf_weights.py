"""The weights that a supervision gives to pdfs at each frame."""

from __future__ import annotations

import numpy as np
import torch

from nnet3.chain.numerator import make_trellis
from nnet3.chain.supervision import Supervision
from nnet3.chain.trellis import sum_paths
from nnet3.errors import TrainingError
from nnet3.kaldi_io import SparseMatrix


def pdf_weights(supervision: Supervision) -> SparseMatrix:
    """Returns the shares of paths that have each pdf, (frames, pdfs), by the costs in the FST of one sequence alone.

    End-to-end supervision gives the pdfs of its alignment. Raises TrainingError for merged sequences, and for
    end-to-end supervision without an alignment.
    """
    frames, pdfs = supervision.frames_per_sequence, supervision.label_dim
    if supervision.num_sequences != 1:
        raise TrainingError(f"a supervision of one sequence is expected, not of {supervision.num_sequences}")
    if not supervision.end_to_end:
        sums = sum_paths(make_trellis(supervision), torch.zeros(frames, pdfs))
        summed = np.bincount(sums.places.numpy(), sums.posteriors.numpy(), frames * pdfs).reshape(frames, pdfs)
        row, column = np.nonzero(summed)
        values = summed[row, column].astype(np.float32)
    else:
        row, column = np.arange(frames), supervision.alignment_pdfs
        if len(column) != frames:
            raise TrainingError(f"an end-to-end supervision of {frames} frames has an alignment of {len(column)} pdfs")
        values = np.ones(frames, np.float32)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=frames))])
    return SparseMatrix(frames, pdfs, indptr, column.astype(np.int32), values)
