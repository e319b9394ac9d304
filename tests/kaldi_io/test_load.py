"""Objects in files of their own, by path and by Kaldi's extended names."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from nnet3.errors import ModelFormatError, TableError
from nnet3.kaldi_io import Writer, load_matrix, load_vector, open_rxfilename, write_wxfilename


def test_matrices_and_vectors_are_loaded_whole(tmp_path: Path) -> None:
    (tmp_path / "m.txt").write_text(" [\n 1 2\n 3 4 ]\n")
    assert load_matrix(tmp_path / "m.txt").tolist() == [[1, 2], [3, 4]]
    (tmp_path / "v.txt").write_text(" [ 1 2 ]\n")
    assert load_vector(str(tmp_path / "v.txt")).tolist() == [1, 2]
    (tmp_path / "m.txt").write_text(" [\n 1 2\n 3 4 ]\n5")
    with pytest.raises(ModelFormatError, match="should end here"):
        load_matrix(tmp_path / "m.txt")


@pytest.mark.parametrize("binary", [False, True])
def test_extended_names_are_read_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, binary: bool) -> None:
    monkeypatch.chdir(tmp_path)
    writer = Writer(binary)
    writer.header()
    writer.vector([1, 2])
    output = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=output))
    for name in ("v", "| cat > w", "-"):
        write_wxfilename(name, writer)
    (tmp_path / "x").write_bytes(b"key " + output.getvalue())
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(output.getvalue())))
    for name in ("v", "w", "x:4", "cat v |", "-"):
        assert open_rxfilename(name).vector().tolist() == [1, 2]


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("none", TableError, "cannot read none: No such file"),
        ("exit 3 |", TableError, "the command failed with status 3"),
        ("ark:x", TableError, "not a table"),
        ("empty", ModelFormatError, "empty: this file is empty"),
        ("short:5", ModelFormatError, "short: this file ends before byte 5"),
    ],
)
def test_names_that_cannot_be_opened_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, error: type[Exception], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").touch()
    (tmp_path / "short").write_text("abc")
    with pytest.raises(error, match=message):
        open_rxfilename(name)
