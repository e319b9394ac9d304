"""Checks of arrays that are to be written: their shape, their type, and that their numbers fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from nnet3.errors import ModelFormatError

if TYPE_CHECKING:
    from nnet3.kaldi_io.reader import Reader


def converted(array: np.ndarray, dtype: DTypeLike) -> np.ndarray:
    """A copy as `dtype`. Float64 beyond the range of float32 becomes an infinity, as in Kaldi."""
    with np.errstate(over="ignore", invalid="ignore"):
        return array.astype(dtype)


def whole_numbers(numbers: np.ndarray) -> np.ndarray | None:
    """Float64 as int32, or None if one of them is no 32-bit integer."""
    whole = np.clip(np.rint(numbers), -(2**31), 2**31 - 1).astype(np.int32)
    return whole if np.array_equal(whole, numbers) else None


def _without_gradient(values: ArrayLike) -> ArrayLike:
    """PyTorch's tensors become arrays only without gradient history, and bfloat16 only as float32."""
    if not hasattr(values, "detach"):
        return values
    tensor = values.detach().cpu()
    return tensor.float() if "bfloat16" in str(tensor.dtype) else tensor


def float_array(values: ArrayLike, dimensions: int, dtype: DTypeLike) -> np.ndarray:
    """`values` as a contiguous array of `dtype` that has that many dimensions."""
    array = np.asarray(_without_gradient(values))
    if array.dtype.kind not in "fiub":
        raise ModelFormatError(f"cannot write numbers of type {array.dtype} as floats")
    if array.ndim != dimensions:
        raise ModelFormatError(f"cannot write an array of shape {array.shape} where {dimensions} dimension(s) belong")
    return np.ascontiguousarray(array if array.dtype == dtype else converted(array, dtype))


def int32_array(values: ArrayLike, columns: int | None = None) -> np.ndarray:
    """`values` as a contiguous int32 array, (n,) or, with `columns`, (n, columns)."""
    array = np.asarray(values)
    if array.size == 0:
        return np.empty((0,) if columns is None else (0, columns), np.int32)
    expected = "(n,)" if columns is None else f"(n, {columns})"
    if array.ndim != (1 if columns is None else 2) or (columns and array.shape[1] != columns):
        raise ModelFormatError(f"cannot write an array of shape {array.shape} as integers of shape {expected}")
    if not np.issubdtype(array.dtype, np.integer):
        raise ModelFormatError(f"cannot write numbers of type {array.dtype} as integers")
    if array.min() < -(2**31) or array.max() >= 2**31:
        raise ModelFormatError("cannot write an integer that does not fit 32 bits")
    return np.ascontiguousarray(array, "<i4")


_BLOCK = 1 << 16  # elements gathered at a time
_ELEMENT = {
    size: np.dtype([("id_size", "u1"), ("id", "<i4"), ("size", "u1"), ("value", f"<f{size}")]) for size in (4, 8)
}


def gather_elements(
    reader: Reader, start: int, header: int, counts: np.ndarray, value_size: int = 4
) -> tuple[np.ndarray, np.ndarray]:
    """The ids (int32) and values (float32) of all elements of rows that lie from `start` to the reader's position.

    Row r is a header of `header` bytes, then counts[r] elements: an int32 and a number, each with its size byte.
    """
    element = _ELEMENT[value_size]
    total = int(counts.sum())
    ids, values = np.empty(total, np.int32), np.empty(total, np.float32)
    contents = np.frombuffer(reader.data, np.uint8, reader.position - start, start) if total else np.empty(0, np.uint8)
    row_of_element = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    for first in range(0, total, _BLOCK):
        part = np.arange(first, min(first + _BLOCK, total))
        element_at = header * (row_of_element[part].astype(np.int64) + 1) + element.itemsize * part
        elements = contents[element_at[:, None] + np.arange(element.itemsize)].reshape(-1).view(element)
        if (elements["id_size"] != 4).any() or (elements["size"] != value_size).any():
            raise reader.error_at(start, "expected pairs of an integer and a number")
        ids[part] = elements["id"]
        values[part] = converted(elements["value"], np.float32)
    return ids, values


def scatter_elements(headers: np.ndarray, indptr: np.ndarray, ids: np.ndarray, values: np.ndarray) -> bytes:
    """The bytes of all rows: row r is headers[r] (of any dtype) and then its elements indptr[r]:indptr[r + 1]."""
    rows, header = len(headers), headers.itemsize
    elements = np.empty(len(ids), _ELEMENT[4])
    elements["id_size"], elements["size"] = 4, 4
    elements["id"], elements["value"] = ids, values
    row_of_element = np.repeat(np.arange(rows), np.diff(indptr))
    header_at = header * np.arange(rows) + elements.itemsize * indptr[:-1]
    element_at = header * (row_of_element + 1) + elements.itemsize * np.arange(len(ids))
    contents = np.empty(headers.nbytes + elements.nbytes, np.uint8)
    for records, at in ((headers, header_at), (elements, element_at)):
        contents[at[:, None] + np.arange(records.itemsize)] = records.view(np.uint8).reshape(-1, records.itemsize)
    return contents.tobytes()
