"""Numbers out of text, fast: NumPy parses blocks of about a megabyte; Python looks at words only on failure."""

from __future__ import annotations

import math
import mmap
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike

Buffer = bytes | mmap.mmap
Fail = Callable[[int, str], Exception]  # (offset in the data, message) -> the error to raise

_BLOCK = 1 << 20
_TOO_LARGE = 2.0**128 - 2.0**103  # the smallest number that float32 rounds to infinity
_WORD = re.compile(rb"[^\s;]+")
_INTEGER = re.compile(rb"[+-]?[0-9]{1,10}")
_REAL = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_INFINITE = re.compile(rb"[+-]?inf(?:inity)?", re.IGNORECASE)
_NAN = re.compile(rb"[+-]?nan", re.IGNORECASE)


def parse_integer(word: bytes) -> int | None:
    """Returns the decimal integer `word` if it fits 32 bits, else None."""
    value = int(word) if _INTEGER.fullmatch(word) else None
    return value if value is not None and -(2**31) <= value < 2**31 else None


def parse_real(word: bytes) -> float | None:
    """Returns the number `word`, infinities and nan included; None if it is none or too large."""
    if _REAL.fullmatch(word):
        value = float(word)
        return value if math.isfinite(value) else None
    return float(word) if _INFINITE.fullmatch(word) or _NAN.fullmatch(word) else None


def fits_float32(value: float) -> bool:
    """Returns False for a finite number that float32 rounds to infinity."""
    return not _TOO_LARGE <= abs(value) < math.inf


def parse_rows(data: Buffer, start: int, end: int, dtype: DTypeLike, fail: Fail) -> np.ndarray:
    """Parses data[start:end] as (rows, columns) of `dtype`; newline or `;` ends a row, empty rows are ignored."""
    columns, total = _shape(data, start, end, fail)
    numbers = np.empty(total, dtype)
    done = 0
    for offset, block in _blocks(data, start, end, fail):
        values = _parse_block(block, np.int64 if np.issubdtype(dtype, np.integer) else dtype)
        if values is None or not _acceptable(values, block, dtype):
            raise _first_bad_word(block, offset, dtype, fail)
        numbers[done : done + len(values)] = values
        done += len(values)
    return numbers.reshape(-1, columns) if columns else numbers.reshape(0, 0)


def parse_row(data: Buffer, start: int, end: int, dtype: DTypeLike, fail: Fail) -> np.ndarray:
    """Returns the numbers in data[start:end], which must be one row: (n,) of `dtype`."""
    for row_end in (b"\n", b";"):
        offset = data.find(row_end, start, end)
        if offset >= 0:
            raise fail(offset, "the numbers must stand on one line, without ';'")
    return parse_rows(data, start, end, dtype, fail).reshape(-1)


def parse_pairs(data: Buffer, start: int, end: int, fail: Fail) -> np.ndarray:
    """Returns the pairs `1,2 3,-4` in data[start:end], (n, 2) int32."""
    total = sum(block.count(b",") for _, block in _blocks(data, start, end, fail))
    pairs = np.empty(2 * total, np.int32)
    done = 0
    for offset, block in _blocks(data, start, end, fail):
        word_starts = _scan(block)[0]
        commas = np.flatnonzero(np.frombuffer(block, np.uint8) == ord(","))
        block = block.replace(b",", b" ")
        values = _parse_block(block, np.int64)
        one_comma_a_word = np.array_equal(np.searchsorted(word_starts, commas), np.arange(1, len(word_starts) + 1))
        if not one_comma_a_word or values is None or len(values) != 2 * len(commas):
            raise fail(offset, "expected pairs of integers such as 1,-2")
        if not _acceptable(values, block, np.int32):
            raise _first_bad_word(block, offset, np.int32, fail)
        pairs[done : done + len(values)] = values
        done += len(values)
    return pairs.reshape(-1, 2)


class Ragged(NamedTuple):
    """Rows of numbers of different lengths: row k is values[offsets[k] : offsets[k + 1]].

    values: float64; is_digits: (numbers,), whether the word has nothing but digits. offsets, begins: (rows + 1,),
    `begins` has where rows begin in the data, and where the last one ends. Rows may be empty.
    """

    values: np.ndarray
    is_digits: np.ndarray
    offsets: np.ndarray
    begins: np.ndarray


def parse_ragged(data: Buffer, start: int, end: int, fail: Fail) -> Ragged:
    """Returns the numbers in data[start:end], rows ended by newline or `;`, infinities included."""
    values, is_digits = [np.zeros(0)], [np.zeros(0, bool)]
    offsets, begins = [np.zeros(1, np.int64)], [np.full(1, start)]
    words_before = 0
    for offset, block in _blocks(data, start, end, fail):
        found = _parse_block(block, np.float64)
        if found is None or not _acceptable(found, block, np.float64):
            raise _first_bad_word(block, offset, np.float64, fail)
        word_starts, row_ends = _scan(block)
        characters = np.frombuffer(block, np.uint8)
        others = np.append(0, np.cumsum((characters > 32) & ((characters < ord("0")) | (characters > ord("9")))))
        behind = np.append(word_starts[1:], len(block))
        semicolons = np.append(0, np.cumsum(characters == ord(";")))
        inside = others[behind] - others[word_starts] - (semicolons[behind] - semicolons[word_starts])
        values.append(found)
        is_digits.append(inside == 0)
        offsets.append(words_before + np.searchsorted(word_starts, row_ends))
        begins.append(offset + row_ends + 1)
        words_before += len(word_starts)
    if not begins[-1].size or begins[-1][-1] != end:  # a last row without its end
        offsets.append(np.array([words_before]))
        begins.append(np.array([end]))
    return Ragged(*map(np.concatenate, (values, is_digits, offsets, begins)))


