"""Reading Kaldi's text and binary streams: tokens, lines, numbers.

Input is untrusted: each declared size is compared with what is left before memory is taken, and
every failure is a ModelFormatError that says where.
"""

from __future__ import annotations

import mmap
import os
import re
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from nnet3.base.kaldi_io.files import ZERO_BYTE, map_file
from nnet3.base.kaldi_io.parse_numbers import Buffer, fits_float32, parse_integer, parse_real
from nnet3.errors import ModelFormatError

if TYPE_CHECKING:
    from typing_extensions import Self

T = TypeVar("T")
_MOST_TOKEN_BYTES = 512
_MOST_NESTING = 16
_BLOCK = 1 << 20
_WORD = re.compile(rb"\s*(\S{0,%d})" % (_MOST_TOKEN_BYTES + 1))
_SPACE = re.compile(rb"\s*")
_REAL_OF_SIZE = {4: struct.Struct("<f"), 8: struct.Struct("<d")}


class TokenReader:
    """A position in Kaldi data; the methods read one value from there and move on.

    `binary=None` looks for the header 00 42 and consumes it. `ran_out` becomes true once a read has touched the end of
    the data: a caller with more data to come can then tell truncation from damage.
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
    def open(cls, path: str | os.PathLike[str]) -> Self:
        """Returns a reader of a whole file, which is mapped, not loaded."""
        return cls(map_file(path), os.fspath(path))

    def read_header(self) -> None:
        """Sets `binary` by the next bytes: 00 42 (consumed), or any other bytes for text."""
        start = self.data[self.position : self.position + 2]
        self.ran_out |= len(start) < 2
        self.binary = start[:1] == b"\0"
        if self.binary and start != b"\0B":
            raise self.error(ZERO_BYTE)
        self.position += 2 * self.binary

    # Errors and nesting

    def error(self, message: str) -> ModelFormatError:
        """Returns the error to raise about the current position."""
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
        """Counts one more level of nesting within the block. ModelFormatError for too deep nesting."""
        if self._depth >= _MOST_NESTING:
            raise self.error(f"{what} is nested more than {_MOST_NESTING} deep")
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1

    def need(self, count: int, what: str) -> None:
        """Raises unless `count` more bytes are there."""
        if count > self.left:
            raise self.truncated(f"{what} takes {count} bytes, but only {self.left} are left")

    def release(self) -> None:
        """Gives memory of a mapped file, up to the position, back to the system; it can still be read."""
        end = self.position - self.position % mmap.PAGESIZE
        if isinstance(self.data, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED") and end - self._released >= _BLOCK:
            self.data.madvise(mmap.MADV_DONTNEED, self._released, end - self._released)
            self._released = end

    @property
    def left(self) -> int:
        """The number of bytes left."""
        return self._size - self.position

    def truncated(self, message: str) -> ModelFormatError:
        """Returns the error to raise because the data ended too early."""
        self.ran_out = True
        return self.error(f"{message}: the file is cut off or damaged")

    # Tokens and lines

    def _word(self) -> re.Match[bytes]:
        """Returns the next word (group 1, maybe empty), which is not consumed."""
        match = _WORD.match(self.data, self.position)
        assert match is not None, "the pattern matches everything"
        self.ran_out |= match.end() == self._size
        if match.end(1) - match.start(1) > _MOST_TOKEN_BYTES:
            raise self.error_at(match.start(1), f"a token of more than {_MOST_TOKEN_BYTES} bytes")
        return match

    def _consume(self, match: re.Match[bytes]) -> bytes:
        """Moves past a word and the one blank behind it; only text may end without a blank."""
        if match.end() == self._size and self.binary:
            self.position = self._size
            raise self.truncated("the file ends where a blank should follow a token")
        self.position = min(match.end() + 1, self._size)
        return match.group(1)

    def token(self) -> str:
        """Returns the next token."""
        match = self._word()
        if not match.group(1):
            raise self.error_at(match.end(), "expected a token, but the file ends here")
        try:
            return self._consume(match).decode("utf-8")
        except UnicodeDecodeError:
            raise self.error_at(match.start(1), f"expected a token, got {match.group(1)[:20]!r}") from None

    def peek_token(self) -> str:
        """Returns the next token, not consumed; "" at the end of the data."""
        return self._word().group(1).decode("utf-8", "replace")

    def expect(self, *tokens: str) -> str:
        """Returns the next token, required to be in `tokens`."""
        match = self._word()
        word = match.group(1).decode("utf-8", "replace")
        if word not in tokens:
            got = f"got '{word[:60]}'" if word else "the file ends here"
            raise self.error_at(match.start(1), f"expected {' or '.join(tokens)}, {got}")
        self._consume(match)
        return word

    def after(self, token: str) -> Self:
        """Consumes `token`; returns the reader, to read the token's value."""
        self.expect(token)
        return self

    def accept(self, token: str) -> bool:
        """Consumes the next token if it is `token`; returns True on success."""
        match = self._word()
        if match.group(1) != token.encode():
            return False
        self._consume(match)
        return True

    def words(self, count: int) -> list[bytes]:
        """Returns the next `count` tokens of a text at once; for a few thousand small ones."""
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
        """Consumes the match of a pattern; the pattern must be of bounded length and begin with white space."""
        match = pattern.match(self.data, self.position)
        if match is None:
            raise self._not_a(self._word(), expected)
        self.ran_out |= match.end() == self._size
        self.position = match.end()
        return match

    def line(self) -> str:
        """Returns the rest of the line without its end; text in binary files too."""
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
        """Returns the next byte, not consumed; None at the end of the data."""
        self.ran_out |= self.position >= self._size
        return self.data[self.position] if self.position < self._size else None

    def at_end(self) -> bool:
        """Returns True if only white space is left."""
        match = _SPACE.match(self.data, self.position)
        assert match is not None, "the pattern matches everything"
        self.ran_out |= match.end() == self._size
        return match.end() == self._size

    def whole(self, read: Callable[[Self], T]) -> T:
        """Returns what `read` reads. Raises ModelFormatError if anything but white space follows."""
        found = read(self)
        self.finish()
        return found

    def finish(self) -> None:
        """Raises if anything but white space is left."""
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
        """Returns a float32 or float64, whichever stands here; even the latter must be in the range of the former."""
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

    def size(self, what: str) -> int:
        """Returns an int32 that says how large `what` is."""
        start = self.position
        size = self.int32()
        if size < 0:
            raise self.error_at(start, f"{what} cannot have size {size}")
        return size

    def raw_array(self, count: int, dtype: DTypeLike, what: str) -> np.ndarray:
        """Returns `count` raw elements, as a view of the data that must not outlive the call."""
        self.need(count * np.dtype(dtype).itemsize, what)
        array = np.frombuffer(self.data, dtype, count, self.position) if count else np.empty(0, dtype)
        self.position += array.nbytes
        return array
