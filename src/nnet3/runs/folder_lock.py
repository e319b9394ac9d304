"""Lets only one run at a time use a folder."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from nnet3.errors import Nnet3Error

_LOG = logging.getLogger("nnet3")
_LOCK = ".lock"


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other processes from locking the folder; the lock goes when this process ends, however it does.

    Raises Nnet3Error if another process has it. File systems without locks are left alone.
    """
    descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        _lock(folder, descriptor)
        yield
    finally:
        os.close(descriptor)


def _lock(folder: Path, descriptor: int) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(descriptor, 200, 0).decode(errors="replace").strip() or "another process"
        raise Nnet3Error(
            f"{folder}: {holder} is training in this folder: wait until it has ended, stop it, or choose another folder"
        ) from None
    except OSError as error:
        _LOG.debug("%s cannot be locked: %s", folder, error.strerror)
        return
    with contextlib.suppress(OSError):  # a full disk is found out elsewhere; the name of the holder is but a help
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
