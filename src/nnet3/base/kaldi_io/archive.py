"""Reads the entries of tables: out of archives, and out of the files that script files name.

They are read with our own Reader, since kaldi_native_io crashes on damaged archives.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

from nnet3.base.kaldi_io import files
from nnet3.base.kaldi_io.parse_numbers import Buffer
from nnet3.base.kaldi_io.reader import Reader
from nnet3.base.kaldi_io.script import ScriptEntry, cut
from nnet3.base.kaldi_io.specifiers import parse_rxfilename
from nnet3.base.kaldi_io.streams import InputStream, open_input
from nnet3.base.text import other_format
from nnet3.errors import ModelFormatError, TableError

T = TypeVar("T")
# The end of a text entry that cannot be read: behind its brackets, or before the likely begin of the next one; behind
# the blank line of an FST, whose arcs begin on the line behind the key; or behind its line.
_END_OF_BRACKETS = re.compile(rb"\][ \t]*(?:\n|\Z)|\n(?=\S+[ \t]+\[)")
_ARC = re.compile(rb"[ \t]*\n\d+[ \t]+\d+[ \t]+\S")
_END_OF_FST = re.compile(rb"\n[ \t]*\n")
_END_OF_LINE = re.compile(rb"\n")
_KEY = re.compile(rb"\s*(\S{1,4096})(?=[ \t\n])[ \t]?")
_LONGEST_KEY = 4096
_MOST_BEHIND = 1 << 20  # bytes of a stream that may follow an object


def _end_of_text(data: Buffer, start: int) -> re.Pattern[bytes]:
    """Returns the pattern of the end of the text entry whose object begins at `start`."""
    if data[start : start + 100].lstrip(b" \t").startswith(b"["):
        return _END_OF_BRACKETS
    return _END_OF_FST if _ARC.match(data, start) else _END_OF_LINE


@contextlib.contextmanager
def naming(specifier: str) -> Iterator[None]:
    """Puts the specifier in front of the message of a TableError."""
    try:
        yield
    except TableError as error:
        raise TableError(f"{specifier}: {error}") from None


class Extent(NamedTuple):
    """The bytes of a file in which an entry lies, key included: from `start` up to `end`."""

    path: str
    start: int
    end: int


def read_entry(reader: Reader, read: Callable[[Reader], T]) -> tuple[str, T]:
    """Returns the key and the object of the entry at the reader's position, with a header if it is binary."""
    key = _key(reader)
    reader.read_header()
    return key, read(reader)


def _key(reader: Reader) -> str:
    match = reader.match(_KEY, "a key with a blank behind it")
    return match.group(1).decode("utf-8", "surrogateescape")


