"""NumberTable: rows of integers, labelled, with tokens for rows that may stand at one position of a period.

>>> import numpy as np
>>> table_of(np.array([4, 5, 6, 9, 12])).tokens.tolist()
[0, 1, 1, 2, 2]
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from nnet3.base.index import NO_TIME

_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # of sums that tell rows apart


@dataclass(frozen=True, eq=False)
class NumberTable:
    """Rows of integers, and the label of each row."""

    values: np.ndarray  # (rows, columns) int64
    labels: np.ndarray  # (rows,), below 2 ** 60
    by_change: bool = False  # rows repeat if they change alike, and not if they only have one label

    @cached_property
    def is_even(self) -> bool:
        """True if rows go by change and all change alike, as those of consecutive times do."""
        change = self.values[1:] - self.values[:-1]
        return self.by_change and bool((self.labels == self.labels[:1]).all() and (change == change[:1]).all())

    @cached_property
    def tokens(self) -> np.ndarray:
        """(rows,): equal for rows that may stand at one position of a period."""
        if not self.by_change:
            return self.labels
        if self.is_even:
            return np.minimum(np.arange(len(self.labels)), int((self.values[1:2] != self.values[:1]).any()))
        by_label = np.argsort(self.labels, kind="stable")
        change = np.zeros_like(self.values)
        change[by_label[1:]] = np.diff(self.values[by_label], axis=0)
        change[by_label[np.flatnonzero(np.diff(self.labels[by_label], prepend=-1))]] = 0  # the first of each label
        return _numbered(np.concatenate([change, self.labels[:, None]], axis=1))


def table_of(values: np.ndarray, labels: np.ndarray | None = None) -> NumberTable:
    """Returns a table of row numbers or indexes, (rows,) or (rows, columns), with repeating changes between rows.

    Each row is compared with the preceding row of its label. Unless labels are given, empty rows (-1, or NO_TIME) are
    labelled apart.
    """
    rows = values.reshape(len(values), math.prod(values.shape[1:])).astype(np.int64)
    if labels is None:
        labels = (rows < 0).all(axis=1).astype(np.int64) + 2 * (rows == NO_TIME).any(axis=1)
    return NumberTable(rows, labels, by_change=True)


def _numbered(rows: np.ndarray) -> np.ndarray:
    """Returns a number for each row, equal for equal rows, in the order of first appearance."""
    # Rows that differ have other sums but by chance; then what is continued does not give the members back.
    sums = rows.astype(np.uint64) @ np.cumprod(np.full(rows.shape[1], _FACTOR))
    _, first, number = np.unique(sums, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[number.reshape(-1)]
