"""Windows of consecutive times of one sequence: the rows that restricted attention works on together.

Attention with time-stride s connects times that are congruent modulo s. The rows of one (n, x) and one such class form
a sequence of positions t // s. Its queries are cut into windows of equal size; a window has all keys and values at
which its queries look. So scores are products of small matrices, of which a band is used. Rows may be any set.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from nnet3.components.base import IndexArrays
from nnet3.index import IndexTable, T, find_rows, unique_rows

_MOST_QUERIES = 64  # in a window; larger ones waste arithmetic outside the band, smaller ones repeat more of the input


@dataclass(frozen=True)
class AttentionWindows:
    """Each window has `num_queries` queries and `num_positions` positions; the context of query m begins at position
    m query_step. Places count windows, heads in them, and positions or queries in these; rows count rows and heads.
    """

    num_queries: int
    query_step: int
    num_positions: int
    row_of_position: Tensor  # (windows * heads * positions,): row * heads + head of the input, anything if missing
    missing: Tensor  # places of positions that have no input row
    is_permutation: bool  # whether each input row is at exactly one position and none is missing
    query_of_row: Tensor  # (output rows * heads,): place of its query


def attention_windows(
    inputs: IndexTable, outputs: IndexTable, num_heads: int, time_stride: int, num_left: int, context_dim: int
) -> IndexArrays:
    """Returns the fields of AttentionWindows.

    Each output row looks at `context_dim` inputs, `time_stride` apart, `num_left` of them before its own time.
    """
    phases = outputs.copy()
    phases[:, T] %= time_stride
    sequences, sequence = unique_rows(phases)  # an (n, x) and a phase
    position = outputs[:, T].astype(np.int64) // time_stride
    first = np.full(len(sequences), np.iinfo(np.int64).max)
    np.minimum.at(first, sequence, position)
    step = int(np.gcd.reduce(position - first[sequence])) or 1
    query = (position - first[sequence]) // step
    num_queries = _window_size(int(query.max()) + 1, step, context_dim)
    in_window, window_of_sequence = query % num_queries, query // num_queries
    num_windows = int(window_of_sequence.max()) + 1
    keys, window = np.unique(sequence * num_windows + window_of_sequence, return_inverse=True)
    pairs = np.divmod(keys, num_windows)

    num_positions = (num_queries - 1) * step + context_dim
    start = first[pairs[0]] + pairs[1] * num_queries * step - num_left
    times = (start[:, np.newaxis] + np.arange(num_positions)) * time_stride + sequences[pairs[0], T][:, np.newaxis]
    context = np.repeat(sequences[pairs[0]], num_positions, axis=0)
    context[:, T] = times.ravel()
    row = find_rows(inputs, context).reshape(-1, 1, num_positions)
    head = np.arange(num_heads)
    found = row[row >= 0]
    is_permutation = len(found) == row.size == len(inputs) == np.count_nonzero(np.bincount(found))
    return {
        "num_queries": np.array(num_queries),
        "query_step": np.array(step),
        "num_positions": np.array(num_positions),
        "row_of_position": (np.maximum(row, 0) * num_heads + head[:, np.newaxis]).ravel(),
        "missing": np.flatnonzero(np.repeat(row < 0, num_heads, axis=1)),
        "is_permutation": np.array(is_permutation),
        "query_of_row": ((window.reshape(-1, 1) * num_heads + head) * num_queries + in_window[:, np.newaxis]).ravel(),
    }


def _window_size(longest: int, step: int, context_dim: int) -> int:
    """Returns the queries of a window: one if contexts have nothing in common, else so many that windows are equal."""
    if step >= context_dim:
        return 1
    num_windows = -(-longest // _MOST_QUERIES)
    return -(-longest // num_windows)
