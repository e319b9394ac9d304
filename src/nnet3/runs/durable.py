"""Folders that appear whole or not at all, and stay after a power cut."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable
from pathlib import Path

_TEMPORARY = ".tmp"


def write_folder(target: Path, fill: Callable[[Path], None]) -> None:
    """Let `fill` write files into a new folder beside `target`, then give it that name in one step.

    Every file is on the disk before the folder has its name. A folder that has the name already is replaced. If this
    is interrupted at any point, what is left is the old state or the new one, and at most a folder with a name that
    `remove_leftovers` knows.
    """
    temporary = _beside(target)
    temporary.mkdir()
    try:
        fill(temporary)
        for path in temporary.iterdir():
            _synchronize(path)
        _synchronize(temporary)
        if target.exists():
            os.rename(target, _beside(target))
        os.rename(temporary, target)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    _synchronize(target.parent)


def remove_folder(path: Path) -> None:
    """Remove a folder: it loses its name first, so that nobody takes a half-removed one for a whole one."""
    doomed = _beside(path)
    os.rename(path, doomed)
    shutil.rmtree(doomed, ignore_errors=True)


def remove_leftovers(parent: Path) -> None:
    """Remove what interrupted writes and removals have left in a folder."""
    for path in parent.iterdir():
        if path.name.startswith(".") and path.name.endswith(_TEMPORARY):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}{_TEMPORARY}")


def _synchronize(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
