"""Writing Kaldi's text and binary streams, byte for byte as Kaldi does (formats.md, sections 1 and 2)."""

from __future__ import annotations

import os
import struct

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from nnet3.kaldi_io.files import write_atomically
from nnet3.kaldi_io.format_numbers import format_double, format_float, format_row, format_rows


class Writer:
    """Collects what is written; `getvalue()` or `write_to()` ends it."""

    def __init__(self, binary: bool):
        self.binary = binary
        self._chunks: list[bytes] = []

    def raw(self, contents: bytes) -> None:
        """Bytes as they are."""
        self._chunks.append(contents)

    def _text(self, text: str) -> None:
        self._chunks.append(text.encode("utf-8"))

    def getvalue(self) -> bytes:
        contents = b"".join(self._chunks)
        self._chunks = [contents]
        return contents

    def write_to(self, path: str | os.PathLike[str]) -> None:
        """Put everything into the file in one step."""
        write_atomically(path, self._chunks)

    def header(self) -> None:
        """What a file begins with: 00 42 if it is binary, nothing if it is text."""
        if self.binary:
            self.raw(b"\0B")

    def token(self, token: str) -> None:
        if not token or token.split() != [token]:
            raise ValueError(f"a token is a word without blanks, got {token!r}")
        self._text(token + " ")

    def newline(self) -> None:
        """The end of a line in text; nothing in binary."""
        if not self.binary:
            self.raw(b"\n")

    def text_line(self, line: str) -> None:
        """A line of text, in binary files too."""
        self._text(line + "\n")

    def int32(self, value: int) -> None:
        if not -(2**31) <= value < 2**31:
            raise ValueError(f"{value} does not fit 32 bits")
        if self.binary:
            self.raw(struct.pack("<Bi", 4, value))
        else:
            self._text(f"{int(value)} ")

    def real(self, value: float) -> None:
        """A float32."""
        if self.binary:
            self.raw(struct.pack("<Bf", 4, value))
        else:
            self._text(format_float(value) + " ")

    def double(self, value: float) -> None:
        """A float64."""
        if self.binary:
            self.raw(struct.pack("<Bd", 8, value))
        else:
            self._text(format_double(value) + " ")

    def boolean(self, value: bool) -> None:
        letter = "T" if value else "F"
        self._text(letter if self.binary else letter + " ")

    def vector(self, values: ArrayLike, double: bool = False) -> None:
        """A 1-D array as float32, or as float64 if `double`."""
        array = _array(values, 1, "<f8" if double else "<f4")
        if not self.binary:
            self._text(f" [ {format_row(array)}]\n")
            return
        self.token("DV" if double else "FV")
        self.int32(len(array))
        self.raw(array.tobytes())

    def matrix(self, values: ArrayLike, double: bool = False) -> None:
        """A 2-D array as float32, or as float64 if `double`; without elements it becomes Kaldi's 0 x 0 matrix."""
        array = _array(values, 2, "<f8" if double else "<f4")
        if array.size == 0:
            array = array.reshape(0, 0)
        if not self.binary:
            self._text(f" [{format_rows(array)}]\n" if array.size else " [ ]\n")
            return
        self.token("DM" if double else "FM")
        self.int32(array.shape[0])
        self.int32(array.shape[1])
        self.raw(array.tobytes())

    def int_vector(self, values: ArrayLike) -> None:
        """A 1-D array of integers, stored as int32."""
        array = _int32_array(values, 1)
        if not self.binary:
            self._text(f"[ {'%d ' * len(array) % tuple(array.tolist())}]\n")
            return
        self.raw(struct.pack("<Bi", 4, len(array)) + array.tobytes())

    def pair_vector(self, values: ArrayLike) -> None:
        """An (n, 2) array of integers, stored as int32."""
        array = _int32_array(values, 2)
        if array.shape[1] != 2:
            raise ValueError(f"expected an array of shape (n, 2), got {array.shape}")
        if not self.binary:
            self._text(f"[ {'%d,%d ' * len(array) % tuple(array.reshape(-1).tolist())}]\n")
            return
        self.raw(struct.pack("<Bi", 4, len(array)) + array.tobytes())


def _array(values: ArrayLike, dimensions: int, dtype: DTypeLike) -> np.ndarray:
    array = np.asarray(values)
    if array.ndim != dimensions:
        raise ValueError(f"expected an array of {dimensions} dimension(s), got shape {array.shape}")
    with np.errstate(over="ignore"):  # float64 beyond float32 becomes an infinity, as in Kaldi
        return np.ascontiguousarray(array, dtype)


def _int32_array(values: ArrayLike, dimensions: int) -> np.ndarray:
    array = np.asarray(values)
    if array.size == 0:
        return np.empty((0, 2)[:dimensions], np.int32)
    if not np.issubdtype(array.dtype, np.integer):
        raise ValueError(f"expected integers, got {array.dtype}")
    if array.min() < -(2**31) or array.max() >= 2**31:
        raise ValueError("an integer does not fit 32 bits")
    return _array(array, dimensions, "<i4")
