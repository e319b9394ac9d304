"""Word features: files with a sparse row of numbers for each word, and the product with a feature embedding."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from nnet3.base.kaldi_io.parse_numbers import parse_integer, parse_real
from nnet3.base.kaldi_io.reader import Reader
from nnet3.base.kaldi_io.sparse import SparseMatrix
from nnet3.errors import ModelFormatError


def read_word_features(name: str | os.PathLike[str], num_features: int) -> SparseMatrix:
    """Returns the features of a file `word_feats.txt`, (words, num_features). Raises as `parse_word_features` does."""
    return parse_word_features(Reader.open(name), num_features)


def parse_word_features(reader: Reader, num_features: int) -> SparseMatrix:
    """Returns the features in a text, (words, num_features).

    Line k, from 0, has k, then pairs of a feature's index and its value, indexes ascending (facts: rescoring 5.2).
    Raises ModelFormatError for anything else, with the line.
    """
    if reader.binary:
        raise ModelFormatError("word features are text, and this file is binary", reader.source)
    rows = [line.split() for line in bytes(reader.data[reader.position :]).split(b"\n")]
    while rows and not rows[-1]:
        rows.pop()
    if not rows:
        raise ModelFormatError("this file has no word features: expected a line for each word", reader.source)
    counts = np.array([(len(row) - 1) // 2 for row in rows])
    words = [word for row in rows for word in row[1 : 2 * (len(row) // 2 + len(row) % 2)]]
    ids, values = _integers(words[0::2]), _reals(words[1::2])
    bad = _first_bad_row(rows, counts, ids, num_features)
    if bad is None and values is None:
        bad = next(k for k, row in enumerate(rows) if _reals(row[2::2]) is None)
    if bad is not None or ids is None or values is None:
        assert bad is not None
        got = b" ".join(rows[bad][:9]).decode("utf-8", "replace")
        raise ModelFormatError(
            f"expected {bad}, then pairs of a feature below {num_features} and its value, features ascending, "
            f"got '{got}'",
            *(reader.source, f"line {bad + 1}"),
        )
    indptr = np.concatenate([[0], np.cumsum(counts)])
    return SparseMatrix(len(rows), num_features, indptr, ids.astype(np.int32), values)


def _integers(words: Sequence[bytes]) -> np.ndarray | None:
    numbers = [parse_integer(word) for word in words]
    return None if None in numbers else np.array(numbers, np.int64)


def _reals(words: Sequence[bytes]) -> np.ndarray | None:
    numbers = [parse_real(word) for word in words]
    if None in numbers:
        return None
    array = np.array(numbers, np.float64).astype(np.float32)
    return array if np.isfinite(array).all() else None


def _first_bad_row(
    rows: Sequence[Sequence[bytes]], counts: np.ndarray, ids: np.ndarray | None, num_features: int
) -> int | None:
    """Returns the first row with another number, half a pair, or indexes out of order or range."""
    for number, row in enumerate(rows):
        if len(row) % 2 == 0 or parse_integer(row[0]) != number:
            return number
    if ids is None:
        return next(k for k, row in enumerate(rows) if any(parse_integer(word) is None for word in row[1::2]))
    row_of = np.repeat(np.arange(len(counts)), counts)
    wrong = (ids < 0) | (ids >= num_features)
    wrong[1:] |= (ids[1:] <= ids[:-1]) & (row_of[1:] == row_of[:-1])
    return int(row_of[np.flatnonzero(wrong)[0]]) if wrong.any() else None


def as_tensor(features: SparseMatrix, like: Tensor) -> Tensor:
    """Returns word features as a sparse tensor (words, features) of the type and device of `like`."""
    indices = torch.from_numpy(np.stack([features.row_of_element(), features.ids.astype(np.int64)]))
    values = torch.from_numpy(features.values)
    made = torch.sparse_coo_tensor(indices, values, features.shape, is_coalesced=True, check_invariants=False)
    return made.to(like.device, like.dtype)


def word_embedding(features: SparseMatrix, feature_embedding: Tensor) -> Tensor:
    """Returns the embedding of words (words, dim), the product of word features and a feature embedding."""
    if features.cols != len(feature_embedding):
        raise ModelFormatError(
            f"the word features have {features.cols} columns, the feature embedding {len(feature_embedding)} rows"
        )
    return torch.sparse.mm(as_tensor(features, feature_embedding), feature_embedding)
