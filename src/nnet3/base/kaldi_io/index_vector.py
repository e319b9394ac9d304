"""Index vectors: rows of n, t, x; in binary mostly one byte each."""

from __future__ import annotations

import numpy as np

from nnet3.base.kaldi_io.parse_numbers import Buffer, parse_row
from nnet3.base.kaldi_io.tokens import TokenReader

_LONG = 127  # code of an element that is written out
_LARGEST_STEP = 124
_ELEMENT = np.dtype(
    [("code", "i1"), ("n_size", "u1"), ("n", "<i4"), ("t_size", "u1"), ("t", "<i4"), ("x_size", "u1"), ("x", "<i4")]
)
_SIZE_BYTES = [1, 6, 11]
_STEPS = 1 << 16  # decoded at a time
_SHORTEST_TEXT = len("<I1> 0 0 0")
_TEXT_ELEMENTS = 1 << 14  # parsed at a time
_MOST_RECORDS = 1 << 16  # compared at a time


def read_index_vector(reader: TokenReader) -> np.ndarray:
    """Returns (size, 3) int32 with columns n, t, x."""
    reader.expect("<I1V>")
    size = reader.size("an index vector")
    what = f"an index vector of {size} elements"
    reader.need(size if reader.binary else size * _SHORTEST_TEXT, what)
    indexes = np.zeros((size, 3), np.int32)
    done = 0
    while done < size:
        rest = indexes[done:]
        if not reader.binary:
            done += _read_text(reader, rest)
        elif reader.raw_byte_peek() == _LONG:
            done += _read_long(reader, rest, what)
        else:
            done += _read_short(reader, rest, indexes[done - 1] if done else np.zeros(3, np.int32), what)
    return indexes


def _read_long(reader: TokenReader, out: np.ndarray, what: str) -> int:
    """Fills `out` with written-out elements from the reader's position on; returns their number."""
    reader.need(_ELEMENT.itemsize, what)
    most = min(len(out), reader.left // _ELEMENT.itemsize)
    start = reader.position
    alone = most == 1 or reader.data[start + _ELEMENT.itemsize] != _LONG
    count = 1 if alone else run_length(reader.data, start, _ELEMENT.itemsize, most, [0, *_SIZE_BYTES])
    elements = reader.raw_array(count, _ELEMENT, what)
    if elements[["n_size", "t_size", "x_size"]][0].tolist() != (4, 4, 4):
        raise reader.error_at(start, "expected three 32-bit integers in an index vector")
    for column, name in enumerate("ntx"):
        out[:count, column] = elements[name]
    return count


def run_length(data: Buffer, position: int, size: int, most: int, fixed: list[int]) -> int:
    """Returns the number of records from `position` on, each of `size` bytes, equal to the first at `fixed`: 1..most.

    `fixed` are the offsets of the bytes compared. The search goes ahead in growing steps: its work is in proportion to
    the length of the run.
    """
    first = np.frombuffer(data, np.uint8, size, position)[fixed]
    length, step = 1, 8
    while length < most:
        count = min(step, most - length)
        records = np.frombuffer(data, np.uint8, count * size, position + length * size).reshape(count, size)
        differs = (records[:, fixed] != first).any(axis=1)
        if differs.any():
            return length + int(differs.argmax())
        length += count
        step = min(2 * step, _MOST_RECORDS)
    return length


def _read_short(reader: TokenReader, out: np.ndarray, previous: np.ndarray, what: str) -> int:
    """Fills `out` with elements written as differences of t; returns the number of elements read.

    The first difference is from the element `previous`, (3,), whose n and x all elements have.
    """
    start = reader.position
    reader.need(1, what)
    stop = start + min(len(out), reader.left, _STEPS)
    end = reader.data.find(bytes([_LONG]), start, stop)
    steps = reader.raw_array((stop if end < 0 else end) - start, np.int8, what).astype(np.int64)
    bad = np.flatnonzero(np.abs(steps) > _LARGEST_STEP)
    if len(bad):
        raise reader.error_at(start + int(bad[0]), f"{steps[bad[0]]} is not a code of an index vector")
    t = previous[1] + np.cumsum(steps)
    if t.min() < -(2**31) or t.max() >= 2**31:
        raise reader.error_at(start, "t leaves the range of 32 bits")
    out[: len(t)] = previous
    out[: len(t), 1] = t
    return len(t)


def _read_text(reader: TokenReader, out: np.ndarray) -> int:
    """Fills the beginning of `out` from groups `<I1> n t x`; returns their number."""
    count = min(len(out), _TEXT_ELEMENTS)
    start = reader.position
    words = reader.words(4 * count)
    if words[::4] != [b"<I1>"] * count:
        raise reader.error_at(start, f"expected {count} groups '<I1> n t x' in an index vector")
    del words[::4]
    numbers = b" ".join(words)
    out[:count] = parse_row(
        numbers, 0, len(numbers), np.int32, lambda _, message: reader.error_at(start, f"in an index vector: {message}")
    ).reshape(-1, 3)
    return count


def elements_as_text(rows: np.ndarray) -> str:
    """Returns the elements of an index vector, (size, 3) with columns n, t, x, as groups `<I1> n t x`."""
    return "<I1> %d %d %d " * len(rows) % tuple(rows.reshape(-1).tolist())


def elements_as_bytes(rows: np.ndarray) -> bytes:
    """Returns the elements of an index vector, (size, 3) int32 with columns n, t, x, as binary files have them."""
    wide = np.concatenate([np.zeros((1, 3), np.int64), rows.astype(np.int64)])
    steps = np.diff(wide, axis=0)
    short = (steps[:, 0] == 0) & (steps[:, 2] == 0) & (np.abs(steps[:, 1]) <= _LARGEST_STEP)
    elements = np.empty(len(rows), _ELEMENT)
    elements["code"] = np.where(short, steps[:, 1], _LONG)
    elements["n_size"] = elements["t_size"] = elements["x_size"] = 4
    for column, name in enumerate("ntx"):
        elements[name] = rows[:, column]
    contents = elements.view(np.uint8).reshape(-1, _ELEMENT.itemsize)
    kept = np.ones(contents.shape, bool)
    kept[short, 1:] = False
    return contents[kept].tobytes()
