"""Sparse matrices, such as the posteriors of training examples."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass

import numpy as np

from nnet3.base.kaldi_io.arrays import converted, whole_numbers
from nnet3.base.kaldi_io.elements import gather_elements, scatter_elements
from nnet3.base.kaldi_io.format_numbers import format_row
from nnet3.base.kaldi_io.parse_numbers import parse_row
from nnet3.base.kaldi_io.tokens import TokenReader

_ROW = np.dtype([("tag", "S3"), ("dim_size", "u1"), ("dim", "<i4"), ("count_size", "u1"), ("count", "<i4")])
_ROW_HEADER = struct.Struct("<3sBiBi")
_MARK = _ROW.itemsize - 4  # bytes that all rows of a matrix begin with: all but the count
_ELEMENT_SIZE = 10  # bytes of an element with a float32
_ROWS_TEXT = re.compile(rb"\s*rows=([0-9]{1,10})(?=\s)")
_DIM_TEXT = re.compile(rb"\s*dim=([0-9]{1,10})\s+\[(?=\s)")


@dataclass(frozen=True, eq=False)
class SparseMatrix:
    """Row r holds values[indptr[r]:indptr[r + 1]] in the columns ids[...], which ascend; all else is zero."""

    rows: int
    cols: int
    indptr: np.ndarray  # (rows + 1,) int64
    ids: np.ndarray  # int32
    values: np.ndarray  # float32

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows, self.cols

    def row_of_element(self) -> np.ndarray:
        """Returns the row each of `values` stands in."""
        return np.repeat(np.arange(self.rows), np.diff(self.indptr))

    def dense(self) -> np.ndarray:
        """Returns (rows, cols) float32. A file may claim any number of columns: check `cols` before."""
        matrix = np.zeros(self.shape, np.float32)
        matrix[self.row_of_element(), self.ids] = self.values
        return matrix


def read_sparse(reader: TokenReader) -> SparseMatrix:
    """Returns the sparse matrix at the reader's position."""
    start = reader.position
    cols, counts, ids, values = _read_binary(reader) if reader.binary else _read_text(reader)
    indptr = np.concatenate([[0], np.cumsum(counts)])
    ascending = ids[1:] > ids[:-1]
    ascending[indptr[(indptr > 0) & (indptr < len(ids))] - 1] = True  # from one row to the next
    if len(ids) and not (ids.min() >= 0 and ids.max() < cols and ascending.all()):
        raise reader.error_at(start, f"the indexes of a sparse row must ascend within 0..{cols - 1}")
    return SparseMatrix(len(counts), cols, indptr, ids, values)


def _read_binary(reader: TokenReader) -> tuple[int, np.ndarray, np.ndarray, np.ndarray]:
    """Reads (columns, elements in each row, ids, values) from binary data."""
    reader.expect("SM")
    rows = reader.size("a sparse matrix")
    reader.need(rows * _ROW.itemsize, f"a sparse matrix of {rows} rows")
    start = reader.position
    if rows == 0:
        return 0, np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.float32)
    cols = _read_row_header(reader)[0]
    value_size = 4
    counts = _counts_at_a_glance(reader, rows)
    if counts is None:
        counts, value_size = _counts_row_by_row(reader, rows, cols)
    ids, values = gather_elements(reader, start, _ROW.itemsize, counts, value_size)
    return cols, counts, ids, values


def _read_row_header(reader: TokenReader) -> tuple[int, int]:
    """Returns dimension and number of elements of the row at the reader's position; the row is not consumed."""
    reader.need(_ROW.itemsize, "a sparse row")
    tag, dim_size, dim, count_size, count = _ROW_HEADER.unpack_from(reader.data, reader.position)
    if (tag, dim_size, count_size) != (b"SV ", 4, 4) or dim < 0 or count < 0:
        raise reader.error("expected a sparse row (SV, dimension, number of elements)")
    return dim, count


