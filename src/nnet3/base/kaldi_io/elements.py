"""Rows of pairs (an int32 id and a number), as sparse matrices and posteriors have them in binary files."""

from __future__ import annotations

import numpy as np

from nnet3.base.kaldi_io.arrays import converted
from nnet3.base.kaldi_io.tokens import TokenReader

_BLOCK = 1 << 16  # elements gathered at a time
_ELEMENT = {
    size: np.dtype([("id_size", "u1"), ("id", "<i4"), ("size", "u1"), ("value", f"<f{size}")]) for size in (4, 8)
}


def gather_elements(
    reader: TokenReader, start: int, header: int, counts: np.ndarray, value_size: int = 4
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the ids (int32) and values (float32) of all elements of the rows from `start` to the reader's position.

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
    """Returns the bytes of all rows: for row r, headers[r] (of any dtype), then elements indptr[r]:indptr[r + 1]."""
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
