"""Sparse matrices (formats.md, section 4.1), such as the posteriors of training examples."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nnet3.kaldi_io.format_numbers import format_row
from nnet3.kaldi_io.parse_numbers import parse_rows
from nnet3.kaldi_io.records import run_length

if TYPE_CHECKING:
    from nnet3.kaldi_io.reader import Reader
    from nnet3.kaldi_io.writer import Writer

_ROW = np.dtype([("tag", "S3"), ("dim_size", "u1"), ("dim", "<i4"), ("count_size", "u1"), ("count", "<i4")])
_ROW_HEADER = struct.Struct("<3sBiBi")
_ELEMENT = {
    size: np.dtype([("id_size", "u1"), ("id", "<i4"), ("size", "u1"), ("value", f"<f{size}")]) for size in (4, 8)
}
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


class _Rows:
    """Rows as they are read. Byte arrays hold the elements, since many small arrays would outgrow the file."""

    def __init__(self, reader: Reader, rows: int):
        self.reader, self.rows, self.start = reader, rows, reader.position
        self.counts = np.zeros(rows, np.int64)
        self.done = 0
        self.dim: int | None = None
        self.ids, self.values = bytearray(), bytearray()

    def check_dim(self, dim: int, position: int) -> None:
        if not 0 <= dim < 2**31:
            raise self.reader.error_at(position, f"a sparse row cannot have dimension {dim}")
        if self.dim not in (None, dim):
            raise self.reader.error_at(position, f"sparse rows of dimensions {self.dim} and {dim} in one matrix")
        self.dim = dim

    def append(self, rows: int, count: int, ids: np.ndarray, values: np.ndarray) -> None:
        """`rows` more rows of `count` elements each."""
        self.counts[self.done : self.done + rows] = count
        self.done += rows
        self.ids += ids.astype(np.int32).tobytes()
        self.values += values.astype(np.float32).tobytes()

    def finish(self) -> SparseMatrix:
        indptr = np.concatenate([[0], np.cumsum(self.counts)])
        ids = np.frombuffer(self.ids, np.int32)
        dim = self.dim or 0
        ascending = np.diff(ids.astype(np.int64)) > 0
        ascending[indptr[(indptr > 0) & (indptr < len(ids))] - 1] = True  # from one row to the next
        if len(ids) and not (ids.min() >= 0 and ids.max() < dim and ascending.all()):
            raise self.reader.error_at(self.start, f"the indexes of a sparse row must ascend within 0..{dim - 1}")
        return SparseMatrix(self.rows, dim, indptr, ids, np.frombuffer(self.values, np.float32))


def read_sparse(reader: Reader) -> SparseMatrix:
    """The sparse matrix at the reader's position."""
    return _read_binary(reader) if reader.binary else _read_text(reader)


def _read_binary(reader: Reader) -> SparseMatrix:
    reader.expect("SM")
    rows = reader.size("a sparse matrix")
    reader.need(rows * _ROW.itemsize, f"a sparse matrix of {rows} rows")
    matrix = _Rows(reader, rows)
    while matrix.done < rows:
        reader.need(_ROW.itemsize, "a sparse row")
        start = reader.position
        tag, dim_size, dim, count_size, count = _ROW_HEADER.unpack_from(reader.data, start)
        if (tag, dim_size, count_size) != (b"SV ", 4, 4) or count < 0:
            raise reader.error("expected a sparse row (SV, dimension, number of elements)")
        matrix.check_dim(dim, start)
        element = _ELEMENT[_element_size(reader, start + _ROW.itemsize) if count else 4]
        size = _ROW.itemsize + count * element.itemsize
        reader.need(size, f"a sparse row of {count} elements")
        fixed = list(range(_ROW.itemsize)) + ([_ROW.itemsize + 5] if count else [])
        run = run_length(reader.data, start, size, min(rows - matrix.done, reader.left // size), fixed)
        records = reader.raw_array(run * size, np.uint8, "sparse rows").reshape(run, size)
        elements = np.ascontiguousarray(records[:, _ROW.itemsize :]).reshape(-1).view(element)
        if (elements["id_size"] != 4).any() or (elements["size"] != element["value"].itemsize).any():
            raise reader.error_at(start, "expected pairs of an integer and a number in a sparse row")
        with np.errstate(over="ignore"):
            matrix.append(run, count, elements["id"], elements["value"])
    return matrix.finish()


def _element_size(reader: Reader, position: int) -> int:
    """4 or 8: how the values of the sparse row whose first element stands at `position` are stored."""
    reader.need(_ROW.itemsize + _ELEMENT[4].itemsize, "a sparse row")
    size = reader.data[position + 5]
    if size not in _ELEMENT:
        raise reader.error_at(position + 5, f"expected a floating-point number, got byte {size}")
    return size


def _read_text(reader: Reader) -> SparseMatrix:
    match = reader.match(_ROWS_TEXT, "a sparse matrix, which begins with rows=")
    rows = int(match.group(1))
    reader.need(rows * len("dim=0 [ ]"), f"a sparse matrix of {rows} rows")
    matrix = _Rows(reader, rows)
    while matrix.done < rows:
        match = reader.match(_DIM_TEXT, "a sparse row such as dim=5 [ 3 1 ]")
        matrix.check_dim(int(match.group(1)), match.start(1))
        end = reader.data.find(b"]", match.end())
        if end < 0:
            raise reader.truncated("the [ of a sparse row is never closed by ]")
        flat = parse_rows(reader.data, match.end(), end, np.float64, reader.error_at).reshape(-1)
        reader.position = end + 1
        ids = flat[0::2]
        if len(flat) % 2 or not (np.floor(ids) == ids).all() or (np.abs(ids) >= 2**31).any():
            raise reader.error_at(match.end(), "expected pairs of an integer and a number in a sparse row")
        with np.errstate(over="ignore"):
            matrix.append(1, len(ids), ids, flat[1::2])
    return matrix.finish()


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
    elements = np.empty(len(matrix.ids), _ELEMENT[4])
    elements["id_size"], elements["size"] = 4, 4
    elements["id"], elements["value"] = matrix.ids, matrix.values
    contents = np.empty(headers.nbytes + elements.nbytes, np.uint8)
    header_at = _ROW.itemsize * np.arange(matrix.rows) + elements.itemsize * matrix.indptr[:-1]
    element_at = _ROW.itemsize * (matrix.row_of_element() + 1) + elements.itemsize * np.arange(len(elements))
    for array, at in ((headers, header_at), (elements, element_at)):
        contents[at[:, None] + np.arange(array.itemsize)] = array.view(np.uint8).reshape(-1, array.itemsize)
    writer.raw(contents.tobytes())
