"""Sums over the rows of a minibatch, possibly shared by several processes.

Natural gradient and batch-norm depend on all rows of a minibatch together. Their sums over rows go through here: a
single process keeps its sums; within `summed_by(reduction)` sums run over all processes, so that together the processes
do the work of one process with all rows. All processes must ask for equal sums in equal order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

import torch
from torch import Tensor

_BYTES_OF_BLOCK = 2**19  # of each matrix


class RowReduction(Protocol):
    """Adds up tensors over the processes that share minibatches, for instance by torch.distributed."""

    @property
    def rank(self) -> int:
        """The number of this process, from 0."""

    @property
    def size(self) -> int:
        """The number of processes."""

    def sum_(self, tensors: Sequence[Tensor]) -> None:
        """Replace all tensors by their sums over all processes, in place, to the same bits in every process."""


_REDUCTION: ContextVar[RowReduction | None] = ContextVar("row reduction", default=None)


@contextmanager
def summed_by(reduction: RowReduction | None) -> Iterator[None]:
    """Makes sums over rows inside the block sums over the processes of `reduction` (None: over local rows)."""
    token = _REDUCTION.set(reduction)
    try:
        yield
    finally:
        _REDUCTION.reset(token)


def rows_are_divided() -> bool:
    """Returns True if other processes have rows of the minibatch."""
    return _REDUCTION.get() is not None


def sum_over_processes_(*tensors: Tensor) -> None:
    """Replaces tensors by their sums over all processes."""
    reduction = _REDUCTION.get()
    if reduction is not None:
        reduction.sum_(tensors)


def take_those_of_first_(*tensors: Tensor) -> None:
    """Replaces tensors by the first process's tensors."""
    reduction = _REDUCTION.get()
    if reduction is not None:
        reduction.sum_([tensor if reduction.rank == 0 else tensor.zero_() for tensor in tensors])


def sum_and_count(total: Tensor, rows: int) -> tuple[Tensor, int]:
    """Returns a sum over rows and the number of rows, of all processes."""
    if not rows_are_divided():
        return total, rows
    count = torch.tensor(float(rows), dtype=torch.float64, device=total.device)
    total = total.clone()
    sum_over_processes_(total, count)
    return total, int(count)


@contextmanager
def whole_gradient(gradient: Tensor) -> Iterator[float]:
    """Adds up the gradients of all processes. Inside, rows count as undivided.

    Gives the share of the update that this process shall make, since the updates of all will be added.
    """
    reduction = _REDUCTION.get()
    sum_over_processes_(gradient)
    with summed_by(None):
        yield 1.0 if reduction is None else 1.0 / reduction.size


def blocks_of_rows(*matrices: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Yields matching rows of all matrices, block by block, small enough for the cache; on a GPU all rows at once.

    A block then goes through memory once for several steps, and needs room for one block alone.
    """
    first = matrices[0]
    row = first.shape[1] * first.itemsize
    count = max(1, first.shape[0] if first.is_cuda else _BYTES_OF_BLOCK // max(1, row))
    return zip(*(matrix.split(count) for matrix in matrices), strict=True)


def sum_of_rows(function: Callable[..., Tensor], *matrices: Tensor) -> Tensor:
    """Returns the sum over all rows of a function of rows, (columns,), in the type `type_of_sums`."""
    dtype = type_of_sums(matrices[0])
    first, *others = (function(*block).sum(0, dtype=dtype) for block in blocks_of_rows(*matrices))
    for each in others:
        first += each
    return first


def type_of_sums(matrix: Tensor) -> torch.dtype:
    """Returns the type of sums over rows: of half types float32, whose range and digits sums need."""
    return torch.promote_types(matrix.dtype, torch.float32)
