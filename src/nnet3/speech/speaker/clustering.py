"""Agglomerative clustering: again and again the two clusters with the least mean cost become one."""

from __future__ import annotations

import math
from numbers import Integral

import numpy as np
import numpy.typing as npt

from nnet3.base.options.speaker import ClusteringOptions
from nnet3.errors import Nnet3Error
from nnet3.speech.arrays.aliases import Integers, Singles

_PER_PART = 10  # clusters of a part, for each of the clusters of all


def clusters_of(costs: Singles, options: ClusteringOptions, number: int | None = None) -> Integers:
    """Clusters n items; returns the cluster of each, (n,), from 1. costs (n, n): of two items in one cluster.

    The cost of two clusters is the mean over pairs of items; clusters are merged as long as the cost is at most the
    threshold. `number`: merge down to this number of clusters instead, where no cluster may have a larger share of the
    items than `max_spk_fraction`, if possible. More than `first_pass_max_utterances` items are clustered in parts
    first, to at least ten clusters for each final one. Raises Nnet3Error for a matrix of costs that is not square, and
    for a number below 1.
    """
    count = len(costs)
    if costs.shape != (count, count) or not count:
        raise Nnet3Error(f"the scores of n utterances are a matrix n x n, got {costs.shape}")
    if number is not None and not (isinstance(number, Integral) and number >= 1):
        raise Nnet3Error(f"the number of speakers must be 1 or more, got {number!r}")
    threshold, share = np.float32(options.threshold), np.float32(1)
    if number is not None:
        threshold = np.finfo(np.float32).max
        if 1.0 / number <= np.float32(options.max_spk_fraction) <= 1:
            share = np.float32(options.max_spk_fraction)
    limits = float(threshold), math.ceil(np.float32(count) * share)
    least, most = number or 1, options.first_pass_max_utterances
    matrix = costs.astype(np.float32)
    if count <= most:
        return _Clusters(np.triu(matrix, 1) + np.triu(matrix, 1).T, np.ones(count, np.int64), *limits).merged(least)
    size = math.ceil(count / math.ceil(count / most))
    label, used = np.zeros(count, np.int64), 0
    for start in range(0, count, size):
        part = matrix[start : start + size, start : start + size]
        clusters = _Clusters(np.triu(part, 1) + np.triu(part, 1).T, np.ones(len(part), np.int64), *limits)
        label[start : start + size] = used + clusters.merged(least * _PER_PART)
        used = int(label.max())
    belongs = (label[:, np.newaxis] == np.arange(1, used + 1)).astype(np.float32)  # (items, clusters of parts)
    sums = _sums_of_parts(matrix, belongs, size)
    return _Clusters(sums, belongs.sum(axis=0).astype(np.int64), *limits).merged(least)[label - 1]


def _sums_of_parts(matrix: Singles, belongs: Singles, size: int) -> Singles:
    """Sums costs between clusters: from the upper triangle within a part, from the lower triangle between parts."""
    item = np.arange(len(matrix))
    is_in_one_part = item[:, np.newaxis] // size == item // size
    is_used = is_in_one_part == (item[:, np.newaxis] < item)
    half = belongs.T @ np.where(is_used, matrix, np.float32(0)) @ belongs
    sums = half + half.T
    np.fill_diagonal(sums, 0)
    return np.asarray(sums, np.float32)


class _Clusters:
    """Clusters in a row, merged ones marked: `sums` (n, n) of costs, `sizes` (n,), and the age of each.

    Of equal costs the pair of the oldest cluster counts first; a merged cluster is the youngest.
    """

    def __init__(self, sums: Singles, sizes: npt.NDArray[np.int64], threshold: float, largest: int):
        self._sums, self._sizes = sums, sizes
        self._threshold, self._largest = np.float32(threshold), largest
        self._ages = np.arange(len(sums))
        self._is_there = np.ones(len(sums), bool)
        self._owner = np.arange(len(sums))  # the cluster of each item
        self._least = np.stack([self._costs(row).min() for row in range(len(sums))])

    def merged(self, number: int) -> Integers:
        """Merges as long as a pair may be merged and more than `number` clusters are left; returns labels (n,)."""
        left = len(self._sums)
        while left > number and np.isfinite(best := self._least.min()):
            rows = np.flatnonzero(self._least == best)
            first = int(rows[np.argmin(self._ages[rows])])
            columns = np.flatnonzero(self._costs(first) == best)
            self._merge(first, int(columns[np.argmin(self._ages[columns])]))
            left -= 1
        there = np.flatnonzero(self._is_there)
        label = np.zeros(len(self._sums), np.int64)
        label[there[np.argsort(self._ages[there])]] = np.arange(1, left + 1)
        return label[self._owner]

    def _costs(self, row: int) -> Singles:
        """Returns the mean cost (n,) of a cluster with every cluster, infinite where the two cannot be merged."""
        size = self._sizes[row]
        costs = self._sums[row] / (size * self._sizes).astype(np.float32)
        may = self._is_there & (size + self._sizes <= self._largest) & (costs <= self._threshold)
        may[row] = False
        return np.where(may, costs, np.float32(np.inf))

    def _merge(self, row: int, other: int) -> None:
        affected = (self._costs(row) == self._least) | (self._costs(other) == self._least)
        self._sums[row] += self._sums[other]
        self._sums[:, row] = self._sums[row]
        self._sizes[row] += self._sizes[other]
        self._ages[row] = self._ages.max() + 1
        self._owner[self._owner == other] = row
        self._is_there[other], self._least[other] = False, np.inf
        costs = self._costs(row)
        self._least = np.minimum(self._least, costs)
        affected[[row, other]] = True, False
        for each in np.flatnonzero(affected & np.isfinite(self._least)):
            self._least[each] = self._costs(int(each)).min()
        self._least[row] = costs.min()
