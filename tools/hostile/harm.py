"""`nnet3` that is harmed: killed at a moment, with a limit to the bytes of its files, or without root's privileges."""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import NoReturn

from nnet3.cli import main

_CAPABILITY_VERSION = 0x20080522
VARIABLE = "NNET3_HARM"
_EVENTS = ("os.chmod", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.symlink", "os.truncate")


@dataclass(frozen=True)
class Harm:
    """`kill_at`: the number of the change of a file before which the process is killed; `largest`: bytes of a file."""

    kill_at: int | None = None
    largest: int | None = None
    is_killed_at_largest: bool = False
    has_no_privileges: bool = False
    moments: str = ""  # the file to which changes are told, a byte each

    def variables(self) -> Mapping[str, str]:
        return {VARIABLE: json.dumps(asdict(self))}


def harmed() -> NoReturn:
    """Be `nnet3`, with the harm that the environment asks for."""
    harm = Harm(**json.loads(os.environ.pop(VARIABLE)))
    told = os.open(harm.moments, os.O_WRONLY | os.O_APPEND) if harm.moments else None
    if harm.largest is not None:
        if harm.is_killed_at_largest:
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_FSIZE, (harm.largest, harm.largest))
    if harm.has_no_privileges:
        _drop_privileges()
    if told is not None or harm.kill_at is not None:
        _count_changes(harm.kill_at, told)
    main()


def _drop_privileges() -> None:
    """Lets permissions of files be valid for root too: the process has no capabilities then, of Linux."""
    header, none = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0), (ctypes.c_uint32 * 6)()
    if ctypes.CDLL(None, use_errno=True).capset(header, none):
        raise OSError(ctypes.get_errno(), "capset")


def _count_changes(kill_at: int | None, told: int | None) -> None:
    """Counts what changes files, a file opened for writing among it."""
    changes = 0

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal changes
        writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        if not writes and event not in _EVENTS:
            return
        changes += 1
        if told is not None:
            os.write(told, b".")
        if changes == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
