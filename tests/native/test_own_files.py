"""Files of ours in a folder of ours: what others may write, or have written, and what was cut, is not taken."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest

from nnet3.base.native.own_files import own_folder, private_path, read_own, write_own

CONTENTS = bytes(range(256)) * 100
NOBODY = 65534


def written(place: Path) -> Path:
    """Returns the path of a file with CONTENTS."""
    with own_folder(place) as folder:
        write_own(folder, "file", CONTENTS)
        assert read_own(folder, "file") == CONTENTS
    return place / "file"


def read(path: Path) -> bytes | None:
    with own_folder(path.parent) as folder:
        return read_own(folder, path.name)


def test_a_file_cut_or_changed_anywhere_is_none(tmp_path: Path) -> None:
    path = written(tmp_path)
    whole = path.read_bytes()
    for end in [*range(0, 100), len(whole) // 2, len(whole) - 1]:
        path.write_bytes(whole[:end])
        assert read(path) is None
    for place in [*range(0, 100), len(whole) // 2, len(whole) - 1]:
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert read(path) is None
    path.write_bytes(whole + b"\0")
    assert read(path) is None
    path.unlink()
    assert read(path) is None
    assert read(written(tmp_path)) == CONTENTS


@pytest.mark.parametrize("mode", [0o666, 0o660, 0o606, 0o602])
def test_a_file_that_others_may_write_is_none(mode: int, tmp_path: Path) -> None:
    path = written(tmp_path)
    path.chmod(mode)
    assert read(path) is None
    path.chmod(0o644)
    assert read(path) == CONTENTS


def test_what_is_no_file_is_none(tmp_path: Path) -> None:
    path = written(tmp_path / "ours")
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert read(path) is None
    path.unlink()
    os.mkfifo(path, 0o600)
    assert read(path) is None
    path.unlink()
    path.mkdir()
    assert read(path) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone can give files away")
def test_files_and_folders_of_others(tmp_path: Path) -> None:
    path = written(tmp_path / "folder")
    os.chown(path, NOBODY, NOBODY)
    assert read(path) is None
    assert read(written(tmp_path / "folder")) == CONTENTS
    os.chown(path.parent, NOBODY, NOBODY)
    with pytest.raises(RuntimeError, match="belongs to another user"), own_folder(path.parent):
        pass


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o1777, 0o702])
def test_a_folder_that_others_may_write(mode: int, tmp_path: Path) -> None:
    tmp_path.chmod(mode)
    with pytest.raises(RuntimeError, match=f"'{tmp_path}' can be written by others"), own_folder(tmp_path):
        pass


def test_a_folder_that_is_made(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        path = written(tmp_path / "one" / "two")
    finally:
        os.umask(before)
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert path.stat().st_mode & 0o777 == 0o600


def test_the_folder_stays_the_one_that_was_looked_at(tmp_path: Path) -> None:
    written(tmp_path / "ours")
    with own_folder(tmp_path / "ours") as folder:
        (tmp_path / "ours").rename(tmp_path / "away")
        (tmp_path / "ours").mkdir()
        (tmp_path / "ours" / "file").write_bytes(b"his")
        assert read_own(folder, "file") == CONTENTS
        write_own(folder, "other", b"mine")
    assert read(tmp_path / "away" / "other") == b"mine"


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_write_that_fails_leaves_the_old_file(failing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = written(tmp_path)
    monkeypatch.setattr(os, failing, full)
    with own_folder(tmp_path) as folder, pytest.raises(OSError, match="No space"):
        write_own(folder, "file", b"new")
    assert list(tmp_path.iterdir()) == [path]
    assert read(path) == CONTENTS


def test_readers_see_whole_files_alone(tmp_path: Path) -> None:
    written(tmp_path)
    stop, wrong = threading.Event(), list[bytes | None]()

    def look() -> None:
        while not stop.is_set():
            found = read(tmp_path / "file")
            if found not in (CONTENTS, CONTENTS[::-1]):
                wrong.append(found)

    reader = threading.Thread(target=look)
    reader.start()
    with own_folder(tmp_path) as folder:
        for number in range(100):
            write_own(folder, "file", CONTENTS[:: -1 if number % 2 else 1])
    stop.set()
    reader.join()
    assert wrong == []


@pytest.mark.parametrize("in_memory", [True, False])
def test_a_private_path(in_memory: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not in_memory:
        monkeypatch.delattr(os, "memfd_create", raising=False)
    paths = []
    for contents in (CONTENTS, b""):
        with private_path(contents) as path:
            assert Path(path).read_bytes() == contents
            paths.append(path)
    assert paths[0] != paths[1]
    with pytest.raises(KeyError), private_path(CONTENTS) as path:
        raise KeyError
    assert not os.path.exists(path)
