"""Files, commands and standard input or output behind Kaldi's extended file names.

A command runs only if its name was given by the user or stands in a script file that the user named.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

from nnet3.base.kaldi_io.files import ZERO_BYTE, is_device, is_special, joined, map_file, open_beside, piece_reader
from nnet3.base.kaldi_io.parse_numbers import Buffer
from nnet3.base.kaldi_io.replacing import ARCHIVE, HEAD, check_may_replace, put_in_place
from nnet3.base.kaldi_io.specifiers import FileName
from nnet3.errors import ModelFormatError, Nnet3Error, TableError

_CHUNK = 1 << 16
_LARGEST = 1 << 24  # bytes asked for at once, for which there is room before they come


class InputStream:
    """Reads a command's output, standard input or a named pipe as bytes come. `file`: an unbuffered binary file.

    A thread may close the stream while another waits for more bytes.
    """

    def __init__(self, file: BinaryIO, process: subprocess.Popen[bytes] | None = None):
        self._file, self._process = file, process
        self._read = piece_reader(file)

    def read(self, at_least: int) -> bytes:
        """Returns `at_least` bytes or more, fewer where the stream ends, b"" at its end."""
        pieces: list[bytes] = []
        count = 0
        while not pieces or count < at_least:
            piece = self._read(max(_CHUNK, at_least - count))
            if not piece:
                break
            pieces.append(piece)
            count += len(piece)
        return b"".join(pieces)

    def exactly(self, count: int = -1) -> bytes:
        """Returns `count` bytes, fewer where the stream ends; -1: all bytes up to the end."""
        pieces: list[bytes] = []
        while count and (piece := self._read(_CHUNK if count < 0 else min(count, _LARGEST))):
            pieces.append(piece)
            count -= len(piece) if count > 0 else 0
        return b"".join(pieces)

    def finish(self) -> None:
        """Closes a stream that has been read to its end. Raises TableError if the command failed."""
        if self._file is not _standard_input():
            self._file.close()
        if self._process is not None and self._process.wait() != 0:
            raise TableError(f"the command failed with status {self._process.returncode}")

    def close(self) -> None:
        """Closes the stream, read to its end or not, and ends the command."""
        if self._file is not _standard_input():
            self._file.close()
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait()


def _standard_input() -> BinaryIO:
    """Returns standard input without its buffer.

    A thread that reads would hold the buffer's lock and let the process wait.
    """
    return cast(BinaryIO, getattr(sys.stdin.buffer, "raw", sys.stdin.buffer))


def open_input(name: FileName) -> Buffer | InputStream:
    """Opens a regular file as a memory map, anything else as a stream. TableError if it cannot be opened."""
    if name.kind == "standard":
        return InputStream(_standard_input())
    if name.kind == "pipe":
        process = subprocess.Popen(name.name, shell=True, stdout=subprocess.PIPE, bufsize=0)
        return InputStream(cast(BinaryIO, process.stdout), process)
    try:
        if os.path.isfile(name.name):
            return map_file(name.name) if os.path.getsize(name.name) else b""
        file = cast(BinaryIO, open(name.name, "rb", buffering=0))  # noqa: SIM115
        if is_device(file.fileno()):
            file.close()
            raise TableError(f"{name.name}: this is a device, not a file")
        return InputStream(file)
    except (OSError, ValueError) as error:
        raise TableError(f"cannot read {name.name}: {getattr(error, 'strerror', None) or error}") from None
    except ModelFormatError as error:
        raise TableError(str(error)) from None


def read_whole(name: FileName) -> Buffer:
    """Reads all bytes behind a name; `name.offset` is not skipped yet. ModelFormatError for a stream without end."""
    source = open_input(name)
    if not isinstance(source, InputStream):
        return source
    try:
        first, shown = source.read(2), name.name or "standard input"
        if first[:1] == b"\0" and first[:2] != b"\0B":
            raise ModelFormatError(ZERO_BYTE, shown)
        contents = joined(itertools.chain([first], iter(lambda: source.read(_CHUNK), b"")), shown)
        source.finish()
    finally:
        source.close()
    return contents


class OutputStream:
    """A file, a command's input or standard output.

    A file takes its place when it is complete: until then an old file of the same name can be read, also by us, and
    survives a failure. BrokenPipeError if nobody reads standard output any more.

    With `kept` a file grows in place instead, behind its first `kept` bytes, and written bytes are there at once.
    """

    def __init__(self, name: FileName, kept: int | None = None):
        self.written = kept or 0
        self._grows = kept is not None
        self._process: subprocess.Popen[bytes] | None = None
        self._standard = name.kind == "standard"
        self._name = "standard output" if self._standard else name.name
        self._temporary: Path | None = None  # what is to replace the target
        self._head = b""
        try:
            if self._standard:
                self._file: BinaryIO = cast(BinaryIO, sys.stdout.buffer)
            elif name.kind == "pipe":
                self._process = subprocess.Popen(name.name, shell=True, stdin=subprocess.PIPE)
                self._file = cast(BinaryIO, self._process.stdin)
            elif is_special(name.name):
                self._file = open(name.name, "wb")  # noqa: SIM115
            else:
                self._target = Path(os.path.realpath(name.name))
                if kept is None:
                    self._file, self._temporary = open_beside(self._target)
                else:
                    self._file = cast(BinaryIO, open(self._target, "ab", buffering=0))  # noqa: SIM115
                    self._file.truncate(kept)
        except (OSError, ValueError) as error:
            raise TableError(f"cannot write {name.name}: {getattr(error, 'strerror', None) or error}") from None

    def write(self, contents: bytes) -> None:
        if self._temporary is not None and len(self._head) < HEAD:
            self._head += bytes(contents[:HEAD])
            if len(self._head) >= HEAD:  # now, not after hours
                self._check_may_replace()
        with self._naming_failures():
            left = memoryview(contents)
            while left:  # an unbuffered standard output writes only what there is room for
                left = left[self._file.write(left) :]
        self.written += len(contents)

    def flush(self) -> None:
        with self._naming_failures():
            self._file.flush()

    @property
    def is_file(self) -> bool:
        """True for a file, named only when complete, unless it grows in place."""
        return self._temporary is not None or self._grows

    @property
    def replaces(self) -> bool:
        """True if the output is to replace an old file."""
        return self._temporary is not None and self._target.exists()

    def close(self, suffix: str = "", size: int | None = None) -> None:
        """Ends the output; TableError if the command fed with the output failed.

        A file gets its name, or the name with `suffix`; with `size` everything written beyond it is cut off.
        """
        if self._temporary is not None:
            if size is not None:
                with self._naming_failures():
                    self._file.truncate(size)
            self._target = self._target.with_name(self._target.name + suffix)
        if self._standard:
            self.flush()
        elif not self._file.closed:
            self._close_file()

    def discard(self) -> None:
        """Gives up after an error, and removes the incomplete file."""
        self._remove_temporary()
        with contextlib.suppress(TableError, BrokenPipeError):
            self.close()

    def _close_file(self) -> None:
        try:
            with self._naming_failures():
                self._file.close()
                if self._temporary is not None:
                    self._check_may_replace()
                    put_in_place(self._temporary, self._target, ARCHIVE)
                    self._temporary = None
        finally:
            self._remove_temporary()
            status = self._process.wait() if self._process is not None else 0
        if status:
            raise TableError(f"the command failed with status {status}")

    def check_archive(self) -> None:
        """Raises TableError, and gives up, if an archive may not replace the old file, if any."""
        if self._temporary is not None:
            try:
                self._check_may_replace()
            except TableError:
                self.discard()
                raise

    def _check_may_replace(self) -> None:
        try:
            check_may_replace(self._target, self._head[:HEAD], ARCHIVE)
        except Nnet3Error as error:
            raise TableError(str(error)) from None

    def _remove_temporary(self) -> None:
        if self._temporary is not None:
            self._temporary.unlink(missing_ok=True)
            self._temporary = None

    @contextlib.contextmanager
    def _naming_failures(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if self._standard and isinstance(error, BrokenPipeError):
                raise
            raise TableError(f"cannot write {self._name}: {error.strerror}") from None
