"""Tables of int32 numbers, the tuples of transition models; in binary files each number follows a size byte."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from nnet3.base.kaldi_io.arrays import int32_array
from nnet3.base.kaldi_io.parse_numbers import parse_rows
from nnet3.base.kaldi_io.reader import Reader
from nnet3.base.kaldi_io.writer import Writer

TAGGED = np.dtype([("size", "u1"), ("value", "<i4")])


def read_int32_table(reader: Reader, rows: int, columns: int, what: str) -> np.ndarray:
    """Returns `rows` rows of `columns` integers, (rows, columns) int32; in text one row a line, up to the next `<`."""
    if reader.binary:
        return _read_binary(reader, rows * columns, what).reshape(rows, columns)
    start = reader.position
    end = reader.data.find(b"<", start)
    if end < 0:
        raise reader.truncated(f"{what} have no end")
    table = parse_rows(reader.data, start, end, np.int32, reader.error_at)
    found = (len(table), table.shape[1] if len(table) else columns)
    if found != (rows, columns):
        raise reader.error_at(
            start, f"expected {rows} lines of {columns} integers as {what}, got {found[0]} of {found[1]}"
        )
    reader.position = end
    return table.reshape(rows, columns)


def _read_binary(reader: Reader, count: int, what: str) -> np.ndarray:
    start = reader.position
    elements = reader.raw_array(count, TAGGED, what)
    wrong = np.flatnonzero(elements["size"] != 4)
    if len(wrong):
        size = int(elements["size"][wrong[0]])
        offset = start + TAGGED.itemsize * int(wrong[0])
        raise reader.error_at(offset, f"expected a 32-bit integer, which begins with byte 4, got byte {size}")
    return elements["value"].astype(np.int32)


def write_int32_table(writer: Writer, table: ArrayLike, columns: int) -> None:
    """Writes integers (n, columns)."""
    array = int32_array(table, columns)
    if not writer.binary:
        row = "%d " * columns + "\n"
        writer.text(row * len(array) % tuple(array.reshape(-1).tolist()))
        return
    writer.raw(tagged(array).tobytes())


def tagged(array: np.ndarray) -> np.ndarray:
    """Returns the elements of an int32 array, row by row, with their size bytes: (n,) of TAGGED."""
    elements = np.empty(array.size, TAGGED)
    elements["size"], elements["value"] = 4, array.reshape(-1)
    return elements
