"""Alignments, pairs, words and posteriors: the limits of their numbers, and where what is wrong."""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np
import pytest

from nnet3.base.kaldi_io.table_values import (
    read_pairs,
    read_token,
    write_alignment,
    write_pairs,
    write_posterior,
    write_token,
)
from nnet3.errors import ModelFormatError
from nnet3.kaldi_io import Posterior, Reader, Writer, read_alignment, read_posterior

LIMITS = [2**31 - 1, -(2**31), 2**30, 0]


@pytest.mark.parametrize("binary", [True, False])
def test_integers_up_to_their_limits(binary: bool) -> None:
    for write, read, value in (
        (write_alignment, read_alignment, LIMITS),
        (write_pairs, read_pairs, [LIMITS[:2], LIMITS[2:]]),
    ):
        writer = Writer(binary)
        write(writer, value)
        assert read(Reader(writer.getvalue(), binary=binary)).tolist() == value


@pytest.mark.parametrize("binary", [True, False])
def test_posteriors_up_to_the_limits_of_integers(binary: bool) -> None:
    ids, weights = np.array(LIMITS[:3], np.int32), np.array([0.5, -1, 1e-30], np.float32)
    posterior = Posterior(np.array([0, 2, 2, 3]), ids, weights)
    writer = Writer(binary)
    write_posterior(writer, posterior)
    again = read_posterior(Reader(writer.getvalue(), binary=binary))
    for got, expected in zip(again, posterior, strict=True):
        np.testing.assert_array_equal(got, expected)
    assert [part.dtype for part in again] == [np.int64, np.int32, np.float32]


def test_values_of_all_kinds_are_written_as_text() -> None:
    writer = Writer(binary=False)
    write_alignment(writer, [1, -2])
    write_pairs(writer, [[1, 2], [3, -4]])
    write_posterior(writer, Posterior(np.array([0, 0, 2]), np.array([3, 7]), np.array([0.5, 1])))
    write_token(writer, "word")
    assert writer.getvalue() == b"1 -2 \n1 2 ; 3 -4 \n[ ] [ 3 0.5 7 1 ] \nword\n"


def test_values_of_all_kinds_are_written_as_bytes() -> None:
    writer = Writer(binary=True)
    write_alignment(writer, [5])
    write_pairs(writer, [[1, 2]])
    write_posterior(writer, Posterior(np.array([0, 1]), np.array([3]), np.array([0.5])))
    integers = b"".join(struct.pack("<bi", 4, value) for value in (1, 5, 1, 1, 2, 1, 1, 3))
    assert writer.getvalue() == integers + struct.pack("<bf", 4, 0.5)


@pytest.mark.parametrize(
    ("read", "text", "message"),
    [
        (read_alignment, "1 x", "line 1, column 5: 'x' is not a 32-bit integer"),
        (read_alignment, "1 ; 2", "line 1, column 5: the numbers must stand on one line"),
        (read_alignment, f"1 {2**31}", f"line 1, column 5: '{2**31}' is not a 32-bit integer"),
        (read_pairs, "1 2 ; 3", "line 1, column 3: expected pairs of integers such as 1 2 ; 3 4"),
        (read_pairs, "1 2 ; 3 x", "line 1, column 11: 'x' is not a 32-bit integer"),
        (read_token, "", "expected one word on the line, got 0"),
        (read_token, "a b", "expected one word on the line, got 2"),
        (read_posterior, "[ 3 0.5", "line 1, column 3: expected a posterior such as"),
        (read_posterior, "[ 3 0.5 ] x", "expected a posterior such as"),
        (read_posterior, "3 0.5 ]", "expected a posterior such as"),
        (read_posterior, "[ 3 0.5 4 ]", "expected a posterior such as"),
        (read_posterior, "[ 3.5 0.5 ]", "line 1, column 3: the first one of each pair must be an integer"),
        (read_posterior, f"[ {2**31} 0.5 ]", "the first one of each pair must be an integer"),
        (read_posterior, f"[ -{2**31 + 1} 0.5 ]", "the first one of each pair must be an integer"),
        (read_posterior, "[ 3 x ]", "line 1, column 3: 'x' is not a number"),
    ],
)
def test_damaged_text_is_refused(read: Callable[[Reader], object], text: str, message: str) -> None:
    reader = Reader(f"k {text}\n".encode(), binary=False)
    reader.token()
    with pytest.raises(ModelFormatError, match=message):
        read(reader)


@pytest.mark.parametrize(
    ("read", "contents", "message"),
    [
        (read_alignment, struct.pack("<bibi", 4, 1, 8, 5), "byte 2: expected 32-bit integers"),
        (read_pairs, struct.pack("<bibibi", 4, 1, 4, 5, 8, 5), "byte 2: expected 32-bit integers"),
        (read_alignment, struct.pack("<bi", 4, -1), "a vector of integers cannot have size -1"),
        (read_pairs, struct.pack("<bi", 4, 1 << 29), "a vector of pairs takes"),
        (read_posterior, struct.pack("<bibi", 4, 2, 4, 0), "a posterior of 2 frames takes 10 bytes, but only 5 are"),
        (read_posterior, struct.pack("<bibi", 4, 1, 4, 3), "a frame with 3 elements takes 30 bytes, but only 0 are"),
        (read_posterior, struct.pack("<bibi", 4, 1, 4, -1), "a frame of a posterior cannot have size -1"),
    ],
)
def test_damaged_bytes_are_refused(read: Callable[[Reader], object], contents: bytes, message: str) -> None:
    reader = Reader(b"k " + contents, binary=True)
    reader.token()
    with pytest.raises(ModelFormatError, match=message):
        read(reader)


@pytest.mark.parametrize("token", ["", "a b", "a\n"])
def test_what_is_no_word(token: str) -> None:
    with pytest.raises(ModelFormatError, match="as a token, which is a word without blanks"):
        write_token(Writer(binary=False), token)
