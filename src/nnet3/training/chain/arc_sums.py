"""Sums products of rows over the transitions of a graph: the steps of a forward-backward pass.

With alpha and beta (states, sequences), x (pdfs, sequences) and transitions i -> j with pdf n and probability p, each
of the three sums of a frame,

    alpha+(j) = sum over i -> j of p alpha(i) x(n)
    beta(i)   = sum over i -> j of p beta+(j) x(n)
    gamma(n)  = sum over transitions with pdf n of p alpha(i) beta+(j), times x(n),

adds, for each transition, the product of two rows of two matrices to a row of the result. Sequences lie
side by side, so that whole rows are fetched, into `scratch` (rows, sequences), which the caller keeps for
all frames: asking the system for memory in every frame takes longer than the arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

_BLOCK = 8192  # groups that are looked at together on a CPU: a few megabytes, which stay in its cache
_LARGE_BLOCK = 1 << 20


@dataclass(frozen=True, eq=False)
class SegmentSums:
    """Row i of the result is the sum of weights[k] * rows[taken[k]] over k in offsets[i] .. offsets[i + 1] - 1.

    `embedding_bag` does this without a copy of the rows that are taken; on a CPU it is two to three times as fast as
    the product with a sparse matrix, and over ten times as fast as `index_select` and `index_add`.
    """

    taken: Tensor  # (terms,) int64
    offsets: Tensor  # (rows + 1,) int64
    weights: Tensor | None = None  # (terms,)

    @classmethod
    def sorted_by(
        cls, row_of_term: np.ndarray, taken: np.ndarray, num_rows: int, weights: np.ndarray | None = None
    ) -> SegmentSums:
        """Returns the sums in which term k adds weights[k] * rows[taken[k]] to row row_of_term[k] of the result."""
        order = np.argsort(row_of_term, kind="stable")
        offsets = np.concatenate([[0], np.cumsum(np.bincount(row_of_term, minlength=num_rows))])
        ordered = None if weights is None else torch.from_numpy(weights[order])
        return cls(torch.from_numpy(taken[order].astype(np.int64)), torch.from_numpy(offsets.astype(np.int64)), ordered)

    def to(self, device: torch.device, dtype: torch.dtype) -> SegmentSums:
        weights = None if self.weights is None else self.weights.to(device, dtype)
        return SegmentSums(self.taken.to(device), self.offsets.to(device), weights)

    def __call__(self, rows: Tensor) -> Tensor:
        """Maps (any, columns) to (rows, columns)."""
        return embedding_bag(
            self.taken, rows, self.offsets, mode="sum", per_sample_weights=self.weights, include_last_offset=True
        )


@dataclass(frozen=True, eq=False)
class _Block:
    """Some rows of the result: sums of one matrix's rows over each group, times rows of the other, added up by row."""

    rows: slice
    to_group: SegmentSums
    other_of_group: Tensor
    to_row: SegmentSums

    def add_up(self, one: Tensor, other: Tensor, result: Tensor, scratch: Tensor) -> None:
        groups = torch.index_select(other, 0, self.other_of_group, out=scratch[: len(self.other_of_group)])
        result[self.rows] = self.to_row(groups.mul_(self.to_group(one)))

    def to(self, device: torch.device, dtype: torch.dtype) -> _Block:
        sums = self.to_group.to(device, dtype), self.to_row.to(device, dtype)
        return _Block(self.rows, sums[0], self.other_of_group.to(device), sums[1])


@dataclass(frozen=True, eq=False)
class SumsThenProducts:
    """sum over groups of other[.] * (sum over the group of weight * one[.]); a group has one row of `other`."""

    num_rows: int
    one_is_first: bool
    blocks: tuple[_Block, ...]

    @property
    def scratch(self) -> int:
        """Rows of scratch that a call needs."""
        return max(len(block.other_of_group) for block in self.blocks)

    def __call__(self, first: Tensor, second: Tensor, scratch: Tensor) -> Tensor:
        one, other = (first, second) if self.one_is_first else (second, first)
        result = one.new_empty(self.num_rows, one.shape[1])
        for block in self.blocks:
            block.add_up(one, other, result, scratch)
        return result

    def to(self, device: torch.device, dtype: torch.dtype) -> SumsThenProducts:
        return SumsThenProducts(
            self.num_rows, self.one_is_first, tuple(block.to(device, dtype) for block in self.blocks)
        )


