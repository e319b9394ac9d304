"""Tables of integers, each with its size byte or one row a line."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from nnet3.base.kaldi_io.int32_table import read_int32_table, write_int32_table
from nnet3.errors import ModelFormatError
from nnet3.kaldi_io import Reader, Writer

TABLE = np.array([[1, -2, 3], [2**31 - 1, 5, -(2**31)]])
BINARY = b"".join(struct.pack("<bi", 4, value) for value in TABLE.reshape(-1))


def _written(table: np.ndarray, binary: bool) -> bytes:
    writer = Writer(binary)
    write_int32_table(writer, table, 3)
    return writer.getvalue()


def test_a_worked_example_has_its_bytes_and_text() -> None:
    assert _written(TABLE, binary=True) == BINARY
    assert _written(TABLE, binary=False) == b"1 -2 3 \n2147483647 5 -2147483648 \n"


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("table", [TABLE, TABLE[:1], TABLE[:0]])
def test_what_is_written_is_read_the_same(table: np.ndarray, binary: bool) -> None:
    reader = Reader(b"x " + _written(table, binary) + b"<End> ", binary=binary)
    assert reader.token() == "x"
    again = read_int32_table(reader, len(table), 3, "tuples")
    assert again.dtype == np.int32
    np.testing.assert_array_equal(again, table)
    assert reader.token() == "<End>"


@pytest.mark.parametrize(("wrong", "place"), [(0, 2), (1, 7), (5, 27)])
def test_a_wrong_size_is_named_by_its_byte(wrong: int, place: int) -> None:
    contents = bytearray(b"x " + BINARY)
    contents[place] = 8
    reader = Reader(contents, binary=True)
    reader.token()
    message = f"byte {place}: expected a 32-bit integer, which begins with byte 4, got byte 8"
    with pytest.raises(ModelFormatError, match=message):
        read_int32_table(reader, 2, 3, "tuples")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 2 3\n4 5 6\n", "line 1, column 1: tuples have no end"),
        ("1 2 3\n<", "line 1, column 1: expected 2 lines of 3 integers as tuples, got 1 of 3"),
        ("1 2\n3 4\n<", "expected 2 lines of 3 integers as tuples, got 2 of 2"),
        ("<", "expected 2 lines of 3 integers as tuples, got 0 of 3"),
        ("1 2 3\n4 5 x\n<", "line 2, column 5: 'x' is not a 32-bit integer"),
    ],
)
def test_damaged_text_is_refused(text: str, message: str) -> None:
    with pytest.raises(ModelFormatError, match=message):
        read_int32_table(Reader(text.encode(), binary=False), 2, 3, "tuples")
