"""Reading Kaldi's text and binary streams: tokens, numbers, vectors, matrices.

Input is untrusted: each declared size is compared with what is left before memory is taken, and
every failure is a ModelFormatError that says where.
"""

from __future__ import annotations

import math
import mmap
import os
import re
import struct
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import DTypeLike

from nnet3.errors import ModelFormatError
from nnet3.kaldi_io.arrays import converted
from nnet3.kaldi_io.compressed import CompressedMatrix, read_compressed
from nnet3.kaldi_io.files import ZERO_BYTE, map_file
from nnet3.kaldi_io.index_vector import read_index_vector
from nnet3.kaldi_io.parse_numbers import (
    Buffer,
    fits_float32,
    parse_integer,
    parse_pairs,
    parse_real,
    parse_row,
    parse_rows,
)
from nnet3.kaldi_io.sparse import SparseMatrix, read_sparse

_MOST_TOKEN_BYTES = 512
_MOST_NESTING = 16
_BLOCK = 1 << 20
_WORD = re.compile(rb"\s*(\S{0,%d})" % (_MOST_TOKEN_BYTES + 1))
_OPEN = re.compile(rb"\s*(\[?)")
_SPACE = re.compile(rb"\s*")
_FLOAT_OF_TAG: dict[str, np.dtype] = {"F": np.dtype("<f4"), "D": np.dtype("<f8")}
_COMPRESSED_TAGS = ("CM", "CM2", "CM3")
_REAL_OF_SIZE = {4: struct.Struct("<f"), 8: struct.Struct("<d")}


