"""Writes tables; an archive with a script can be resumed where it ended."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from nnet3.base.kaldi_io.archive import naming
from nnet3.base.kaldi_io.reader import Reader
from nnet3.base.kaldi_io.script import read_script
from nnet3.base.kaldi_io.specifiers import parse_rxfilename, parse_wspecifier, parse_wxfilename
from nnet3.base.kaldi_io.streams import OutputStream
from nnet3.base.kaldi_io.writer import Writer
from nnet3.base.text import is_word
from nnet3.errors import ModelFormatError, TableError

T = TypeVar("T")
PARTIAL = ".partial"
_BLOCK = 1 << 24


@dataclass(frozen=True)
class Finished:
    """The first `size` bytes of the file `archive`, and the positions of the entries in them by key."""

    archive: str = ""
    size: int = 0
    positions: dict[str, int] | None = None

    @property
    def keys(self) -> set[str]:
        return set(self.positions or {})


class TableWriter(Generic[T]):
    """Writes objects with `write`, a function such as `Writer.matrix`.

    `text_only` is for objects without a binary form, `header=False` for objects without the header 00 42 in tables.
    With `finished`, the result of `finished_entries`, the entries found there stay, and new entries follow. If the
    table `grows`, entries are in the files as soon as they are written: a killed process loses only the entry in hand.
    """

    def __init__(
        self,
        wspecifier: str,
        write: Callable[[Writer, T], None],
        text_only: bool = False,
        finished: Finished | None = None,
        header: bool = True,
        grows: bool = False,
    ):
        self.count = 0  # of entries written
        self.specifier = parse_wspecifier(wspecifier)
        self._write = write
        self._binary = self.specifier.binary and not text_only
        self._header = header
        self._archive: OutputStream | None = None
        self._script: OutputStream | None = None
        self._names: dict[str, str] = {}
        self._positions: list[tuple[str, int]] = []  # of the entries of the archive, for the script
        self._complete = 0  # bytes of the archive that are whole entries
        self._has_failed = False
        self._resumed = finished is not None
        with naming(wspecifier):
            if self.specifier.archive is None:
                self._names = {entry.key: entry.name for entry in read_script(self.specifier.script or "")}
                return
            archive = parse_wxfilename(self.specifier.archive)
            if self.specifier.script is not None and archive.kind != "file":
                raise TableError("a script can only point into an archive that is a file")
            known = finished or Finished()
            self._archive = OutputStream(archive, known.size if grows else None)
            self._archive.check_archive()
            if self.specifier.script is not None:
                try:
                    lines = os.path.getsize(self.specifier.script) if grows and known.positions else 0
                    self._script = OutputStream(parse_wxfilename(self.specifier.script), lines if grows else None)
                except TableError:
                    self.discard()
                    raise
            if grows:
                self._positions = list((known.positions or {}).items())
            elif finished is not None:
                self._take_over(finished)

    def _take_over(self, finished: Finished) -> None:
        """Begins with the entries of the old files."""
        if finished.positions is None or self._archive is None:
            return
        with open(finished.archive, "rb") as file:
            for start in range(0, finished.size, _BLOCK):
                self._archive.write(file.read(min(_BLOCK, finished.size - start)))
        self._complete = self._archive.written
        for key, position in finished.positions.items():
            self._write_position(key, position)

    def write(self, key: str, value: T) -> None:
        """Adds an entry. ModelFormatError for a value without a form in files, of which nothing is written.

        After a failed entry no further entry can be written: TableError.
        """
        if not is_word(key):
            raise TableError(f"{self.specifier.text}: '{key}' cannot be a key, which is a word without blanks")
        if self._has_failed:
            raise TableError(f"{self.specifier.text}: an entry before '{key}' could not be written")
        writer = Writer(self._binary)
        if self._header:
            writer.header()
        try:
            self._write(writer, value)
        except ModelFormatError as error:
            raise ModelFormatError(error.message, f"{self.specifier.text}: the entry '{key}'") from None
        with naming(self.specifier.text):
            if self._archive is None:
                self._write_by_script(key, writer)
                self.count += 1
                return
            self._has_failed = True
            self._archive.write(key.encode("utf-8", "surrogateescape") + b" ")
            position = self._archive.written
            self._archive.write(writer.getvalue())
            self._complete = self._archive.written
            self._write_position(key, position)
            if self.specifier.flush:
                self.flush()
        self._has_failed = False
        self.count += 1

    def _write_position(self, key: str, position: int, suffix: str = "") -> None:
        if self._script is not None:
            self._positions.append((key, position))
            line = f"{key} {self.specifier.archive}{suffix}:{position}\n"
            self._script.write(line.encode("utf-8", "surrogateescape"))

    def _write_by_script(self, key: str, writer: Writer) -> None:
        name = self._names.get(key)
        if name is None and not self.specifier.permissive:
            raise TableError(f"the script names no file for the key '{key}'")
        if name is not None:
            file = OutputStream(parse_wxfilename(name))
            file.write(writer.getvalue())
            file.close()

    def flush(self) -> None:
        for stream in (self._archive, self._script):
            if stream is not None:
                stream.flush()

    def close(self) -> None:
        """Ends the table; TableError if a command that was written to failed."""
        with self._all_or_none():
            for stream in (self._archive, self._script):
                if stream is not None:
                    stream.close()

    @property
    def makes_files(self) -> bool:
        """True if entries go to files, and not to standard output or a command, from where none comes back."""
        return self._archive is None or self._archive.is_file

    def keep(self) -> str:
        """Keeps the entries written, although the table is incomplete; returns the name of the file.

        An old file of the same name, which may be complete, stays: the new file gets a name that ends in `.partial`. A
        resumed table has all entries of the old file, and replaces the old file.
        """
        streams = [stream for stream in (self._archive, self._script) if stream is not None]
        suffix = PARTIAL if not self._resumed and any(stream.replaces for stream in streams) else ""
        with self._all_or_none():
            if self._archive is not None:
                self._archive.close(suffix, self._complete)
            if self._script is not None and self._script.is_file:
                self._script.discard()  # it may end in half a line, and the archive may have got another name
                self._script = OutputStream(parse_wxfilename(f"{self.specifier.script}{suffix}"))
                positions, self._positions = self._positions, []
                for key, position in positions:
                    self._write_position(key, position, suffix)
            if self._script is not None:
                self._script.close()
        return f"{self.specifier.archive or self.specifier.text}{suffix}"

    @contextlib.contextmanager
    def _all_or_none(self) -> Iterator[None]:
        """Names the table in an error, after which neither archive nor script is open or left behind half-written."""
        try:
            with naming(self.specifier.text):
                yield
        except BaseException:
            self.discard()
            raise

    def discard(self) -> None:
        """Gives up after an error, and removes an archive or script that is a file."""
        for stream in (self._archive, self._script):
            if stream is not None:
                stream.discard()

    def __enter__(self) -> TableWriter[T]:
        return self

    def __exit__(self, kind: type[BaseException] | None, *exception: object) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()


def finished_entries(wspecifier: str, read: Callable[[Reader], Any]) -> Finished:
    """Finds the entries in an `ark,scp:` wspecifier's files, by its script; none without files.

    Raises TableError for another wspecifier, or if script and archive do not belong together.
    """
    specifier = parse_wspecifier(wspecifier)
    if specifier.archive is None or specifier.script is None:
        raise TableError(f"{wspecifier}: only an archive with a script can be resumed: ark,scp:out.ark,out.scp")
    if not (os.path.isfile(specifier.archive) and os.path.isfile(specifier.script)):
        return Finished()
    positions: dict[str, int] = {}
    for entry in read_script(specifier.script):
        file = parse_rxfilename(entry.name)
        if file.kind != "file" or file.name != specifier.archive or entry.range:
            raise TableError(
                f"{wspecifier}: cannot resume, since the script says '{entry.key} {entry.name}', which is not in that "
                "archive: remove both files to begin again"
            )
        positions[entry.key] = file.offset
    if not positions:
        return Finished()
    return Finished(specifier.archive, _end_of(wspecifier, specifier.archive, max(positions.values()), read), positions)


def _end_of(wspecifier: str, archive: str, position: int, read: Callable[[Reader], Any]) -> int:
    """Returns the position behind the object at a position."""
    try:
        reader = Reader.open(archive)
        reader.position = position
        reader.binary = False
        reader.read_header()
        read(reader)
    except ModelFormatError as error:
        raise TableError(f"{wspecifier}: cannot resume, {error}: remove both files to begin again") from None
    return reader.position
