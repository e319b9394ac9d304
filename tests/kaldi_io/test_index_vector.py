"""Index vectors: bytes by hand, the coding against a slow and obvious one, damage."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given, strategies as st

from nnet3.errors import ModelFormatError
from nnet3.kaldi_io import Reader, Writer
from tests.call_count import count_calls

NO_TIME = -(2**31)


def written(indexes: object, binary: bool) -> bytes:
    writer = Writer(binary)
    writer.index_vector(indexes)
    return writer.getvalue()


def slowly_written(indexes: list[tuple[int, int, int]]) -> bytes:
    contents = b"<I1V> " + struct.pack("<bi", 4, len(indexes))
    previous = (0, 0, 0)
    for n, t, x in indexes:
        step = t - previous[1]
        if (n, x) == (previous[0], previous[2]) and -125 < step < 125:
            contents += struct.pack("<b", step)
        else:
            contents += struct.pack("<bbibibi", 127, 4, n, 4, t, 4, x)
        previous = (n, t, x)
    return contents


def test_a_worked_example_has_its_bytes_and_text() -> None:
    contents = bytes.fromhex("3c4931563e20 04 04000000 fe 01 01 7f 04 01000000 04 feffffff 04 00000000")
    indexes = [[0, -2, 0], [0, -1, 0], [0, 0, 0], [1, -2, 0]]
    assert Reader(contents, binary=True).index_vector().tolist() == indexes
    assert written(indexes, True) == contents
    assert written([[0, 0, 0], [0, 5, 0]], False) == b"<I1V> 2 <I1> 0 0 0 <I1> 0 5 0 "
    assert written([], True) == bytes.fromhex("3c4931563e20 04 00000000")
    assert Reader(written([], False)).index_vector().shape == (0, 3)


SMALL = st.tuples(st.integers(0, 1), st.integers(-130, 130), st.integers(0, 1))
LARGE = st.tuples(*[st.sampled_from([NO_TIME, -1, 0, 1, 124, 125, 2**31 - 1])] * 3)


@given(st.lists(SMALL) | st.lists(st.tuples(st.just(0), st.integers(-70, 70), st.just(0))) | st.lists(LARGE))
def test_what_is_written_is_read_the_same(indexes: list[tuple[int, int, int]]) -> None:
    contents = written(indexes, True)
    assert contents == slowly_written(indexes)
    for data, binary in ((contents, True), (written(indexes, False), False)):
        reader = Reader(data + b"x", binary=binary)
        back = reader.index_vector()
        assert (back.dtype, back.shape) == (np.int32, (len(indexes), 3))
        assert back.tolist() == [list(index) for index in indexes]
        assert reader.raw_byte_peek() == ord("x")


def test_many_indexes_are_read_and_written() -> None:
    """Several blocks of text, long runs of both codes, in both orders of a minibatch."""
    n, t = np.meshgrid(np.arange(128), np.arange(-20, 180), indexing="ij")
    n_major = np.stack([n, t, 0 * n], axis=2)
    for indexes in (n_major.reshape(-1, 3), n_major.transpose(1, 0, 2).reshape(-1, 3)):
        for binary in (False, True):
            np.testing.assert_array_equal(Reader(written(indexes, binary), binary=binary).index_vector(), indexes)


@pytest.mark.parametrize("change", [0, 1])
def test_long_codes_take_hardly_more_calls_than_short_ones(change: int) -> None:
    """Those that stand together are decoded together."""

    def calls(count: int) -> int:
        contents = written([[change * number, 0, 1] for number in range(count)], True)
        return count_calls(lambda: Reader(contents, binary=True).index_vector())

    assert calls(20_000) < 3 * calls(100)


def test_wide_spacing_in_text() -> None:
    text = "<I1V> 2 <I1>" + 100 * " " + "0 0 0\n" + 100 * "\t" + "<I1> 1 2 3"
    assert Reader(text.encode()).index_vector().tolist() == [[0, 0, 0], [1, 2, 3]]


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        ("04 ffffff7f 00", "but only 1 are left"),
        ("04 ffffffff", "cannot have size -1"),
        ("04 02000000 00 7d", "125 is not a code"),
        ("04 02000000 00 80", "-128 is not a code"),
        ("04 02000000 7f 0401000000 04feffffff 0400000000", "but only 0 are left"),
        ("04 01000000 7f 0801000000 04feffffff 0400000000", "expected three 32-bit integers"),
        ("04 02000000 7f 0400000000 04ffffff7f 0400000000 01", "t leaves the range"),
        ("04 02000000 7f 0400000000 0400000080 0400000000 ff", "t leaves the range"),
    ],
)
def test_damaged_bytes_are_refused(contents: str, message: str) -> None:
    with pytest.raises(ModelFormatError, match=message):
        Reader(b"<I1V> " + bytes.fromhex(contents), binary=True).index_vector()


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        ("<I1> 0 0 0 ", "expected <I1V>, got '<I1>'"),
        ("<I1V> 2147483647 <I1> 0 0 0 ", "but only"),
        ("<I1V> 1 <I2> 0 0 0 ", "expected 1 groups"),
        ("<I1V> 1 <I1> 0 0 x ", "'x' is not a 32-bit integer"),
        ("<I1V> 2 <I1> 0 0 0 <I1>    0 0 ", "expected 8 more words, but only 7 are left"),
        ("<I1V> 1 <I1> 0 0 9999999999 ", "is not a 32-bit integer"),
    ],
)
def test_damaged_text_is_refused(contents: str, message: str) -> None:
    with pytest.raises(ModelFormatError, match=message):
        Reader(contents.encode()).index_vector()


def test_truncation_at_every_byte() -> None:
    contents = written([[0, 0, 0], [0, 1, 0], [1, 0, 0]], True)
    for length in range(len(contents)):
        with pytest.raises(ModelFormatError):
            Reader(contents[:length], binary=True).index_vector()
