"""Numbers given by users, as arrays, and as SparseColumns: columns with few nonzero elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nnet3.engine.ir.matrices import as_tensor
from nnet3.errors import ShapeError, check_kind


def as_array(value: Any, what: str) -> np.ndarray:
    """Returns the numbers of an array, a tensor or a list of lists as an array; `what` is the name in messages.

    Sparse matrices become dense. Raises ShapeError for values that are no real numbers: complex
    or masked numbers, texts, tensors without data. Warns of a tensor that requires grad.
    """
    if isinstance(value, Tensor):
        tensor = value.byte() if value.dtype == torch.bool else value
        tensor = tensor if tensor.layout == torch.strided else tensor.to_dense()
        kind = None if tensor.is_floating_point() or tensor.is_complex() else tensor.dtype  # integers stay exact
        tensor = as_tensor(tensor, what, dtype=kind, device="cpu", error=ShapeError)
        return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise ShapeError(f"{what}: some elements of this array are masked: say what they are, with .filled(...)")
    try:
        array = np.asarray(value.toarray() if hasattr(value, "toarray") else value)
    except (TypeError, ValueError, RuntimeError):
        ragged = (
            "; sequences of several lengths are given as cn.sequences([...]), bags as cn.bags"
            if isinstance(value, list)
            else ""
        )
        raise ShapeError(f"{what}: expected numbers, got {repr(value)[:80]}{ragged}") from None
    if array.dtype.kind not in "fiub":
        raise ShapeError(f"{what}: expected a matrix of numbers, got shape {array.shape} of {array.dtype}")
    return array


@dataclass(frozen=True, eq=False)
class SparseColumns:
    """`values[k]` stands in row `row[k]` of column `column[k]`; elements are ordered by columns, all others are 0."""

    shape: tuple[int, int]
    row: np.ndarray
    column: np.ndarray
    values: np.ndarray

    @classmethod
    def of(cls, value: Any, what: str, turned: bool = False) -> SparseColumns | None:
        """Converts a sparse matrix of PyTorch or SciPy; None for anything else. `turned`: transposes it."""
        if isinstance(value, SparseColumns):
            return value
        if isinstance(value, Tensor) and value.layout != torch.strided and value.ndim == 2:
            coo = value.to_sparse_coo().coalesce()
            positions, values = coo.indices().cpu().numpy(), as_array(coo.values(), what)
        elif hasattr(value, "tocsc") and len(value.shape) == 2:
            coo = value.tocsc().tocoo()  # as columns, in which what stands twice is added up
            positions, values = np.stack([coo.row, coo.col]), as_array(coo.data, what)
        else:
            return None
        (rows, columns), (row, column) = value.shape, positions
        if turned:
            rows, columns, row, column = columns, rows, column, row
        return cls((int(rows), int(columns)), *_ordered(row, column, values))

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: tuple[slice, Any]) -> SparseColumns:
        """Returns some columns: `matrix[:, columns]`."""
        chosen = np.arange(self.shape[1])[key[1]]
        starts, ends = np.searchsorted(self.column, chosen), np.searchsorted(self.column, chosen, "right")
        positions = np.repeat(ends - np.cumsum(ends - starts), ends - starts) + np.arange((ends - starts).sum())
        column = np.repeat(np.arange(len(chosen)), ends - starts)
        return SparseColumns((self.shape[0], len(chosen)), self.row[positions], column, self.values[positions])

    def toarray(self) -> np.ndarray:
        """Returns all elements, (rows, columns)."""
        array = np.zeros(self.shape, self.values.dtype)
        array[self.row, self.column] = self.values
        return array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.toarray() if dtype is None else self.toarray().astype(dtype)


def sparse_rows(parts: Sequence[Any], order: np.ndarray | slice, dtype: torch.dtype) -> Tensor:
    """Returns the columns of all matrices, put in this order, as a sparse tensor (columns, rows)."""
    columns = np.cumsum([0, *(part.shape[1] for part in parts)])
    position = np.empty(columns[-1], np.int64)  # at which a column comes
    position[order] = np.arange(columns[-1])
    found = [part if isinstance(part, SparseColumns) else _sparse(part) for part in parts]
    column = position[np.concatenate([part.column + start for part, start in zip(found, columns, strict=False)])]
    row, values = (np.concatenate([getattr(part, name) for part in found]) for name in ("row", "values"))
    row, column, values = _ordered(row, column, values)
    return torch.sparse_coo_tensor(
        torch.as_tensor(np.stack([column, row])),
        torch.as_tensor(values).to(dtype),
        (int(columns[-1]), len(parts[0])),
        is_coalesced=True,
        check_invariants=False,
    )


def bags(lists: Sequence[Sequence[int]], rows: int) -> SparseColumns:
    """Bags of words: column j counts how often each of the numbers 0 ... rows - 1 is in list j."""
    check_kind(lists, Sequence, "bags of words", "a list with the numbers of words of each bag")
    arrays = [as_array(each, f"bag {number}") for number, each in enumerate(lists)]
    for number, array in enumerate(arrays):
        if array.ndim != 1 or (len(array) and array.dtype.kind not in "iu"):
            raise ShapeError(f"bag {number}: expected a list of integers, got shape {array.shape} of {array.dtype}")
        if len(array) and not (array.min() >= 0 and array.max() < rows):
            bad = array[(array < 0) | (array >= rows)][0]
            raise ShapeError(f"bag {number}: expected numbers 0 ... {rows - 1}, got {bad}")
    row = np.concatenate([np.zeros(0), *arrays]).astype(np.int64)
    column = np.repeat(np.arange(len(arrays)), [len(array) for array in arrays])
    pairs, counts = np.unique(np.stack([column, row]), axis=1, return_counts=True)
    return SparseColumns((rows, len(arrays)), pairs[1], pairs[0], counts)


def _ordered(row: np.ndarray, column: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns row numbers, column numbers and values, sorted by column and then by row."""
    row, column = row.astype(np.int64, copy=False), column.astype(np.int64, copy=False)
    position = column * (row.max(initial=0) + 1) + row
    if (position[1:] >= position[:-1]).all():
        return row, column, values
    order = np.argsort(position)
    return row[order], column[order], values[order]


def _sparse(array: np.ndarray) -> SparseColumns:
    column, row = np.nonzero(np.asarray(array).T)
    return SparseColumns((len(array), array.shape[1]), row, column, array[row, column])
