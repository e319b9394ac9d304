"""Files as bytes: mapped for reading, replaced in one step when written."""

from __future__ import annotations

import io
import mmap
import os
import secrets
import select
import stat
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from nnet3.base.kaldi_io.replacing import check_file_may_replace, expect_output, put_in_place
from nnet3.errors import ArgumentError, ModelFormatError, Nnet3Error

#: So many bytes, at most, are held of what is no file, and may have no end, and of what a packed file unpacks to.
MOST_OF_STREAM = 1 << 30
_CHUNK = 1 << 16
_MOMENT = 500  # milliseconds after which a wait looks for signals
ZERO_BYTE = "this begins with a zero byte, but not with the header 00 42 of Kaldi's binary files"


def check_is_path(path: object, what: str) -> None:
    """Raises ArgumentError, with a hint, for something that is no path."""
    if isinstance(path, os.PathLike) or (isinstance(path, str) and path):
        return
    shown = repr(path) if len(repr(path)) < 80 else f"a {type(path).__name__}"
    already = "; this has been loaded already" if type(path).__name__ in ("Nnet", "AcousticModel") else ""
    raise ArgumentError(f"the path of {what} is needed, got {shown}{already}")


def map_file(path: str | os.PathLike[str]) -> bytes | mmap.mmap:
    """Maps the contents of a file into memory; reads a pipe whole. ModelFormatError if the file is missing or empty."""
    contents = contents_of(path)
    if len(contents) == 0:
        raise ModelFormatError("this file is empty", os.fspath(path))
    return contents


def contents_of(path: str | os.PathLike[str]) -> bytes | mmap.mmap:
    """Returns a file as `map_file` does, and b"" for an empty one."""
    check_is_path(path, "a file to read")
    try:
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                return read_stream(file)
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if status.st_size else b""
    except (OSError, ValueError) as error:
        inside = (os.path.join(path, name) for name in ("final.mdl", "am/final.mdl"))
        hint = next((f": give {name}" for name in inside if os.path.isfile(name)), "")
        raise ModelFormatError(f"cannot read this file: {reason_of(error)}{hint}", os.fspath(path)) from None


class WatchedFile:
    """A file whose contents are mapped: nothing read from the map can be trusted after the file was written to."""

    def __init__(self, path: str):
        """Raises OSError for a missing file."""
        self._path, self._descriptor = path, os.open(path, os.O_RDONLY)
        weakref.finalize(self, os.close, self._descriptor)
        self._state = self._now()

    def check(self) -> None:
        """Raises ModelFormatError if the file was written to; another file of its name changes nothing."""
        if self._now() != self._state:
            raise ModelFormatError(
                "this file was written to while it was in use: put a new file in its place, and load it again",
                self._path,
            )

    def _now(self) -> tuple[int, int]:
        status = os.fstat(self._descriptor)
        return status.st_size, status.st_mtime_ns


def is_device(descriptor: int) -> bool:
    """Returns True for an open device such as /dev/zero, but not for a terminal or /dev/null."""
    status = os.fstat(descriptor)
    is_harmless = os.isatty(descriptor) or status.st_rdev == os.stat(os.devnull).st_rdev
    return stat.S_ISCHR(status.st_mode) and not is_harmless


def piece_reader(file: BinaryIO) -> Callable[[int], bytes]:
    """Returns a function that reads a stream's bytes as they come, at most a given number at once.

    A signal just before the system's read begins does not end the read. Therefore no read starts before bytes have
    come, and the wait for bytes is made of short waits.
    """
    if hasattr(file, "read1"):  # its buffer may hold bytes
        return file.read1
    try:
        poll = select.poll()
        poll.register(file.fileno(), select.POLLIN)
    except (AttributeError, OSError):  # a system without poll, or no file of the system
        return file.read

    def read(most: int) -> bytes:
        while not poll.poll(_MOMENT):
            pass
        return file.read(most)

    return read


