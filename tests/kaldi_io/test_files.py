"""Files that are mapped or replaced: what is said when that cannot be."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nnet3.base.kaldi_io.files import check_can_write, map_file
from nnet3.errors import ArgumentError, ModelFormatError, Nnet3Error
from nnet3.kaldi_io import write_atomically
from nnet3.model.nnet import Nnet


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("none", "none: cannot read this file: No such file or directory"),
        (".", ".: cannot read this file: Is a directory"),
        ("a\0b", "a\0b: cannot read this file: embedded null byte"),
        ("empty", "empty: this file is empty"),
        ("/dev/zero", "/dev/zero: this is a device, not a file"),
    ],
)
def test_what_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, message: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty").touch()
    with pytest.raises(ModelFormatError) as caught:
        map_file(path)
    assert str(caught.value) == message


@pytest.mark.parametrize("write", [lambda path: check_can_write(path, ""), lambda path: write_atomically(path, b"x")])
@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("none/x", "none/x: cannot write this file: No such file or directory"),
        ("folder", "folder: cannot write this file: Is a directory"),
        ("a\0b", "a\0b: cannot write this file: embedded null byte"),
    ],
)
def test_what_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: object, path: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkdir("folder")
    with pytest.raises(Nnet3Error) as caught:
        write(path)  # type: ignore[operator]
    assert str(caught.value) == message
    assert os.listdir() == ["folder"]


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        (b"x" * 76, repr(b"x" * 76)),
        (b"x" * 77, "a bytes"),
        ("", "''"),
        (None, "None"),
        (Nnet((), {}), "<Nnet 0 nodes, 0 components, 0 parameters>; this has been loaded already"),
    ],
)
def test_what_is_no_path(path: object, shown: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        map_file(path)  # type: ignore[arg-type]
    assert str(caught.value) == f"the path of a file to read is needed, got {shown}"


def test_whether_it_can_be_written_is_found_out_without_a_trace(tmp_path: Path) -> None:
    (tmp_path / "old").write_bytes(b"old")
    for name in ("old", "new"):
        check_can_write(tmp_path / name, "")
    check_can_write("/dev/null", "")
    assert os.listdir(tmp_path) == ["old"]
    assert (tmp_path / "old").read_bytes() == b"old"


def test_one_byte_of_a_pipe(tmp_path: Path) -> None:
    """Less than the header of a binary file."""
    os.mkfifo(tmp_path / "pipe")
    end = os.open(tmp_path / "pipe", os.O_RDWR)
    try:
        os.write(end, b"\0C")
        with pytest.raises(ModelFormatError, match="begins with a zero byte, but not with the header 00 42"):
            map_file(tmp_path / "pipe")
    finally:
        os.close(end)