class Archive:
    """Consecutive entries, out of a buffer that a stream may refill."""

    def __init__(self, name: str, header: bool = True):
        """`header`: binary entries begin with 00 42."""
        file = parse_rxfilename(name)
        source = open_input(file)
        self._stream = source if isinstance(source, InputStream) else None
        data = b"" if isinstance(source, InputStream) else source
        other = "this is one object, such as a model" if data[:2] == b"\0B" else other_format(data)
        if other:
            raise TableError(f"{file.name}: {other}, not an archive, which has a key before each object")
        self._name = file.name
        self._reader = Reader(data, self._name, binary=False)
        self._reader.position = min(file.offset, len(data))
        self._is_refilled = False
        self._has_headers = header
        self.key = ""
        self.extent: Extent | None = None  # of the last entry, in a file

    def next(self, read: Callable[[Reader], T]) -> tuple[str, T] | None:
        """Returns the next entry; None at the end. What a stream cuts off is read again when more of it has come."""
        while True:
            start = self._reader.position
            self._reader.ran_out = self._reader.binary = False
            try:
                entry = self._entry(read)
            except ModelFormatError as error:
                if self._reader.ran_out and self._refill(start):
                    continue
                self._reader.position = start
                # Positions in the buffer of a stream mean nothing to the user
                raise TableError(
                    f"the entry '{self.key:.80}': {error.message if self._is_refilled else error}"
                ) from None
            if not (self._reader.ran_out and self._refill(start)):
                if self._stream is None and not self._is_refilled:
                    self.extent = Extent(self._name, start, self._reader.position)
                self._reader.release()
                return entry

    def skip(self, begins: str = "") -> bool:
        """Skips an unreadable entry; returns False if the entry's end cannot be found.

        The end can be found for entries in text, and for all entries if objects begin with the token `begins`; never
        for entries of other programs, without headers.
        """
        if begins:
            self._go_to_next(begins.encode())
            return True
        match = (
            None
            if self._reader.binary or not self._has_headers
            else _KEY.match(self._reader.data, self._reader.position)
        )
        if match is None:
            return False
        behind_key = match.end() - self._reader.position
        while True:
            start = self._reader.position + behind_key
            end = _end_of_text(self._reader.data, start).search(self._reader.data, start)
            if end is not None and end.end() < len(self._reader.data):
                self._reader.position = end.end()
                return True
            if not self._refill(self._reader.position):
                self._reader.position = len(self._reader.data)
                return True

    def _go_to_next(self, token: bytes) -> None:
        """Goes to the next key behind which an object begins with `token`, or to the end."""
        marks = re.compile(rb"[ \t](?:\0B)?" + re.escape(token) + rb"\s")
        own_key = _KEY.match(self._reader.data, self._reader.position)
        start = max(own_key.end() if own_key else 0, self._reader.position + 1)
        while True:
            data = self._reader.data
            match = marks.search(data, start)
            if match is not None:
                words = data[max(start, match.start() - _LONGEST_KEY) : match.start()].split(b" ")[-1].split()
                self._reader.position = match.start() - len(words[-1] if words else b"")
                return
            kept = max(start, len(data) - _LONGEST_KEY - len(token) - 5)
            if not self._refill(kept):
                self._reader.position = len(data)
                return
            start = 0

    def _entry(self, read: Callable[[Reader], T]) -> tuple[str, T] | None:
        self.key = ""
        if self._reader.at_end():
            return None
        self.key = _key(self._reader)
        if self._has_headers:
            self._reader.read_header()
        return self.key, read(self._reader)

    def _refill(self, start: int) -> bool:
        """Reads on in the stream, behind the data from `start` on; returns False at its end.

        TableError if more is held than may be: of the data behind `start` no entry ends.
        """
        if self._stream is None:
            return False
        rest = self._reader.data[start:]
        if len(rest) > files.MOST_OF_STREAM:
            raise TableError(f"the entry '{self.key}' does not end within {files.MOST_OF_STREAM} bytes of a stream")
        more = self._stream.read(len(rest))  # at least twice as much, lest long entries be read over and over
        if not more:
            stream, self._stream = self._stream, None
            stream.finish()
            return False
        self._reader = Reader(rest + more, self._name, binary=False)
        self._is_refilled = True
        return True

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()


class ScriptObjects:
    """Reads the objects named by lines of a script; keeps the file of the last object open."""

    def __init__(self, header: bool = True) -> None:
        """`header`: binary objects begin with 00 42."""
        self._has_headers = header
        self._last: tuple[str, Buffer] = ("", b"")

    def load(self, entry: ScriptEntry, read: Callable[[Reader], T]) -> T:
        try:
            file = parse_rxfilename(entry.name)
            if file.kind != "file" or self._last[0] != file.name:
                source = open_input(file)
                if isinstance(source, InputStream):
                    value = self._of_stream(source, file.name, read)
                    return cut(value, entry.range) if entry.range else value  # type: ignore[return-value]
                self._last = (file.name, source)
            data = self._last[1]
            if file.offset >= len(data):
                raise TableError(f"{file.name}: there is nothing at position {file.offset} of {len(data)} bytes")
            value = self._read(Reader(data, file.name, binary=not self._has_headers), file.offset, read)
            return cut(value, entry.range) if entry.range else value  # type: ignore[return-value]
        except (ModelFormatError, TableError) as error:
            raise TableError(f"the entry '{entry.key}': {error}") from None

    def _read(self, reader: Reader, position: int, read: Callable[[Reader], T]) -> T:
        reader.position = position
        if self._has_headers:
            reader.read_header()
        return read(reader)

    def _of_stream(self, stream: InputStream, name: str, read: Callable[[Reader], T]) -> T:
        """Reads an object of a stream, of which no more is held than the object needs: it may have no end."""
        with contextlib.closing(stream):
            data = stream.read(2)
            if not data:
                stream.finish()
                raise TableError(f"{name}: there is nothing at position 0 of 0 bytes")
            while True:
                found, error = list[T](), None
                reader = Reader(data, name, binary=not self._has_headers)
                try:
                    found.append(self._read(reader, 0, read))
                except ModelFormatError as what_is_wrong:
                    error = what_is_wrong
                if not reader.ran_out or not (more := stream.read(len(data))):
                    break
                data += more
                if len(data) > files.MOST_OF_STREAM:
                    raise TableError(f"{name}: the first object does not end within {files.MOST_OF_STREAM} bytes")
            if error is not None and not reader.ran_out:
                raise error
            if len(stream.exactly(_MOST_BEHIND)) == _MOST_BEHIND:
                raise TableError(f"{name}: {_MOST_BEHIND} bytes and more follow the first object")
            stream.finish()
            if error is not None:
                raise error
            return found[0]
