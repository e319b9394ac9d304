"""Sparse and general matrices: bytes by hand, round trips, damage."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp

from nnet3.errors import ModelFormatError
from nnet3.kaldi_io import Reader, SparseMatrix, Writer
from tests.call_count import count_calls

ONE_ROW = "53 4d 20 04 01 00 00 00 53 56 20 04 05 00 00 00 04 01 00 00 00 04 03 00 00 00 04 00 00 80 3f"
HEADER = "53 4d 20 04 "


def sparse(dense: np.ndarray) -> SparseMatrix:
    rows, ids = np.nonzero(dense)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(dense)))])
    return SparseMatrix(*dense.shape, indptr, ids.astype(np.int32), dense[rows, ids])


def written(matrix: object, binary: bool) -> bytes:
    writer = Writer(binary)
    writer.general_matrix(matrix)
    return writer.getvalue()


def test_a_worked_example_has_its_bytes() -> None:
    matrix = Reader(bytes.fromhex(ONE_ROW), binary=True).general_matrix()
    assert isinstance(matrix, SparseMatrix)
    assert matrix.dense().tolist() == [[0, 0, 0, 1, 0]]
    assert written(matrix, True).hex(" ") == ONE_ROW


def test_text_is_read_and_written_the_same() -> None:
    text = "rows=2 dim=5 [ 0 0.2 3 0.9 ] dim=5 [ ] \n"
    reader = Reader(("<X> " + text + "</X> ").encode())
    reader.expect("<X>")
    matrix = reader.general_matrix()
    reader.expect("</X>")
    np.testing.assert_array_equal(matrix.dense(), np.array([[0.2, 0, 0, 0.9, 0], [0] * 5], np.float32))
    assert written(matrix, False).decode() == text


def test_values_of_8_bytes_are_read() -> None:
    empty_row = "53 56 20 04 05 00 00 00 04 00 00 00 00 "
    row_of_doubles = "53 56 20 04 05 00 00 00 04 01 00 00 00 04 03 00 00 00 08 00 00 00 00 00 00 f8 3f "
    contents = HEADER + "03000000 " + empty_row + row_of_doubles * 2
    assert Reader(bytes.fromhex(contents), binary=True).general_matrix().dense()[:, 3].tolist() == [0, 1.5, 1.5]


@given(
    hnp.arrays(
        np.float32,
        st.tuples(st.integers(1, 40), st.integers(1, 6)),
        elements=st.sampled_from(np.array([0, 0, 0, 1, 0.1, -3], np.float32)),
    ),
    st.booleans(),
)
def test_what_is_written_is_read_the_same(dense: np.ndarray, binary: bool) -> None:
    contents = written(sparse(dense), binary)
    reader = Reader(contents, binary=binary)
    matrix = reader.general_matrix()
    assert isinstance(matrix, SparseMatrix)
    assert reader.at_end()
    np.testing.assert_array_equal(matrix.dense(), dense)
    assert written(matrix, binary) == contents


def test_full_and_empty_matrices() -> None:
    for binary in (False, True):
        full = Reader(written([[1, 2]], binary), binary=binary).general_matrix()
        assert full.tolist() == [[1, 2]]
        empty = SparseMatrix(0, 0, np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0, np.float32))
        assert Reader(written(empty, binary), binary=binary).general_matrix().shape == (0, 0)
        assert written(empty, binary) == written(np.empty((0, 0)), binary)


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (HEADER + "ffffff7f", "but only 0 are left"),
        (HEADER + "01000000 5356 20 04 05000000 04 0000", "a sparse matrix of 1 rows takes 13 bytes, but only 11 are"),
        (HEADER + "ffffffff", "cannot have size -1"),
        (HEADER + "01000000 5356 20 04 05000000 04 ffffff7f 04 00000000 04 00000000", "but only"),
        (HEADER + "01000000 5356 20 04 05000000 04 ffffffff", "expected a sparse row"),
        (HEADER + "01000000 5356 20 04 ffffffff 04 00000000", "expected a sparse row"),
        (HEADER + "01000000 5356 20 08 05000000 04 00000000", "expected a sparse row"),
        (HEADER + "01000000 5356 20 04 05000000 04 01000000 04 05000000 04 00000000", "ascend within 0..4"),
        (HEADER + "01000000 5356 20 04 05000000 04 01000000 04 ffffffff 04 00000000", "ascend within 0..4"),
        (HEADER + "01000000 5356 20 04 05000000 04 01000000 04 00000000 05 00000000", "expected pairs"),
        (HEADER + "01000000 5356 20 04 05000000 04 01000000 08 00000000 04 00000000", "expected pairs"),
        (
            HEADER + "01000000 5356 20 04 05000000 04 02000000" + "04 03000000 04 00000000" * 2,
            "ascend within 0..4",
        ),
        (
            HEADER
            + "02000000 5356 20 04 05000000 04 01000000 04 00000000 04 00000000"
            + "5356 20 04 05000000 04 01000000 04 00000000 08 0000000000000000",
            "expected pairs",
        ),
        (
            HEADER + "02000000 5356 20 04 05000000 04 00000000 5356 20 04 06000000 04 00000000",
            "dimensions 5 and 6",
        ),
    ],
)
def test_damaged_bytes_are_refused(contents: str, message: str) -> None:
    with pytest.raises(ModelFormatError, match=message):
        Reader(bytes.fromhex(contents), binary=True).general_matrix()


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        ("rows=x dim=5 [ ]", "expected a sparse matrix"),
        ("rows=9999999999 dim=5 [ ]", "but only"),
        ("rows=2 dim=5 [ 3 1 ] ", "takes 18 bytes"),
        ("rows=2 dim=5 [ 3 1 ]       ", "expected a sparse row"),
        ("rows=1 dim=5 [ 3 1 ", "never closed"),
        ("rows=1 dim=5 [ 3 ]", "expected pairs"),
        ("rows=1 dim=5 [ 3.5 1 ]", "expected pairs"),
        ("rows=1 dim=2147483647 [ 2147483648 1 ]", "expected pairs"),
        ("rows=1 dim=2147483647 [ 2147483647 1 ]", "ascend within 0..2147483646"),
        ("rows=1 dim=2147483648 [ 1 1 ]", "dimensions 2147483648 and 2147483648"),
        ("rows=1 dim=5 [ inf 1 ]", "expected pairs"),
        ("rows=1 dim=5 [ 3 x ]", "'x' is not a number"),
        ("rows=1 dim=5 [ 3 1 2 1 ]", "ascend within"),
        ("rows=1 dim=9999999999 [ 3 1 ]", "dimensions 9999999999"),
        ("rows=2 dim=5 [ ] dim=6 [ ]", "dimensions 5 and 6"),
    ],
)
def test_damaged_text_is_refused(contents: str, message: str) -> None:
    with pytest.raises(ModelFormatError, match=message):
        Reader(contents.encode()).general_matrix()


@pytest.mark.parametrize("binary", [False, True])
def test_truncation_at_every_byte(binary: bool) -> None:
    contents = written(sparse(np.array([[0, 1, 0.5], [0, 0, 0], [2, 0, 0]], np.float32)), binary)
    for length in range(len(contents.rstrip()) if not binary else len(contents)):
        with pytest.raises(ModelFormatError):
            Reader(contents[:length], binary=binary).general_matrix()


def _row(columns: int, pairs: list[tuple[int, bytes]]) -> bytes:
    elements = b"".join(b"\x04" + struct.pack("<i", column) + value for column, value in pairs)
    return b"SV " + struct.pack("<BiBi", 4, columns, 4, len(pairs)) + elements


@pytest.mark.parametrize("hostile", [[0, 1, 2], [1], [2]])
def test_rows_that_look_like_what_they_hold(hostile: list[int]) -> None:
    """An element whose bytes are the beginning of a row: column 0x20565304 ... is `SV ` in the right place."""
    mark = _row(2**31 - 1, [])[:9]
    column, value = struct.unpack("<i", mark[:4])[0], b"\x04" + mark[4:8]
    columns = [column if number in hostile else 5 for number in range(3)]
    rows = [_row(2**31 - 1, [(1, b"\x04" + b"\0" * 4), (each, value)]) for each in columns]
    contents = b"SM \x04" + struct.pack("<i", 3) + b"".join(rows)
    matrix = Reader(contents, binary=True).general_matrix()
    assert isinstance(matrix, SparseMatrix)
    assert matrix.ids.tolist() == [number for each in columns for number in (1, each)]
    assert written(matrix, True) == contents


def test_columns_up_to_the_last() -> None:
    text = f"rows=1 dim={2**31 - 1} [ 70 1 {2**31 - 2} 2 ] \n"
    matrix = Reader(text.encode()).general_matrix()
    assert isinstance(matrix, SparseMatrix)
    assert (matrix.shape, matrix.ids.tolist()) == ((1, 2**31 - 1), [70, 2**31 - 2])
    assert written(matrix, False) == text.encode()


@pytest.mark.parametrize("counts", [[0], [1], [0, 3, 1]])
def test_many_rows_of_float32_take_hardly_more_calls_than_some(counts: list[int]) -> None:
    """They are found at a glance."""
    rows = [_row(600, [(column, b"\x04\0\0\x80?") for column in range(count)]) for count in counts]

    def calls(repeats: int) -> int:
        contents = b"SM \x04" + struct.pack("<i", repeats * len(rows)) + repeats * b"".join(rows)
        return count_calls(lambda: Reader(contents, binary=True).general_matrix())

    assert calls(1000) < calls(10) + 50


@pytest.mark.parametrize("size", [4, 8])
@pytest.mark.parametrize("counts", [[0, 0, 0], [1] * 40, [3, 0, 2, 9, 0], [0, 0, 500], [7]])
def test_rows_of_any_lengths(counts: list[int], size: int) -> None:
    value = b"\x04\0\0\x80?" if size == 4 else b"\x08" + struct.pack("<d", 1.0)
    rows = [_row(600, [(column, value) for column in range(count)]) for count in counts]
    contents = b"SM \x04" + struct.pack("<i", len(rows)) + b"".join(rows)
    reader = Reader(contents + b"</X> ", binary=True)
    matrix = reader.general_matrix()
    reader.expect("</X>")
    assert isinstance(matrix, SparseMatrix)
    assert np.diff(matrix.indptr).tolist() == counts
    assert matrix.dense().sum() == sum(counts)
    for cut in range(10, len(contents), max(1, len(contents) // 50)):
        with pytest.raises(ModelFormatError):
            Reader(contents[:cut], binary=True).general_matrix()
