"""Writing tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

from nnet3.errors import TableError
from nnet3.kaldi_io.archive import naming
from nnet3.kaldi_io.resume import Finished
from nnet3.kaldi_io.script import read_script
from nnet3.kaldi_io.specifiers import parse_wspecifier, parse_wxfilename
from nnet3.kaldi_io.streams import OutputStream
from nnet3.kaldi_io.writer import Writer

if TYPE_CHECKING:
    from typing_extensions import Self

T = TypeVar("T")
PARTIAL = ".partial"
_BLOCK = 1 << 24


class TableWriter(Generic[T]):
    """Writes objects with `write`, a function such as `Writer.matrix`. `text_only` is for what has no binary form,
    `header=False` for what stands in tables without the header 00 42.

    With `finished`, what `finished_entries` has found, the entries that are there stay, and new ones follow them.
    """

    def __init__(
        self,
        wspecifier: str,
        write: Callable[[Writer, T], None],
        text_only: bool = False,
        finished: Finished | None = None,
        header: bool = True,
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
        self._resumed = finished is not None
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
            if finished is not None:
                self._take_over(finished)

    def _take_over(self, finished: Finished) -> None:
        """Begin with the entries that are there."""
        if finished.positions is None or self._archive is None:
            return
        with open(finished.archive, "rb") as file:
            for start in range(0, finished.size, _BLOCK):
                self._archive.write(file.read(min(_BLOCK, finished.size - start)))
        self._complete = self._archive.written
        for key, position in finished.positions.items():
            self._write_position(key, position)

    def write(self, key: str, value: T) -> None:
        """Add an entry."""
        if key.split() != [key]:
            raise TableError(f"{self.specifier.text}: '{key}' cannot be a key, which is a word without blanks")
        writer = Writer(self._binary)
        if self._header:
            writer.header()
        self._write(writer, value)
        with naming(self.specifier.text):
            if self._archive is None:
                self._write_by_script(key, writer)
                self.count += 1
                return
            self._archive.write(key.encode("utf-8", "surrogateescape") + b" ")
            position = self._archive.written
            self._archive.write(writer.getvalue())
            self._complete = self._archive.written
            self._write_position(key, position)
            if self.specifier.flush:
                self.flush()
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
        """Finish; TableError if a command that was written to failed."""
        with naming(self.specifier.text):
            for stream in (self._archive, self._script):
                if stream is not None:
                    stream.close()

    @property
    def makes_files(self) -> bool:
        """Whether entries go to files, not to standard output or a command: from there they cannot be called back."""
        return self._archive is None or self._archive.is_file

    def keep(self) -> str:
        """Finish before all was written: what was is kept; returns under which name.

        It does not replace a file that is there, which may be complete, but gets a name beside it that ends in
        `.partial`. When it goes on from what was there it has all of that and takes its place.
        """
        streams = [stream for stream in (self._archive, self._script) if stream is not None]
        suffix = PARTIAL if not self._resumed and any(stream.replaces for stream in streams) else ""
        with naming(self.specifier.text):
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
