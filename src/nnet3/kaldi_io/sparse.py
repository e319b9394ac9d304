"""Sparse matrices (formats.md, section 4.1), such as the posteriors of training examples."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nnet3.kaldi_io.arrays import converted
from nnet3.kaldi_io.elements import gather_elements, scatter_elements
from nnet3.kaldi_io.format_numbers import format_row
from nnet3.kaldi_io.parse_numbers import parse_row

if TYPE_CHECKING:
    from nnet3.kaldi_io.reader import Reader
    from nnet3.kaldi_io.writer import Writer

_ROW = np.dtype([("tag", "S3"), ("dim_size", "u1"), ("dim", "<i4"), ("count_size", "u1"), ("count", "<i4")])
_ROW_HEADER = struct.Struct("<3sBiBi")
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
        """The row each of `values` stands in."""
        return np.repeat(np.arange(self.rows), np.diff(self.indptr))

    def dense(self) -> np.ndarray:
        """(rows, cols) float32. A file may claim any number of columns: compare it with what is expected before."""
        matrix = np.zeros(self.shape, np.float32)
        matrix[self.row_of_element(), self.ids] = self.values
        return matrix


def read_sparse(reader: Reader) -> SparseMatrix:
    """The sparse matrix at the reader's position."""
    start = reader.position
    cols, counts, ids, values = _read_binary(reader) if reader.binary else _read_text(reader)
    indptr = np.concatenate([[0], np.cumsum(counts)])
    ascending = ids[1:] > ids[:-1]
    ascending[indptr[(indptr > 0) & (indptr < len(ids))] - 1] = True  # from one row to the next
    if len(ids) and not (ids.min() >= 0 and ids.max() < cols and ascending.all()):
        raise reader.error_at(start, f"the indexes of a sparse row must ascend within 0..{cols - 1}")
    return SparseMatrix(len(counts), cols, indptr, ids, values)


def _read_binary(reader: Reader) -> tuple[int, np.ndarray, np.ndarray, np.ndarray]:
    """(columns, elements in each row, their ids, their values)."""
    reader.expect("SM")
    rows = reader.size("a sparse matrix")
    reader.need(rows * _ROW.itemsize, f"a sparse matrix of {rows} rows")
    start, cols, value_size = reader.position, 0, 0
    counts = np.zeros(rows, np.int64)
    for row in range(rows):  # where a row begins is known only after the one before it
        reader.need(_ROW.itemsize, "a sparse row")
        tag, dim_size, dim, count_size, count = _ROW_HEADER.unpack_from(reader.data, reader.position)
        if (tag, dim_size, count_size) != (b"SV ", 4, 4) or dim < 0 or count < 0:
            raise reader.error("expected a sparse row (SV, dimension, number of elements)")
        cols = dim if row == 0 else cols
        if dim != cols:
            raise reader.error(f"sparse rows of dimensions {cols} and {dim} in one matrix")
        reader.position += _ROW.itemsize
        if count and not value_size:  # the first element decides how all values are stored
            value_size = 8 if reader.left > 5 and reader.data[reader.position + 5] == 8 else 4
        reader.need(count * (6 + value_size), f"a sparse row of {count} elements")
        reader.position += count * (6 + value_size)
        counts[row] = count
    ids, values = gather_elements(reader, start, _ROW.itemsize, counts, value_size or 4)
    return cols, counts, ids, values


def _read_text(reader: Reader) -> tuple[int, np.ndarray, np.ndarray, np.ndarray]:
    """As `_read_binary`."""
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
    ids = flat[0::2]
    if not (np.floor(ids) == ids).all() or (np.abs(ids) >= 2**31).any():
        raise fail(start, "expected pairs of an integer and a number")
    return cols, counts, ids.astype(np.int32), converted(flat[1::2], np.float32)


def write_sparse(writer: Writer, matrix: SparseMatrix) -> None:
    """The sparse matrix as Kaldi writes it."""
    if not writer.binary:
        words = format_row(np.asarray(matrix.values, np.float32)).split()
        pairs = [item for pair in zip(matrix.ids.tolist(), words, strict=True) for item in pair]
        row_templates = (f"dim={matrix.cols} [ {'%d %s ' * count}] " for count in np.diff(matrix.indptr).tolist())
        writer.text(f"rows={matrix.rows} " + "".join(row_templates) % tuple(pairs) + "\n")
        return
    writer.token("SM")
    writer.int32(matrix.rows)
    headers = np.empty(matrix.rows, _ROW)
    headers["tag"], headers["dim_size"], headers["count_size"] = b"SV ", 4, 4
    headers["dim"], headers["count"] = matrix.cols, np.diff(matrix.indptr)
    writer.raw(scatter_elements(headers, matrix.indptr, matrix.ids, matrix.values))
