"""Reading Kaldi's vectors and matrices, text and binary."""

from __future__ import annotations

import math
import re
import struct

import numpy as np
from numpy.typing import DTypeLike

from nnet3.base.kaldi_io.arrays import converted
from nnet3.base.kaldi_io.compressed import CompressedMatrix, read_compressed
from nnet3.base.kaldi_io.index_vector import read_index_vector
from nnet3.base.kaldi_io.parse_numbers import parse_pairs, parse_row, parse_rows
from nnet3.base.kaldi_io.sparse import SparseMatrix, read_sparse
from nnet3.base.kaldi_io.tokens import TokenReader

_OPEN = re.compile(rb"\s*(\[?)")
_FLOAT_OF_TAG: dict[str, np.dtype] = {"F": np.dtype("<f4"), "D": np.dtype("<f8")}
_COMPRESSED_TAGS = ("CM", "CM2", "CM3")


class Reader(TokenReader):
    """Reads vectors and matrices too."""

    def vector(self, dtype: DTypeLike = np.float32) -> np.ndarray:
        """Returns a vector of floats, (n,) of `dtype`."""
        if not self.binary:
            start, end = self._brackets("a vector")
            return parse_row(self.data, start, end, dtype, self.error_at)
        stored = _FLOAT_OF_TAG[self.expect("FV", "DV")[0]]
        count = self.size("a vector")
        return converted(self.raw_array(count, stored, "a vector"), dtype)

    def matrix(self, dtype: DTypeLike = np.float32) -> np.ndarray:
        """Returns a matrix of floats, (rows, columns) of `dtype`."""
        if not self.binary:
            start, end = self._brackets("a matrix")
            return parse_rows(self.data, start, end, dtype, self.error_at)
        if self.peek_token() in _COMPRESSED_TAGS:
            return read_compressed(self).decode().astype(dtype, copy=False)
        stored = _FLOAT_OF_TAG[self.expect("FM", "DM", *_COMPRESSED_TAGS)[0]]
        start = self.position
        rows, columns = self.size("a matrix"), self.size("a matrix")
        if (rows == 0) != (columns == 0):
            raise self.error_at(start, f"a matrix cannot be {rows} x {columns}")
        elements = self.raw_array(rows * columns, stored, f"a {rows} x {columns} matrix")
        return converted(elements, dtype).reshape(rows, columns)

    def packed(self, dtype: DTypeLike = np.float64) -> np.ndarray:
        """Returns the lower triangle of a symmetric matrix, row after row: (n (n + 1) / 2,) of `dtype`."""
        if not self.binary:
            start, end = self._brackets("a symmetric matrix")
            one_row = self.data[start:end].translate(bytes.maketrans(b"\r\n;", b"   "))
            elements = parse_row(
                one_row, 0, len(one_row), dtype, lambda at, message: self.error_at(start + at, message)
            )
            size = (math.isqrt(8 * len(elements) + 1) - 1) // 2
            if size * (size + 1) // 2 != len(elements):
                raise self.error_at(start, f"{len(elements)} numbers are no lower triangle of a square matrix")
            return elements
        stored = _FLOAT_OF_TAG[self.expect("FP", "DP")[0]]
        size = self.size("a symmetric matrix")
        elements = self.raw_array(size * (size + 1) // 2, stored, f"a symmetric {size} x {size} matrix")
        return converted(elements, dtype)

    def general_matrix(self, keep_codes: bool = False) -> np.ndarray | SparseMatrix | CompressedMatrix:
        """Returns a full, sparse or compressed matrix; a compressed one is decoded unless `keep_codes`."""
        first = self.peek_token()
        if first == "SM" or (not self.binary and first.startswith("rows=")):
            return read_sparse(self)
        if keep_codes and self.binary and first in _COMPRESSED_TAGS:
            return read_compressed(self)
        return self.matrix()

    def index_vector(self) -> np.ndarray:
        """Returns an index vector, (n, 3) int32 with columns n, t, x."""
        return read_index_vector(self)

    def int_vector(self, dtype: DTypeLike = np.int32) -> np.ndarray:
        """Returns a vector of integers, (n,); a binary one must have elements of just the size of `dtype`."""
        if not self.binary:
            start, end = self._brackets("a vector of integers")
            return parse_row(self.data, start, end, dtype, self.error_at)
        return self._raw_integers(np.dtype(dtype), 1, "a vector of integers")

    def pair_vector(self) -> np.ndarray:
        """Returns a vector of pairs of integers, (n, 2) int32."""
        if self.binary:
            return self._raw_integers(np.dtype(np.int32), 2, "a vector of pairs").reshape(-1, 2)
        start, end = self._brackets("a vector of pairs")
        return parse_pairs(self.data, start, end, self.error_at)

    def _raw_integers(self, dtype: np.dtype, width: int, what: str) -> np.ndarray:
        self.need(5, what)
        size, count = struct.unpack_from("<bi", self.data, self.position)
        if size != dtype.itemsize:
            raise self.error(f"expected {what} of {dtype.itemsize}-byte elements, got elements of {size} bytes")
        if count < 0:
            raise self.error_at(self.position + 1, f"{what} cannot have {count} elements")
        self.position += 5
        return self.raw_array(count * width, dtype, what).copy()

    def _brackets(self, what: str) -> tuple[int, int]:
        """Moves past `[ ... ]` and a newline behind; returns where the text between the brackets begins and ends."""
        match = _OPEN.match(self.data, self.position)
        assert match is not None, "the pattern matches everything"
        if not match.group(1):
            raise self._not_a(self._word(), f"{what}, which begins with [")
        end = self.data.find(b"]", match.end())
        if end < match.end():
            self.position = match.start(1)
            raise self.truncated(f"the [ of {what} is never closed by ]")
        self.position = end + 1
        for newline in (b"\n", b"\r\n"):
            if self.data[end + 1 : end + 1 + len(newline)] == newline:
                self.position += len(newline)
        return match.end(), end
