"""Files, commands and standard input or output behind Kaldi's extended file names (formats.md, section 11).

A command runs only if its name was given by the user or stands in a script file that the user named.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from typing import BinaryIO, cast

from nnet3.errors import ModelFormatError, TableError
from nnet3.kaldi_io.files import map_file
from nnet3.kaldi_io.parse_numbers import Buffer
from nnet3.kaldi_io.specifiers import FileName

_CHUNK = 1 << 16


class InputStream:
    """A command's output, standard input or a named pipe, read as it comes."""

    def __init__(self, file: BinaryIO, process: subprocess.Popen[bytes] | None = None):
        self._file, self._process = file, process

    def read(self, at_least: int) -> bytes:
        """Some bytes, at least so many unless the stream ends; b"" at the end."""
        pieces: list[bytes] = []
        count = 0
        while not pieces or count < at_least:
            piece = self._file.read1(max(_CHUNK, at_least - count))  # type: ignore[attr-defined]
            if not piece:
                break
            pieces.append(piece)
            count += len(piece)
        return b"".join(pieces)

    def finish(self) -> None:
        """Called at the end of the stream: TableError if the command failed."""
        if self._file is not sys.stdin.buffer:
            self._file.close()
        if self._process is not None and self._process.wait() != 0:
            raise TableError(f"the command failed with status {self._process.returncode}")

    def close(self) -> None:
        """Give up on the rest."""
        if self._file is not sys.stdin.buffer:
            self._file.close()
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait()


def open_input(name: FileName) -> Buffer | InputStream:
    """A regular file as a map of it, anything else as a stream. TableError if it cannot be opened."""
    if name.kind == "standard":
        return InputStream(cast(BinaryIO, sys.stdin.buffer))
    if name.kind == "pipe":
        process = subprocess.Popen(name.name, shell=True, stdout=subprocess.PIPE)
        return InputStream(cast(BinaryIO, process.stdout), process)
    try:
        if os.path.isfile(name.name):
            return map_file(name.name) if os.path.getsize(name.name) else b""
        return InputStream(cast(BinaryIO, open(name.name, "rb")))
    except (OSError, ValueError) as error:
        raise TableError(f"cannot read {name.name}: {getattr(error, 'strerror', None) or error}") from None
    except ModelFormatError as error:
        raise TableError(str(error)) from None


def read_whole(name: FileName) -> Buffer:
    """All bytes behind a name, of which `name.offset` is not yet skipped."""
    source = open_input(name)
    if not isinstance(source, InputStream):
        return source
    try:
        pieces = list(iter(lambda: source.read(_CHUNK), b""))
        source.finish()
    finally:
        source.close()
    return b"".join(pieces)


class OutputStream:
    """A file, a command's input or standard output."""

    def __init__(self, name: FileName):
        self.written = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._standard = name.kind == "standard"
        self._path = name.name if name.kind == "file" else None
        try:
            if self._standard:
                self._file: BinaryIO = cast(BinaryIO, sys.stdout.buffer)
            elif name.kind == "pipe":
                self._process = subprocess.Popen(name.name, shell=True, stdin=subprocess.PIPE)
                self._file = cast(BinaryIO, self._process.stdin)
            else:
                self._file = open(name.name, "wb")  # noqa: SIM115
        except (OSError, ValueError) as error:
            raise TableError(f"cannot write {name.name}: {getattr(error, 'strerror', None) or error}") from None

    def write(self, contents: bytes) -> None:
        try:
            self._file.write(contents)
        except OSError as error:
            raise TableError(f"cannot write: {error.strerror}") from None
        self.written += len(contents)

    def flush(self) -> None:
        try:
            self._file.flush()
        except OSError as error:
            raise TableError(f"cannot write: {error.strerror}") from None

    def close(self) -> None:
        """Finish writing; TableError if the command that was written to failed."""
        if self._standard:
            self.flush()
        elif not self._file.closed:
            self._close_file()

    def discard(self) -> None:
        """Give up after an error: a file is removed, as it is not all that it should be."""
        with contextlib.suppress(TableError):
            self.close()
        if self._path is not None and os.path.isfile(self._path):  # not /dev/null
            with contextlib.suppress(OSError):
                os.unlink(os.path.realpath(self._path))

    def _close_file(self) -> None:
        try:
            self._file.close()
        except OSError as error:
            raise TableError(f"cannot write: {error.strerror}") from None
        finally:
            status = self._process.wait() if self._process is not None else 0
        if status:
            raise TableError(f"the command failed with status {status}")
