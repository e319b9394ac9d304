"""Folders that appear whole or not at all: also when everything ends between any two calls of the system."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from nnet3.runs.durable import remove_folder, remove_leftovers, write_folder

CALLS = ("rename", "fsync", "open")


def _fill(text: str) -> Callable[[Path], None]:
    def fill(folder: Path) -> None:
        for name in ("a", "b"):
            (folder / name).write_text(text)

    return fill


class _PowerCutError(BaseException):
    pass


def _cut(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """Everything ends at call number `after` of those that matter; nothing is cleaned up."""
    count = 0

    def wrap(function: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **named: object) -> object:
            nonlocal count
            count += 1
            if count > after:
                raise _PowerCutError
            return function(*arguments, **named)

        return call

    for name in CALLS:
        monkeypatch.setattr(os, name, wrap(getattr(os, name)))
    monkeypatch.setattr("nnet3.runs.durable.shutil.rmtree", lambda *_, **__: None)


def _visible(parent: Path) -> dict[str, set[str]]:
    folders = [path for path in parent.iterdir() if not path.name.startswith(".")]
    return {folder.name: {f"{file.name} {file.read_text()}" for file in folder.iterdir()} for folder in folders}


def test_an_interruption_leaves_the_old_or_the_new(tmp_path: Path) -> None:
    seen = set()
    for after in range(20):
        parent = tmp_path / str(after)
        parent.mkdir()
        with pytest.MonkeyPatch.context() as patch, contextlib.suppress(_PowerCutError):
            _cut(patch, after)
            write_folder(parent / "x", _fill("new"))
        assert _visible(parent) in ({}, {"x": {"a new", "b new"}})
        seen.add(len(_visible(parent)))
        remove_leftovers(parent)
        assert len(list(parent.iterdir())) == len(_visible(parent))
    assert seen == {0, 1}


def test_a_failure_cleans_up_and_keeps_what_was_there(tmp_path: Path) -> None:
    write_folder(tmp_path / "x", _fill("old"))

    def fail(folder: Path) -> None:
        (folder / "a").write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        write_folder(tmp_path / "x", fail)
    assert _visible(tmp_path) == {"x": {"a old", "b old"}}
    assert os.listdir(tmp_path) == ["x"]


def test_what_cannot_be_cleaned_up_does_not_hide_the_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(folder: Path) -> None:
        raise OSError(28, "No space left on device")

    def refuse(*_: object, **__: object) -> None:
        raise OSError(16, "Device or resource busy")

    monkeypatch.setattr(os, "rmdir", refuse)
    with pytest.raises(OSError, match="No space left"):
        write_folder(tmp_path / "x", fail)


def test_replacing_and_removing(tmp_path: Path) -> None:
    write_folder(tmp_path / "x", _fill("old"))
    write_folder(tmp_path / "x", _fill("new"))
    assert _visible(tmp_path) == {"x": {"a new", "b new"}}
    (tmp_path / ".y.1234.tmp").write_text("a file")
    remove_leftovers(tmp_path)
    assert os.listdir(tmp_path) == ["x"]
    remove_folder(tmp_path / "x")
    assert os.listdir(tmp_path) == []


def test_a_leftover_that_is_gone_meanwhile_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "iterdir", lambda folder: iter([folder / ".x.1234.tmp"]))
    remove_leftovers(tmp_path)


def test_only_leftovers_are_removed(tmp_path: Path) -> None:
    for name in (".x", "x.tmp", ".lock"):
        (tmp_path / name).touch()
    remove_leftovers(tmp_path)
    assert sorted(os.listdir(tmp_path)) == [".lock", ".x", "x.tmp"]


def test_all_that_is_written_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files, their folder, then the name; at last the folder that has the name."""
    done: list[tuple[str, str]] = []
    fsync, rename = os.fsync, os.rename

    def note_fsync(descriptor: int) -> None:
        done.append(("fsync", Path(os.readlink(f"/proc/self/fd/{descriptor}")).name.split(".")[-1]))
        fsync(descriptor)

    def note_rename(source: Path, target: Path) -> None:
        done.append(("rename", target.name))
        rename(source, target)

    monkeypatch.setattr(os, "fsync", note_fsync)
    monkeypatch.setattr(os, "rename", note_rename)
    write_folder(tmp_path / "x", _fill("new"))
    assert sorted(done[:2]) == [("fsync", "a"), ("fsync", "b")]
    assert done[2:] == [("fsync", "tmp"), ("rename", "x"), ("fsync", tmp_path.name)]
