"""CacheFolder: files of compiled computations in one folder, the newest ones up to a size."""

from __future__ import annotations

import os
import warnings
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from nnet3.driver.cache_file import write_file
from nnet3.errors import ArgumentError

_SUFFIX = ".nnet3"


@dataclass(frozen=True)
class CacheFolder:
    """A folder with a file for each digest, which several processes may use. What goes wrong is a warning.

    Where files have more than `max_bytes` together, those written first go.
    """

    folder: Path
    max_bytes: int

    def path(self, digest: str) -> Path:
        return self.folder / f"{digest}{_SUFFIX}"

    def read(self, digest: str) -> bytes | None:
        """Returns the contents of a file, None if there is none that can be read."""
        path = self.path(digest)
        try:
            if path.exists() and not path.is_file():
                raise OSError("not a file")
            return path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            warnings.warn(f"{path} cannot be read ({error}): compiling again", RuntimeWarning, stacklevel=5)
            return None

    def write(self, digest: str, data: bytes) -> None:
        try:
            write_file(self.path(digest), data)
            self._shrink(self.path(digest))
        except OSError as error:
            warnings.warn(f"cannot write to {self.folder} ({error}): not kept there", RuntimeWarning, stacklevel=5)

    def _shrink(self, newest: Path) -> None:
        """Remove the files written first, until the rest is small enough; others may remove some meanwhile."""
        files = []
        with os.scandir(self.folder) as items:
            for item in items:
                with suppress(FileNotFoundError):
                    if item.name.endswith(_SUFFIX):
                        status = item.stat()
                        files.append((status.st_mtime, status.st_size, item.path))
        total = sum(size for _, size, _ in files)
        for _, size, path in sorted(files):
            if total <= self.max_bytes or path == str(newest):
                break
            Path(path).unlink(missing_ok=True)
            total -= size


def checked_folder(folder: str) -> Path:
    """Returns the path of a folder, which is made when it is needed. Raises ArgumentError for what can be none."""
    if not folder or "\0" in folder:
        raise ArgumentError(f"the folder of a cache must be the path of a folder, got {folder!r}")
    if os.path.exists(folder) and not os.path.isdir(folder):
        raise ArgumentError(f"the folder of a cache must be a folder, but '{folder}' is a file")
    return Path(folder)