def read_stream(file: io.BufferedReader) -> bytes:
    """Reads to the end of what is no regular file. ModelFormatError for a device, for zeros out of a pipe, and for more
    bytes than are held."""
    if is_device(file.fileno()):
        raise ModelFormatError("this is a device, not a file", str(file.name))
    read = piece_reader(file.raw)  # type: ignore[arg-type]
    first = read(1)
    second = read(1)
    if first == b"\0" and second != b"B":
        raise ModelFormatError(ZERO_BYTE, str(file.name))
    return first + second + joined(iter(lambda: read(_CHUNK), b""), str(file.name))


def joined(pieces: Iterable[bytes], source: str, instead: str = "name a file instead") -> bytes:
    """Returns the bytes of a stream from its pieces. ModelFormatError for more bytes than are held."""
    left = MOST_OF_STREAM
    kept = []
    for piece in pieces:
        left -= len(piece)
        if left < 0:
            message = f"this does not end within {MOST_OF_STREAM} bytes: if it is to be longer, {instead}"
            raise ModelFormatError(message, source)
        kept.append(piece)
    return b"".join(kept)


def write_atomically(path: str | os.PathLike[str], contents: bytes | Iterable[bytes]) -> None:
    """Replaces the file by `contents` in one step: nobody ever sees half a file, and a failure leaves the old one.

    A file of another kind is not replaced (`replacing.py`). Symbolic links are followed;
    what is not a regular file (/dev/stdout) is written to directly.
    """
    with replaced_at_end(path, contents):
        pass


@contextmanager
def replaced_at_end(path: str | os.PathLike[str], contents: bytes | Iterable[bytes]) -> Iterator[None]:
    """Writes `contents` beside the file at once, and lets them replace the file, as `write_atomically` does, at the end
    of the block; an error in the block leaves the old file."""
    check_is_path(path, "the file to write")
    chunks = [contents] if isinstance(contents, bytes) else contents
    if is_special(path):
        with _naming(path), open(path, "wb") as file:
            file.writelines(chunks)
        yield
        return
    with _naming(path):
        target = Path(os.path.realpath(path))
        temporary = _written_beside(target, chunks)
    try:
        yield
        with _naming(path):
            put_in_place(temporary, target)
            _make_durable(target.parent)
    finally:
        temporary.unlink(missing_ok=True)


def check_can_write(path: str | os.PathLike[str], kind: str) -> None:
    """Raises Nnet3Error now if `write_atomically` could not write a file of a kind of `replacing.py` here later."""
    with _naming(path):
        if is_special(path):
            open(path, "ab").close()
            return
        target = Path(os.path.realpath(path))
        file, temporary = open_beside(target)
        file.close()
        temporary.unlink()
        expect_output(target, kind)


def is_special(path: str | os.PathLike[str]) -> bool:
    """Returns True for the path of an object that no file can replace, such as /dev/stdout or a pipe."""
    return os.path.exists(path) and not os.path.isfile(path)


def open_beside(target: Path) -> tuple[BinaryIO, Path]:
    """Returns a new file in the folder of `target`, to replace `target` later, and its path.

    Where a file is replaced, no other user can read the new file until it is complete.
    """
    temporary = target.with_name(f".{target.name[:100]}.{secrets.token_hex(6)}.tmp")
    mode = 0o600 if target.exists() else 0o666
    return open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb"), temporary


def _written_beside(target: Path, chunks: Iterable[bytes]) -> Path:
    """Returns the path of a complete file that may replace `target`."""
    file, temporary = open_beside(target)
    try:
        with file:
            file.writelines(chunks)
            file.flush()
            os.fsync(file.fileno())
        check_file_may_replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return temporary


def _make_durable(folder: Path) -> None:
    """Waits until the disk has the names in a folder."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turns failures to write a file into Nnet3Error."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise Nnet3Error(f"{os.fspath(path)}: cannot write this file: {reason_of(error)}") from None


def reason_of(error: Exception) -> str:
    """Returns the system's words for an error, or the error's own text."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
