"""Whole files that hold one object, such as the `lda.mat` that a config names."""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import DTypeLike

from nnet3.kaldi_io.reader import Reader


def load_matrix(path: str | os.PathLike[str], dtype: DTypeLike = np.float32) -> np.ndarray:
    """The matrix in a file, text or binary: (rows, columns). Anything wrong with the file is a ModelFormatError."""
    reader = Reader.open(path)
    matrix = reader.matrix(dtype)
    reader.finish()
    return matrix


def load_vector(path: str | os.PathLike[str], dtype: DTypeLike = np.float32) -> np.ndarray:
    """The vector in a file, text or binary: (n,). Anything wrong with the file is a ModelFormatError."""
    reader = Reader.open(path)
    vector = reader.vector(dtype)
    reader.finish()
    return vector