def _counts_at_a_glance(reader: TokenReader, rows: int) -> np.ndarray | None:
    """Consumes all rows at once and returns the number of elements of each row, or None if this fails.

    Rows are found by the token that begins each row; rows must lie one behind another.
    """
    mark = bytes(reader.data[reader.position : reader.position + _MARK])
    window = rows * (_ROW.itemsize + _ELEMENT_SIZE)  # one element in each row, for a start
    while True:
        contents = bytes(reader.data[reader.position : reader.position + window])
        pieces = contents.split(mark, rows)
        if len(pieces) > rows or len(contents) < window:
            break
        window *= 2
    if len(pieces) <= rows:
        return None
    row_at = np.cumsum(np.fromiter(map(len, pieces[:-1]), np.int64, rows)) + _MARK * np.arange(rows)
    count_at = row_at[:, None] + _MARK + np.arange(4)
    if count_at[-1, -1] >= len(contents):
        return None
    counts = np.frombuffer(contents, np.uint8)[count_at].view("<i4")[:, 0].astype(np.int64)
    ends = row_at + _ROW.itemsize + _ELEMENT_SIZE * counts
    if (counts < 0).any() or row_at[0] != 0 or (ends[:-1] != row_at[1:]).any() or ends[-1] > reader.left:
        return None
    element_at = row_at[counts > 0][:1] + _ROW.itemsize
    if len(element_at) and reader.data[reader.position + int(element_at[0]) + 5] != 4:  # values are not float32
        return None
    reader.position += int(ends[-1])
    return counts


def _counts_row_by_row(reader: TokenReader, rows: int, cols: int) -> tuple[np.ndarray, int]:
    """Consumes rows of any form: the number of elements of each, and the bytes of a value."""
    value_size = 0
    counts = np.zeros(rows, np.int64)
    for row in range(rows):  # where a row begins is known only after the one before it
        dim, count = _read_row_header(reader)
        if dim != cols:
            raise reader.error(f"sparse rows of dimensions {cols} and {dim} in one matrix")
        reader.position += _ROW.itemsize
        if count and not value_size:  # the first element decides how all values are stored
            value_size = 8 if reader.left > 5 and reader.data[reader.position + 5] == 8 else 4
        reader.need(count * (6 + value_size), f"a sparse row of {count} elements")
        reader.position += count * (6 + value_size)
        counts[row] = count
    return counts, value_size or 4


def _read_text(reader: TokenReader) -> tuple[int, np.ndarray, np.ndarray, np.ndarray]:
    """Reads (columns, elements in each row, ids, values) from text."""
    start = reader.position
    rows = int(reader.match(_ROWS_TEXT, "a sparse matrix, which begins with rows=").group(1))
    reader.need(rows * len("dim=0 [ ]"), f"a sparse matrix of {rows} rows")
    cols, numbers = 0, bytearray()
    counts = np.zeros(rows, np.int64)
    for row in range(rows):
        match = reader.match(_DIM_TEXT, "a sparse row such as dim=5 [ 3 1 ]")
        dim = int(match.group(1))
        cols = dim if row == 0 else cols
        if dim != cols or dim >= 2**31:
            raise reader.error_at(match.start(1), f"sparse rows of dimensions {cols} and {dim} in one matrix")
        end = reader.data.find(b"]", match.end())
        if end < 0:
            raise reader.truncated("the [ of a sparse row is never closed by ]")
        words = reader.data[match.end() : end].split()
        if len(words) % 2:
            raise reader.error("expected pairs of an integer and a number in a sparse row")
        counts[row] = len(words) // 2
        numbers += b" ".join(words) + b" "
        reader.position = end + 1

    def fail(_: int, message: str) -> Exception:
        return reader.error_at(start, f"in a sparse matrix: {message}")

    flat = parse_row(bytes(numbers), 0, len(numbers), np.float64, fail)
    ids = whole_numbers(flat[0::2])
    if ids is None:
        raise fail(start, "expected pairs of an integer and a number")
    return cols, counts, ids, converted(flat[1::2], np.float32)


def rows_as_text(matrix: SparseMatrix) -> str:
    """Returns the rows of a sparse matrix as text files have them: `dim=5 [ 3 1 ] dim=5 [ ] `."""
    words = format_row(np.asarray(matrix.values, np.float32)).split()
    pairs = [item for pair in zip(matrix.ids.tolist(), words, strict=True) for item in pair]
    row_templates = (f"dim={matrix.cols} [ {'%d %s ' * count}] " for count in np.diff(matrix.indptr).tolist())
    return "".join(row_templates) % tuple(pairs)


def rows_as_bytes(matrix: SparseMatrix) -> bytes:
    """Returns the rows of a sparse matrix as binary files have them."""
    headers = np.empty(matrix.rows, _ROW)
    headers["tag"], headers["dim_size"], headers["count_size"] = b"SV ", 4, 4
    headers["dim"], headers["count"] = matrix.cols, np.diff(matrix.indptr)
    return scatter_elements(headers, matrix.indptr, matrix.ids, matrix.values)
