"""Files and a folder that only this user can write: for code that will be run.

A file is opened first, then checked and read: no second file can take its place in between. A file begins with the
digest of its contents: a file cut short, or appended to, does not count.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_MAGIC = b"nnet3 file with digest 1\n"
_DIGEST_BYTES = 32
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


@contextmanager
def own_folder(path: Path) -> Iterator[int]:
    """Yields the descriptor of a folder, made if it is missing.

    Raises RuntimeError if the folder belongs to another user or others may write there, OSError if no folder can be
    made.
    """
    if os.open not in os.supports_dir_fd:
        raise RuntimeError("this system cannot open files of an open folder")
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fault = _fault(folder)
        if fault:
            raise RuntimeError(f"the folder '{path}' {fault}: make it yours (chown, chmod go-w), or name another")
        yield folder
    finally:
        os.close(folder)


def read_own(folder: int, name: str) -> bytes | None:
    """Returns the contents of a file, None if it is missing, damaged, or another user's work or could be."""
    try:
        opened = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    except OSError:
        return None
    try:
        if _fault(opened) or not stat.S_ISREG(os.fstat(opened).st_mode):
            return None
        with open(opened, "rb", closefd=False) as file:
            found = file.read()
    finally:
        os.close(opened)
    contents = found[len(_MAGIC) + _DIGEST_BYTES :]
    return contents if found == _with_digest(contents) else None


def write_own(folder: int, name: str, contents: bytes) -> None:
    """Writes a file in one step: contents are on the disk before the file has its name. Raises OSError."""
    temporary = f".{name}.{secrets.token_hex(6)}.tmp"
    opened = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=folder)
    try:
        with open(opened, "wb") as file:
            file.write(_with_digest(contents))
            file.flush()
            os.fsync(opened)
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise


@contextmanager
def private_path(contents: bytes) -> Iterator[str]:
    """Yields the path of a file with these contents that nobody else can reach, for functions that want a path.

    The file lies in memory where the system has files in memory. The file stays open: a loader that compares names must
    not mistake the next file with this descriptor for the first.
    """
    if hasattr(os, "memfd_create") and os.path.isdir("/proc/self/fd"):
        in_memory = os.memfd_create("nnet3")
        try:
            with open(in_memory, "wb", closefd=False) as file:
                file.write(contents)
            yield f"/proc/{os.getpid()}/fd/{in_memory}"
        except BaseException:
            os.close(in_memory)
            raise
        return
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "contents"
        path.write_bytes(contents)
        yield str(path)


def _with_digest(contents: bytes) -> bytes:
    return _MAGIC + hashlib.blake2b(contents, digest_size=_DIGEST_BYTES).digest() + contents


def _fault(opened: int) -> str:
    """Returns why an open file or folder may be the work of another user, "" if it cannot be."""
    status = os.fstat(opened)
    if status.st_uid != os.geteuid():
        return "belongs to another user"
    return "can be written by others" if status.st_mode & _WRITABLE_BY_OTHERS else ""
