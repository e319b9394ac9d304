"""Folders of compiled programs that several processes use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nnet3.driver.cache_folder import CacheFolder


class _Listing(list[os.DirEntry[str]]):
    """What `os.scandir` has found."""

    def __enter__(self) -> _Listing:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def test_another_process_may_remove_files_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that goes between the listing and the question for its size is no reason for a warning."""
    scandir, folder = os.scandir, CacheFolder(tmp_path, 25)

    def removing(path: Path) -> _Listing:
        with scandir(path) as items:
            found = _Listing(items)
        folder.path("second").unlink(missing_ok=True)
        return found

    for number, digest in enumerate(("first", "second", "third")):
        folder.path(digest).write_bytes(bytes(10))
        os.utime(folder.path(digest), (number, number))
    monkeypatch.setattr(os, "scandir", removing)
    folder.write("fourth", bytes(10))
    assert sorted(path.stem for path in tmp_path.iterdir()) == ["fourth", "third"]
