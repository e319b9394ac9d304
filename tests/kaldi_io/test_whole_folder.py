"""Folders that take the place of others whole."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from nnet3.base.kaldi_io import whole_folder as room
from nnet3.base.kaldi_io.whole_folder import whole_folder
from nnet3.errors import Nnet3Error

MADE = ("one", "sub/t*")


def make(folder: Path, text: str, **options: bool) -> None:
    with whole_folder(folder, MADE, **options) as place:
        (place / "sub").mkdir()
        for name in ("one", "sub/two"):
            (place / name).write_text(text)


def texts(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("can_exchange", [True, False])
def test_a_folder_is_replaced(can_exchange: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not can_exchange:
        monkeypatch.setattr(room, "_exchange", lambda one, other: False)
    folder = tmp_path / "above" / "folder"
    make(folder, "old")
    folder.chmod(0o750)
    make(folder, "new")
    assert texts(folder) == {"one": "new", "sub/two": "new"}
    assert folder.stat().st_mode & 0o777 == 0o750
    assert os.listdir(folder.parent) == ["folder"]
    (tmp_path / "link").symlink_to(folder)
    make(tmp_path / "link", "by link")
    assert texts(folder) == {"one": "by link", "sub/two": "by link"}
    assert (tmp_path / "link").is_symlink()


def test_a_failure_leaves_the_old_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path / "folder", "old")
    for error in (KeyError, KeyboardInterrupt):
        with pytest.raises(error):  # noqa: PT012, SIM117
            with whole_folder(tmp_path / "folder", MADE) as place:
                (place / "one").write_text("new")
                raise error
    with pytest.raises(Nnet3Error, match="folder: cannot make this folder: No space"):  # noqa: SIM117
        with whole_folder(tmp_path / "folder", MADE):
            raise OSError(28, "No space left on device")
    rename = Path.rename

    def refuse(path: Path, target: Path) -> Path:
        if target.name == "folder" and path.suffix == ".tmp":
            raise OSError(16, "Device or resource busy")
        return rename(path, target)

    monkeypatch.setattr(room, "_exchange", lambda one, other: False)
    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(Nnet3Error, match="busy"):
        make(tmp_path / "folder", "new")
    assert texts(tmp_path) == {"folder/one": "old", "folder/sub/two": "old"}
    assert os.listdir(tmp_path) == ["folder"]


def test_a_process_that_is_killed_leaves_the_old_folder(tmp_path: Path, new_python: Path) -> None:
    make(tmp_path / "folder", "old")
    script = f"""
import os, signal
from nnet3.base.kaldi_io.whole_folder import whole_folder
with whole_folder({str(tmp_path / "folder")!r}, {MADE!r}) as place:
    (place / "one").write_text("new")
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([new_python, "-c", script]).returncode != 0
    assert texts(tmp_path / "folder") == {"one": "old", "sub/two": "old"}
    make(tmp_path / "folder", "new")
    assert texts(tmp_path / "folder") == {"one": "new", "sub/two": "new"}


@pytest.mark.parametrize("can_link", [True, False])
def test_other_files_are_carried_over(can_link: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(95, "Operation not supported")

    if not can_link:
        monkeypatch.setattr(os, "link", refuse)
    folder = tmp_path / "folder"
    make(folder, "old")
    names = ["other", "sub.txt", ".hidden", "deep/er/one", "sub/mine"]
    for name in names:
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        (folder / name).write_text(name)
    os.utime(folder / "other", (5, 5))
    (folder / "link").symlink_to("nowhere")
    (folder / "to folder").symlink_to(tmp_path)
    for text in ("new", "newer"):
        make(folder, text, keeps_others=True)
        links = os.readlink(folder / "link"), os.readlink(folder / "to folder")
        assert links == ("nowhere", str(tmp_path))
        assert texts(folder) == {"one": text, "sub/two": text} | {name: name for name in names}
        assert (folder / "other").stat().st_mtime == 5
        assert os.listdir(tmp_path) == ["folder"]


def test_what_cannot_be_carried_over_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that cannot be listed, and one that is another file system: the old folder stays as it was."""
    make(tmp_path / "folder", "old")
    (tmp_path / "folder" / "deep").mkdir()
    (tmp_path / "folder" / "deep" / "mine").write_text("mine")
    whole = texts(tmp_path)
    listed = os.scandir

    def refuse(path: str) -> object:
        if str(path).endswith("deep"):
            raise PermissionError(13, "Permission denied", path)
        return listed(path)

    with monkeypatch.context() as changed:
        changed.setattr(os, "scandir", refuse)
        with pytest.raises(Nnet3Error, match="folder: cannot make this folder: Permission denied"):
            make(tmp_path / "folder", "new", keeps_others=True)
    assert texts(tmp_path) == whole
    monkeypatch.setattr(room, "_device", lambda path: int(path.name == "deep" and ".tmp" not in str(path)))
    with pytest.raises(Nnet3Error, match="cannot make this folder: it has another file system in it, 'deep'"):
        make(tmp_path / "folder", "new", keeps_others=True)
    assert texts(tmp_path) == whole


@pytest.mark.parametrize("name", ["other", "sub.txt", ".hidden", "deep/one"])
def test_other_files_are_not_lost(name: str, tmp_path: Path) -> None:
    make(tmp_path / "folder", "old")
    (tmp_path / "folder" / name).parent.mkdir(exist_ok=True)
    (tmp_path / "folder" / name).write_text("mine")
    with pytest.raises(Nnet3Error, match=rf"folder: this folder is replaced as a whole, but it has '{name}'"):
        make(tmp_path / "folder", "new")
    assert texts(tmp_path / "folder") == {"one": "old", "sub/two": "old", name: "mine"}


def test_what_is_made_takes_the_place_of_others(tmp_path: Path) -> None:
    """Also if no pattern says so."""
    make(tmp_path / "folder", "old")
    with whole_folder(tmp_path / "folder", (), keeps_others=True) as place:
        (place / "one").write_text("new")
    assert texts(tmp_path / "folder") == {"one": "new", "sub/two": "old"}


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(Nnet3Error, match="file: this is a file; a folder is to be made here"):
        make(tmp_path / "file", "new")
    assert texts(tmp_path) == {"file": "mine"}
