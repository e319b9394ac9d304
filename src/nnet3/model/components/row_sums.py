"""Sums over the rows of a minibatch, possibly shared by several processes.

Natural gradient and batch-norm depend on all rows of a minibatch together. Their sums over rows go through here: a
single process keeps its sums; within `summed_by(reduction)` sums run over all processes, so that together the processes
do the work of one process with all rows. All processes must ask for equal sums in equal order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

_BYTES_OF_BLOCK = 2**19  # of each matrix
_MOST_BYTES_WAITING = 2**26


class RowReduction(Protocol):
    """Adds up tensors over the processes that share minibatches, for instance by torch.distributed."""

    @property
    def rank(self) -> int:
        """The number of this process, from 0."""

    @property
    def size(self) -> int:
        """The number of processes."""

    def sum_(self, tensors: Sequence[Tensor]) -> None:
        """Replaces all tensors by their sums over all processes, in place, to the same bits in every process."""


@dataclass
class _Sums:
    """A reduction, and the tensors that wait for a sum, each with a function to call afterwards."""

    reduction: RowReduction
    waiting: list[tuple[tuple[Tensor, ...], Callable[[], None]]] = field(default_factory=list)
    bytes_waiting: int = 0

    def settle(self) -> None:
        while self.waiting:  # what comes after a sum may ask for another one
            now, self.waiting, self.bytes_waiting = self.waiting, [], 0
            self.reduction.sum_([tensor for tensors, _ in now for tensor in tensors])
            for _, then in now:
                then()


_SUMS: ContextVar[_Sums | None] = ContextVar("sums over rows", default=None)


@contextmanager
def summed_by(reduction: RowReduction | None) -> Iterator[None]:
    """Makes sums over rows inside the block sums over the processes of `reduction` (None: over local rows).

    What waits is summed at the end of the block; after an error it is forgotten.
    """
    sums = None if reduction is None else _Sums(reduction)
    token = _SUMS.set(sums)
    try:
        yield
        if sums is not None:
            sums.settle()
    finally:
        _SUMS.reset(token)


def rows_are_divided() -> bool:
    """Returns True if other processes have rows of the minibatch."""
    return _SUMS.get() is not None


def sum_over_processes_(*tensors: Tensor) -> None:
    """Replaces tensors by their sums over all processes."""
    sums = _SUMS.get()
    if sums is not None:
        sums.reduction.sum_(tensors)


def sum_later_(tensors: Sequence[Tensor], then: Callable[[], None]) -> None:
    """Replaces tensors by their sums over all processes, and calls `then`: now, or where processes share rows, later.

    That is at the end of the block of `summed_by`, or at `settle_sums`.
    """
    sums = _SUMS.get()
    if sums is None:
        then()
        return
    sums.waiting.append((tuple(tensors), then))
    sums.bytes_waiting += sum(tensor.nbytes for tensor in tensors)
    if sums.bytes_waiting > _MOST_BYTES_WAITING:
        sums.settle()


def settle_sums() -> None:
    """Sums all that waits."""
    sums = _SUMS.get()
    if sums is not None:
        sums.settle()


def take_those_of_first_later_(tensors: Sequence[Tensor], then: Callable[[], None]) -> None:
    """Replaces tensors by the first process's tensors, and calls `then`, when `sum_later_` would."""
    sums = _SUMS.get()
    for tensor in () if sums is None or sums.reduction.rank == 0 else tensors:
        tensor.zero_()
    sum_later_(tensors, then)


def sum_and_count(total: Tensor, rows: int) -> tuple[Tensor, int]:
    """Returns a sum over rows and the number of rows, of all processes."""
    if not rows_are_divided():
        return total, rows
    numbers = torch.cat([total.double().reshape(-1), total.new_tensor([rows], dtype=torch.float64)])
    sum_over_processes_(numbers)
    return numbers[:-1].view(total.shape).to(total.dtype), int(numbers[-1])


@contextmanager
def whole_gradient(gradient: Tensor) -> Iterator[float]:
    """Adds up the gradients of all processes. Inside, rows count as undivided.

    Gives the share of the update that this process shall make, since the updates of all will be added.
    """
    sums = _SUMS.get()
    sum_over_processes_(gradient)
    with summed_by(None):
        yield 1.0 if sums is None else 1.0 / sums.reduction.size


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
