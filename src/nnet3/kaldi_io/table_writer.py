"""Writing tables (formats.md, section 10.3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

from nnet3.errors import TableError
from nnet3.kaldi_io.archive import naming
from nnet3.kaldi_io.script import read_script
from nnet3.kaldi_io.specifiers import parse_wspecifier, parse_wxfilename
from nnet3.kaldi_io.streams import OutputStream
from nnet3.kaldi_io.writer import Writer

if TYPE_CHECKING:
    from typing_extensions import Self

T = TypeVar("T")


class TableWriter(Generic[T]):
    """Writes objects with `write`, a function such as `Writer.matrix`. `text_only` is for what has no binary form."""

    def __init__(self, wspecifier: str, write: Callable[[Writer, T], None], text_only: bool = False):
        self.specifier = parse_wspecifier(wspecifier)
        self._write = write
        self._binary = self.specifier.binary and not text_only
        self._archive: OutputStream | None = None
        self._script: OutputStream | None = None
        self._names: dict[str, str] = {}
        with naming(wspecifier):
            if self.specifier.archive is None:
                self._names = {entry.key: entry.name for entry in read_script(self.specifier.script or "")}
                return
            archive = parse_wxfilename(self.specifier.archive)
            if self.specifier.script is not None and archive.kind != "file":
                raise TableError("a script can only point into an archive that is a file")
            self._archive = OutputStream(archive)
            if self.specifier.script is not None:
                try:
                    self._script = OutputStream(parse_wxfilename(self.specifier.script))
                except TableError:
                    self.discard()
                    raise

    def write(self, key: str, value: T) -> None:
        """Add an entry."""
        if key.split() != [key]:
            raise TableError(f"{self.specifier.text}: '{key}' cannot be a key, which is a word without blanks")
        writer = Writer(self._binary)
        writer.header()
        self._write(writer, value)
        with naming(self.specifier.text):
            if self._archive is None:
                self._write_by_script(key, writer)
                return
            self._archive.write(key.encode("utf-8", "surrogateescape") + b" ")
            position = self._archive.written
            self._archive.write(writer.getvalue())
            if self._script is not None:
                line = f"{key} {self.specifier.archive}:{position}\n"
                self._script.write(line.encode("utf-8", "surrogateescape"))
            if self.specifier.flush:
                self.flush()

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
        """Finish; TableError if a command that was written to failed."""
        with naming(self.specifier.text):
            for stream in (self._archive, self._script):
                if stream is not None:
                    stream.close()

    def discard(self) -> None:
        """Give up after an error: an archive or script that is a file is removed."""
        for stream in (self._archive, self._script):
            if stream is not None:
                stream.discard()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *exception: object) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()