class Reader:
    """A position in Kaldi data; each method reads one thing from there and moves on.

    `binary=None` looks for the header 00 42 and consumes it. `ran_out` becomes true once anything
    touched the end of the data, so that a caller with more to come can tell truncation from damage.
    """

    def __init__(self, data: Buffer | bytearray | memoryview, source: str = "<bytes>", binary: bool | None = None):
        self.data: Buffer = bytes(data) if isinstance(data, (bytearray, memoryview)) else data
        self.source = source
        self.position = 0
        self.ran_out = False
        self._size = len(self.data)
        self._depth = 0
        self._released = 0
        self.binary = bool(binary)
        if binary is None:
            self.read_header()

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Reader:
        """A reader of a whole file, which is mapped, not loaded."""
        return cls(map_file(path), os.fspath(path))

    def read_header(self) -> None:
        """Set `binary` by what stands here: 00 42 (consumed) or anything else, which means text."""
        start = self.data[self.position : self.position + 2]
        self.ran_out |= len(start) < 2
        self.binary = start[:1] == b"\0"
        if self.binary and start != b"\0B":
            raise self.error(ZERO_BYTE)
        self.position += 2 * self.binary

    # Errors and nesting

    def error(self, message: str) -> ModelFormatError:
        """The error to raise about the current position."""
        return self.error_at(self.position, message)

    def error_at(self, offset: int, message: str) -> ModelFormatError:
        if self.binary:
            return ModelFormatError(message, self.source, f"byte {offset}")
        line, line_start = 1, 0
        for first in range(0, offset, _BLOCK):
            block = self.data[first : min(first + _BLOCK, offset)]
            line += block.count(b"\n")
            if b"\n" in block:
                line_start = first + block.rfind(b"\n") + 1
        return ModelFormatError(message, self.source, f"line {line}, column {offset - line_start + 1}")

    @contextmanager
    def nested(self, what: str) -> Iterator[None]:
        """Within it, one more level of nesting counts. ModelFormatError if there are too many."""
        if self._depth >= _MOST_NESTING:
            raise self.error(f"{what} is nested more than {_MOST_NESTING} deep")
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1

    def need(self, count: int, what: str) -> None:
        """Raise unless `count` more bytes are there."""
        if count > self.left:
            raise self.truncated(f"{what} takes {count} bytes, but only {self.left} are left")

    def release(self) -> None:
        """Let the system take back the memory of what was read of a mapped file; it is still there to be read."""
        end = self.position - self.position % mmap.PAGESIZE
        if isinstance(self.data, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED") and end - self._released >= _BLOCK:
            self.data.madvise(mmap.MADV_DONTNEED, self._released, end - self._released)
            self._released = end

    @property
    def left(self) -> int:
        """The number of bytes left."""
        return self._size - self.position

    def truncated(self, message: str) -> ModelFormatError:
        """The error to raise because the data ended too early."""
        self.ran_out = True
        return self.error(f"{message}: the file is cut off or damaged")

    # Tokens and lines

    def _word(self) -> re.Match[bytes]:
        """The next word (group 1, maybe empty), which is not consumed."""
        match = _WORD.match(self.data, self.position)
        assert match is not None, "the pattern matches everything"
        self.ran_out |= match.end() == self._size
        if match.end(1) - match.start(1) > _MOST_TOKEN_BYTES:
            raise self.error_at(match.start(1), f"a token of more than {_MOST_TOKEN_BYTES} bytes")
        return match

    def _consume(self, match: re.Match[bytes]) -> bytes:
        """Move past a word and the one blank behind it; only text may end without that blank."""
        if match.end() == self._size and self.binary:
            self.position = self._size
            raise self.truncated("the file ends where a blank should follow a token")
        self.position = min(match.end() + 1, self._size)
        return match.group(1)

    def token(self) -> str:
        """The next token."""
        match = self._word()
        if not match.group(1):
            raise self.error_at(match.end(), "expected a token, but the file ends here")
        try:
            return self._consume(match).decode("utf-8")
        except UnicodeDecodeError:
            raise self.error_at(match.start(1), f"expected a token, got {match.group(1)[:20]!r}") from None

    def peek_token(self) -> str:
        """The next token, not consumed; "" at the end of the data."""
        return self._word().group(1).decode("utf-8", "replace")

    def expect(self, *tokens: str) -> str:
        """The next token, which must be one of `tokens`."""
        match = self._word()
        word = match.group(1).decode("utf-8", "replace")
        if word not in tokens:
            got = f"got '{word[:60]}'" if word else "the file ends here"
            raise self.error_at(match.start(1), f"expected {' or '.join(tokens)}, {got}")
        self._consume(match)
        return word

    def accept(self, token: str) -> bool:
        """Consumes the next token if it is `token`; returns True if it was."""
        match = self._word()
        if match.group(1) != token.encode():
            return False
        self._consume(match)
        return True

    def words(self, count: int) -> list[bytes]:
        """The next `count` tokens of a text at once; for a few thousand small ones."""
        extent = 32 * count
        while True:
            text = self.data[self.position : self.position + extent]
            words = text.split(None, count)
            if len(words) > count or len(text) < extent:
                break
            extent *= 2
        if len(words) < count:
            raise self.truncated(f"expected {count} more words, but only {len(words)} are left")
        rest = words.pop() if len(words) > count else b""
        self.ran_out |= not rest
        self.position += len(text) - len(rest)
        return words

    def match(self, pattern: re.Pattern[bytes], expected: str) -> re.Match[bytes]:
        """Consumes what matches a pattern, which must be of bounded length and begin with white space."""
        match = pattern.match(self.data, self.position)
        if match is None:
            raise self._not_a(self._word(), expected)
        self.ran_out |= match.end() == self._size
        self.position = match.end()
        return match

    def line(self) -> str:
        """The rest of the line without its end; it is text in binary files too."""
        end = self.data.find(b"\n", self.position)
        if end < 0:
            self.ran_out, end = True, self._size
            if self.position == self._size:
                raise self.error("expected a line of text, but the file ends here")
        text = self.data[self.position : end]
        try:
            decoded = text.decode("utf-8")
        except UnicodeDecodeError as error:
            raise self.error_at(self.position + error.start, "expected a line of text in UTF-8") from None
        self.position = min(end + 1, self._size)
        return decoded.removesuffix("\r")

    def raw_byte_peek(self) -> int | None:
        """The next byte, not consumed; None at the end of the data."""
        self.ran_out |= self.position >= self._size
        return self.data[self.position] if self.position < self._size else None

    def at_end(self) -> bool:
        """Returns True if only white space is left."""
        match = _SPACE.match(self.data, self.position)
        assert match is not None, "the pattern matches everything"
        self.ran_out |= match.end() == self._size
        return match.end() == self._size

    def finish(self) -> None:
        """Raise if anything but white space is left."""
        if not self.at_end():
            raise self.error("the file should end here, but goes on: it is damaged or not of the expected kind")

    # Numbers

    def int32(self) -> int:
        if not self.binary:
            match = self._word()
            value = parse_integer(match.group(1))
            if value is None:
                raise self._not_a(match, "a 32-bit integer")
            self._consume(match)
            return value
        self.need(5, "an integer")
        size, value = struct.unpack_from("<bi", self.data, self.position)
        if size != 4:
            raise self.error(f"expected a 32-bit integer, which begins with byte 4, got byte {size & 255}")
        self.position += 5
        return value

    def real(self) -> float:
        """A float32 or float64, whichever stands here; even the latter must be in the range of the former."""
        start = self.position
        value = self._binary_real() if self.binary else self._text_real()
        if not fits_float32(value):
            raise self.error_at(start, f"{value:g} does not fit float32")
        return value

    def _text_real(self) -> float:
        match = self._word()
        value = parse_real(match.group(1))
        if value is None:
            raise self._not_a(match, "a number")
        self._consume(match)
        return value

    def _binary_real(self) -> float:
        self.need(1, "a number")
        size = self.data[self.position]
        if size not in _REAL_OF_SIZE:
            raise self.error(f"expected a floating-point number, which begins with byte 4 or 8, got byte {size}")
        self.need(1 + size, "a number")
        (value,) = _REAL_OF_SIZE[size].unpack_from(self.data, self.position + 1)
        self.position += 1 + size
        return value

    def boolean(self) -> bool:
        if not self.binary:
            match = self._word()
            if match.group(1) not in (b"T", b"F"):
                raise self._not_a(match, "T or F")
            return self._consume(match) == b"T"
        self.need(1, "T or F")
        value = self.data[self.position : self.position + 1]
        if value not in (b"T", b"F"):
            raise self.error(f"expected T or F, got {value!r}")
        self.position += 1
        return value == b"T"

    def _not_a(self, match: re.Match[bytes], expected: str) -> ModelFormatError:
        word = match.group(1)[:40].decode("utf-8", "replace")
        got = f"got '{word}'" if word else "the file ends here"
        return self.error_at(match.start(1), f"expected {expected}, {got}")

    # Vectors and matrices

    def vector(self, dtype: DTypeLike = np.float32) -> np.ndarray:
        """A vector of floats, (n,) of `dtype`."""
        if not self.binary:
            start, end = self._brackets("a vector")
            return parse_row(self.data, start, end, dtype, self.error_at)
        stored = _FLOAT_OF_TAG[self.expect("FV", "DV")[0]]
        count = self.size("a vector")
        return converted(self.raw_array(count, stored, "a vector"), dtype)

    def matrix(self, dtype: DTypeLike = np.float32) -> np.ndarray:
        """A matrix of floats, (rows, columns) of `dtype`."""
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
        """The lower triangle of a symmetric matrix, row after row: (n (n + 1) / 2,) of `dtype`."""
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
        """A full, sparse or compressed matrix; a compressed one is decoded unless `keep_codes`."""
        first = self.peek_token()
        if first == "SM" or (not self.binary and first.startswith("rows=")):
            return read_sparse(self)
        if keep_codes and self.binary and first in _COMPRESSED_TAGS:
            return read_compressed(self)
        return self.matrix()

    def index_vector(self) -> np.ndarray:
        """An index vector, (n, 3) int32 with columns n, t, x."""
        return read_index_vector(self)

    def int_vector(self, dtype: DTypeLike = np.int32) -> np.ndarray:
        """A vector of integers, (n,); a binary one must have elements of just the size of `dtype`."""
        if not self.binary:
            start, end = self._brackets("a vector of integers")
            return parse_row(self.data, start, end, dtype, self.error_at)
        return self._raw_integers(np.dtype(dtype), 1, "a vector of integers")

    def pair_vector(self) -> np.ndarray:
        """A vector of pairs of integers, (n, 2) int32."""
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

    def size(self, what: str) -> int:
        """An int32 that says how large `what` is."""
        start = self.position
        size = self.int32()
        if size < 0:
            raise self.error_at(start, f"{what} cannot have size {size}")
        return size

    def raw_array(self, count: int, dtype: DTypeLike, what: str) -> np.ndarray:
        """`count` raw elements, as a view of the data that must not outlive the call."""
        self.need(count * np.dtype(dtype).itemsize, what)
        array = np.frombuffer(self.data, dtype, count, self.position) if count else np.empty(0, dtype)
        self.position += array.nbytes
        return array

    def _brackets(self, what: str) -> tuple[int, int]:
        """Move past `[ ... ]` and the newline behind it; the range between the brackets."""
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
