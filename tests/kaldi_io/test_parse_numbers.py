"""Numbers out of text: as Python reads each word, by blocks of any size; what is wrong is found where it stands."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from nnet3.base.kaldi_io import parse_numbers
from nnet3.base.kaldi_io.parse_numbers import (
    fits_float32,
    parse_integer,
    parse_pairs,
    parse_ragged,
    parse_real,
    parse_row,
    parse_rows,
)


class Failed(Exception):
    def __init__(self, offset: int, message: str) -> None:
        super().__init__(message)
        self.offset = offset


def _rows(text: str, dtype: type = np.float32) -> np.ndarray:
    return parse_rows(text.encode(), 0, len(text), dtype, Failed)


@pytest.mark.parametrize(
    ("word", "value"),
    [(b"12", 12), (b"-0", 0), (b"+7", 7), (b"2147483647", 2**31 - 1), (b"-2147483648", -(2**31))],
)
def test_integers_are_parsed_or_refused(word: bytes, value: int) -> None:
    assert parse_integer(word) == value


@pytest.mark.parametrize("word", [b"2147483648", b"-2147483649", b"1.0", b"", b"0x1", b"1_0", b"99999999999"])
def test_what_is_no_integer(word: bytes) -> None:
    assert parse_integer(word) is None


@pytest.mark.parametrize(
    ("word", "value"), [(b"1.", 1.0), (b".5", 0.5), (b"-1e-3", -1e-3), (b"inf", math.inf), (b"-Infinity", -math.inf)]
)
def test_reals_are_parsed_or_refused(word: bytes, value: float) -> None:
    assert parse_real(word) == value


@pytest.mark.parametrize("word", [b".", b"1e", b"1e999", b"0x1p3", b"1_0", b"one", b""])
def test_what_is_no_real(word: bytes) -> None:
    assert parse_real(word) is None
    assert math.isnan(parse_real(b"NaN") or 0.0)


def test_the_largest_float32() -> None:
    largest = float(np.finfo(np.float32).max)
    assert fits_float32(largest)
    assert not fits_float32(1.00001 * largest)
    assert fits_float32(math.inf)


@given(st.lists(st.lists(st.integers(-999, 999), min_size=3, max_size=3), min_size=1, max_size=20), st.integers(20, 60))
def test_blocks_of_any_size_give_the_same_rows(rows: list[list[int]], block: int) -> None:
    text = "\n".join(" ".join(map(str, row)) for row in rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parse_numbers, "_BLOCK", block)
        assert _rows(text, np.int32).tolist() == _rows(text).tolist() == rows


def test_rows_end_with_newlines_or_semicolons_and_empty_ones_do_not_count() -> None:
    assert _rows("1 2;3 4\n\n 5 6 ;").tolist() == [[1, 2], [3, 4], [5, 6]]
    assert _rows(" \n ").shape == (0, 0)
    assert parse_row(b"1 2 3", 0, 5, np.int32, Failed).tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("text", "dtype", "offset", "message"),
    [
        ("1 2\n3 x", np.float32, 6, "'x' is not a number"),
        ("1 2\n3 nan", np.float32, 6, "a NaN is not allowed"),
        ("1 1e39", np.float32, 2, "'1e39' does not fit float32"),
        ("1 2.5", np.int32, 2, "'2.5' is not a 32-bit integer"),
        ("1 3000000000", np.int32, 2, "'3000000000' is not a 32-bit integer"),
        ("1 300", np.int8, 2, "'300' does not fit int8"),
        ("1 2\n3\n4 5", np.float32, 5, "the first row has 2 numbers, this one 1"),
        ("1 2\n3", np.float32, 5, "the first row has 2 numbers, this one 1"),
    ],
)
def test_what_is_wrong_is_found_where_it_stands(text: str, dtype: type, offset: int, message: str) -> None:
    with pytest.raises(Failed, match=message.replace("(", r"\(")) as caught:
        _rows(text, dtype)
    assert caught.value.offset == offset


def test_numbers_of_a_vector_stand_on_one_line() -> None:
    with pytest.raises(Failed, match="on one line") as caught:
        parse_row(b"1 2;3", 0, 5, np.int32, Failed)
    assert caught.value.offset == 3


def test_pairs_are_parsed() -> None:
    text = b"1,2 -3,4\n5,6"
    assert parse_pairs(text, 0, len(text), Failed).tolist() == [[1, 2], [-3, 4], [5, 6]]


@pytest.mark.parametrize("text", [b"1 2", b"1,2,3 4", b"1, 2", b"1,2 3", b"1.5,2", b"1,3000000000"])
def test_what_are_no_pairs(text: bytes) -> None:
    with pytest.raises(Failed, match=r"expected pairs of integers|is not a 32-bit integer"):
        parse_pairs(text, 0, len(text), Failed)


def test_a_word_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parse_numbers, "_BLOCK", 10)
    with pytest.raises(Failed, match="it goes on for a megabyte"):
        _rows("1" * 30)


@given(st.lists(st.lists(st.sampled_from(["1", "-2.5", "3e2", "007", "+4", "inf"]), max_size=4)), st.integers(1, 9))
def test_ragged_rows_by_blocks_of_any_size(rows: list[list[str]], block: int) -> None:
    text = "\n".join(" ".join(row) for row in rows) + "\n"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parse_numbers, "_BLOCK", 6 + block)
        found = parse_ragged(b"ab" + text.encode() + b"yz", 2, 2 + len(text), Failed)
    words = [word for row in rows for word in row]
    assert found.values.tolist() == [float(word) for word in words]
    assert found.is_digits.tolist() == [word.isdigit() for word in words]
    assert np.diff(found.offsets).tolist() == [len(row) for row in rows or [[]]]
    assert [text[begin - 2 : end - 2].split() for begin, end in zip(found.begins, found.begins[1:], strict=False)] == (
        rows or [[]]
    )


def test_a_ragged_row_without_its_end() -> None:
    found = parse_ragged(b"1 2\n3", 0, 5, Failed)
    assert found.offsets.tolist() == [0, 2, 3]
    assert found.begins.tolist() == [0, 4, 5]
    with pytest.raises(Failed, match="'x' is not a number"):
        parse_ragged(b"1 2\nx", 0, 5, Failed)