@dataclass(frozen=True, eq=False)
class ProductsThenSums:
    """The product of every occurring pair of rows, then weighted sums of the products."""

    first_of_pair: Tensor
    second_of_pair: Tensor
    to_row: SegmentSums

    @property
    def scratch(self) -> int:
        """Rows of scratch that a call needs."""
        return 2 * len(self.first_of_pair)

    def __call__(self, first: Tensor, second: Tensor, scratch: Tensor) -> Tensor:
        count = len(self.first_of_pair)
        pairs = torch.index_select(first, 0, self.first_of_pair, out=scratch[:count])
        return self.to_row(
            pairs.mul_(torch.index_select(second, 0, self.second_of_pair, out=scratch[count : 2 * count]))
        )

    def to(self, device: torch.device, dtype: torch.dtype) -> ProductsThenSums:
        return ProductsThenSums(
            self.first_of_pair.to(device), self.second_of_pair.to(device), self.to_row.to(device, dtype)
        )


ArcSums = SumsThenProducts | ProductsThenSums


def arc_sums(
    num_rows: int, row: np.ndarray, first: np.ndarray, second: np.ndarray, weights: np.ndarray, *, blocks: bool
) -> ArcSums:
    """Returns result[row[k]] += weights[k] * one[first[k]] * other[second[k]] over all k, in its cheapest form.

    Terms with two of the three numbers in common are added up (over the third) once. In graphs made of phones most
    transitions into a state have equal pdfs, so that two numbers make few groups; with nothing in common each term is
    a group. `blocks`: the result is made of pieces whose groups fit into a cache.
    """
    by_second, by_first, by_both = (_Groups(*pair) for pair in ((row, second), (row, first), (first, second)))
    if by_both.count < min(by_second.count, by_first.count):
        to_row = SegmentSums.sorted_by(row, by_both.of_term, num_rows, weights)
        return ProductsThenSums(torch.from_numpy(by_both.numbers[0]), torch.from_numpy(by_both.numbers[1]), to_row)
    one_is_first = by_second.count <= by_first.count
    groups, one = (by_second, first) if one_is_first else (by_first, second)
    size = _BLOCK if blocks else _LARGE_BLOCK
    return SumsThenProducts(num_rows, one_is_first, tuple(_blocks(num_rows, groups, one, weights, size)))


class _Groups:
    """Groups of terms with two equal numbers, in the order of these."""

    def __init__(self, major: np.ndarray, minor: np.ndarray):
        width = int(minor.max(initial=0)) + 1
        keys, self.of_term = np.unique(major.astype(np.int64) * width + minor, return_inverse=True)
        self.count = len(keys)
        self.numbers = np.divmod(keys, width)


def _blocks(num_rows: int, groups: _Groups, one: np.ndarray, weights: np.ndarray, size: int) -> list[_Block]:
    """Returns blocks of whole rows with at most `size` groups, or of one row with more."""
    order = np.argsort(groups.of_term, kind="stable")
    term_bounds = np.searchsorted(groups.of_term[order], np.arange(groups.count + 1))
    group_bounds = np.searchsorted(groups.numbers[0], np.arange(num_rows + 1))
    taken, ordered = torch.from_numpy(one[order].astype(np.int64)), torch.from_numpy(weights[order])
    other, every = torch.from_numpy(groups.numbers[1]), torch.arange(groups.count)
    blocks = []
    first_row = 0
    while first_row < num_rows:
        begin = group_bounds[first_row]
        last_row = max(first_row + 1, int(np.searchsorted(group_bounds, begin + size, side="right")) - 1)
        end = group_bounds[last_row]
        terms = slice(term_bounds[begin], term_bounds[end])
        to_group = SegmentSums(taken[terms], _offsets(term_bounds[begin : end + 1]), ordered[terms])
        to_row = SegmentSums(every[: end - begin], _offsets(group_bounds[first_row : last_row + 1]))
        blocks.append(_Block(slice(first_row, last_row), to_group, other[begin:end], to_row))
        first_row = last_row
    return blocks


def _offsets(bounds: np.ndarray) -> Tensor:
    return torch.from_numpy((bounds - bounds[0]).astype(np.int64))