def _blocks(data: Buffer, start: int, end: int, fail: Fail) -> Iterator[tuple[int, bytes]]:
    """Yields consecutive pieces of data[start:end], cut behind white space or `;`, each after its offset."""
    while start < end:
        stop = min(end, start + _BLOCK)
        if stop < end:
            stop = 1 + max(data.rfind(separator, start, stop) for separator in (b" ", b"\n", b"\t", b";"))
            if stop == 0:
                raise fail(start, "this is not a number: it goes on for a megabyte")
        yield start, data[start:stop]
        start = stop


def _shape(data: Buffer, start: int, end: int, fail: Fail) -> tuple[int, int]:
    """Returns (columns, count of numbers); fails at the first row not as long as the first row.

    Row ends are checked block by block, because a table of row ends could outgrow the file.
    """
    columns = total = row_start = 0
    for offset, block in _blocks(data, start, end, fail):
        word_starts, row_ends = _scan(block)
        words_before = total + np.searchsorted(word_starts, row_ends)
        if not columns and len(words_before) and words_before[-1] > 0:
            columns = int(words_before[words_before > 0][0])
        if columns:
            lengths = np.diff(words_before, prepend=row_start)
            wrong = np.flatnonzero((lengths != columns) & (lengths != 0))
            if len(wrong):
                raise _ragged(int(lengths[wrong[0]]), columns, offset + int(row_ends[wrong[0]]), fail)
            row_start = int(words_before[-1]) if len(words_before) else row_start
        total += len(word_starts)
    columns = columns or total
    if total - row_start not in (0, columns):
        raise _ragged(total - row_start, columns, end, fail)
    return columns, total


def _ragged(length: int, columns: int, offset: int, fail: Fail) -> Exception:
    return fail(offset, f"all rows must be equally long: the first row has {columns} numbers, this one {length}")


def _scan(block: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Offsets of the first characters of words, and of the characters that end a row."""
    characters = np.frombuffer(block, np.uint8)
    blank = characters <= 32
    row_end = characters == 10
    if b";" in block:
        semicolon = characters == 59
        blank |= semicolon
        row_end |= semicolon
    word_start = ~blank
    word_start[1:] &= blank[:-1]
    return np.flatnonzero(word_start), np.flatnonzero(row_end)


def _parse_block(block: bytes, dtype: DTypeLike) -> np.ndarray | None:
    """Returns the numbers of the block, or None if NumPy does not understand all of it.

    The last word is an addition of ours: it comes out last only if the parser got through everything
    (older NumPy stops at a bad word with a mere warning).
    """
    count = len(_scan(block)[0])
    try:
        with np.errstate(over="ignore"):  # numbers too large for `dtype` become infinities, which the caller looks into
            values = np.fromstring(block.replace(b";", b"\n") + b" 7", dtype, sep=" ")
    except (ValueError, DeprecationWarning):
        return None
    return values[:-1] if len(values) == count + 1 and values[-1] == 7 else None


def _acceptable(values: np.ndarray, block: bytes, dtype: DTypeLike) -> bool:
    if np.issubdtype(dtype, np.integer):
        limits = np.iinfo(np.dtype(dtype))
        fits = not len(values) or (limits.min <= values.min() and values.max() <= limits.max)
        return fits and not block.translate(None, b"0123456789+- \t\r\n\v\f;")
    return bool(np.isfinite(values).all()) or _find_bad_word(block, dtype) is None


def _find_bad_word(block: bytes, dtype: DTypeLike) -> tuple[re.Match[bytes], str] | None:
    """Returns the first word that is not an acceptable number, with the reason; slow."""
    whole = np.issubdtype(dtype, np.integer)
    limits = np.iinfo(np.dtype(dtype)) if whole else None
    for match in _WORD.finditer(block):
        word = match.group()
        value = parse_integer(word) if whole else parse_real(word)
        shown = word[:40].decode("utf-8", "replace")
        if value is None:
            return match, f"'{shown}' is not " + ("a 32-bit integer" if whole else "a number")
        if math.isnan(value):
            return match, "a NaN is not allowed in a vector or matrix"
        is_small = limits.min <= value <= limits.max if limits else np.dtype(dtype) != np.float32 or fits_float32(value)
        if not is_small:
            return match, f"'{shown}' does not fit {np.dtype(dtype)}"
    return None


def _first_bad_word(block: bytes, offset: int, dtype: DTypeLike, fail: Fail) -> Exception:
    found = _find_bad_word(block, dtype)
    if found is None:
        return fail(offset, "this text is not a list of numbers")
    match, message = found
    return fail(offset + match.start(), message)
