"""Folders made beside an old folder to take its place whole: no reader finds files of two ages in one folder."""

from __future__ import annotations

import ctypes
import errno
import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NoReturn

from nnet3.errors import Nnet3Error

_HERE, _EXCHANGE = -100, 2  # of Linux: AT_FDCWD, RENAME_EXCHANGE


@contextmanager
def whole_folder(folder: str | os.PathLike[str], made: Sequence[str], *, keeps_others: bool = False) -> Iterator[Path]:
    """Yields a new folder, which takes the place of `folder` at the end; after a failure the old folder stays.

    `made` are patterns of the files to be removed with the old folder. The new folder gets all other files if it
    `keeps_others`. Raises Nnet3Error if there are other files and it does not, and if the old folder cannot go.
    """
    target = Path(os.path.realpath(folder))
    if target.exists() and not target.is_dir():
        raise Nnet3Error(f"{folder}: this is a file; a folder is to be made here")

    def others() -> list[str]:
        return [name for name in _files_in(target) if not any(fnmatchcase(name, pattern) for pattern in made)]

    temporary = target.with_name(f".{target.name[:100]}.{secrets.token_hex(6)}.tmp")
    try:
        if not keeps_others and target.exists() and (found := others()):
            raise Nnet3Error(
                f"{folder}: this folder is replaced as a whole, but it has '{min(found)}', which is not made here: "
                "move it, or name another folder"
            )
        temporary.parent.mkdir(parents=True, exist_ok=True)
        temporary.mkdir()
        yield temporary
        if target.exists():
            for name in others() if keeps_others else ():
                _carry_over(target / name, temporary / name)
            os.chmod(temporary, target.stat().st_mode & 0o777)
        _put_in_place(temporary, target)
    except OSError as error:
        raise Nnet3Error(f"{folder}: cannot make this folder: {error.strerror}") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _files_in(folder: Path) -> list[str]:
    """Returns the paths of files below a folder, counted from there. Raises OSError if some cannot be seen."""

    def fail(error: OSError) -> NoReturn:
        raise error

    found = []
    for here, folders, files in os.walk(folder, onerror=fail):
        links = (name for name in folders if os.path.islink(os.path.join(here, name)))
        found += [os.path.relpath(os.path.join(here, name), folder) for name in (*files, *links)]
    return found


def _carry_over(old: Path, new: Path) -> None:
    """Gives a file a second name, if that is free, or copies it where the file system cannot. Raises OSError."""
    if os.path.lexists(new):
        return
    new.parent.mkdir(parents=True, exist_ok=True)
    if _device(old.parent) != _device(new.parent):
        raise OSError(errno.EXDEV, f"it has another file system in it, '{old.parent.name}'")
    try:
        os.link(old, new, follow_symlinks=False)
    except (OSError, NotImplementedError):
        shutil.copy2(old, new, follow_symlinks=False)


def _device(path: Path) -> int:
    return path.stat().st_dev


def _put_in_place(made: Path, target: Path) -> None:
    """Gives the target's place to the folder `made`; `made` is the old folder then, if any. Raises OSError."""
    if not target.exists():
        made.rename(target)
    elif not _exchange(made, target):
        old = made.with_suffix(".old")
        target.rename(old)
        try:
            made.rename(target)
        except OSError:
            old.rename(target)
            raise
        old.rename(made)


def _exchange(one: Path, other: Path) -> bool:
    """Exchanges two names in one step; returns False where the system cannot."""
    try:
        rename = ctypes.CDLL(None).renameat2
    except (AttributeError, OSError, TypeError):
        return False
    return rename(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0
