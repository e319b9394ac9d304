"""Tables that go on behind damage, that keep what is finished, and that are gone on with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from nnet3.errors import ModelFormatError, TableError
from nnet3.kaldi_io import (
    Reader,
    TableReader,
    finished_matrices,
    matrix_writer,
    open_matrix_table,
    open_vector_table,
    random_access_vectors,
)

MATRICES = {key: np.full((2, 2), number, np.float32) for number, key in enumerate(("a", "b", "c"))}


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def _keys(table: TableReader[Any]) -> list[str]:
    """The keys that come, with `!` for an error."""
    keys = []
    while True:
        try:
            entry = next(table, None)
        except TableError:
            keys.append("!")
            continue
        if entry is None:
            return keys
        keys.append(entry[0])


@pytest.mark.parametrize("name", ["x.ark", "cat x.ark |"])
@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("a [ 1 2 ]\nb [ 1 x ]\nc [ 3 ]\n", "a!c"),
        ("a [ 1 2 ]\nb [ 1 2\nc [ 3 ]\n", "a!c"),
        ("a [ 1 2 ]\nb 1 2\nc [ 3 ]\n", "a!c"),
        ("a [ 1 ]\nb [ zzz ]\n", "a!"),
        ("a [ 1 ]\nb [ 2", "a!"),
        ("a [ 1 ]\nb", "a!"),
        ("a [ x ]\nb [ " + "1 " * 100_000 + "y ]\nc [ 1 ]\n", "!!c"),
    ],
)
def test_text_goes_on_behind_what_cannot_be_read(text: str, keys: str, name: str) -> None:
    Path("x.ark").write_text(text)
    assert "".join(_keys(open_vector_table(f"ark:{name}"))) == keys
    permissive = "".join(_keys(open_vector_table(f"ark,p:{name}")))
    assert permissive == keys.replace("!", "")


@pytest.mark.parametrize("name", ["x.ark", "cat x.ark |"])
@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("a <X> 1\nb <X> x\nc <X> 3\n", "a!c"),
        ("a <X> 1\nb <X> x  <X> 3\nc <X> 3\n", "a!!c"),  # a beginning without a key
        ("a <X> 1\nb <X> x\n", "a!"),
        ("a <X> 1\nb <X>", "a!"),
        ("a <X> 1\nb <Y> 5\nc <X> 3\n", "a!c"),
        ("a <X> 1\n!\n\nc\t<X> 3\n", "a!c"),
        ("a <X> 1\nb <X> " + "x " * 100_000 + "\nccc <X> 3\n", "a!ccc"),
        ("a <X> 1\nb <X> x\n" + "k" * 4096 + " <X> 3\n", "a!" + "k" * 4096),
    ],
)
def test_what_objects_begin_with_shows_where_the_next_one_is(text: str, keys: str, name: str) -> None:
    def read(reader: Reader) -> int:
        reader.expect("<X>")
        return reader.int32()

    Path("x.ark").write_text(text)
    table = TableReader(f"ark:{name}", read, "<X>")
    assert "".join(_keys(table)) == keys
    assert table.num_skipped == 0
    table = TableReader(f"ark:{name}", read, "<X>", permissive=True)
    assert "".join(_keys(table)) == keys.replace("!", "")
    assert table.num_skipped == keys.count("!")


def test_binary_ends_at_damage() -> None:
    """Although lines seem to end in it."""
    with matrix_writer("ark:x.ark") as writer:
        for key, matrix in MATRICES.items():
            writer.write(key, np.full((10, 10), matrix[0, 0]))  # 10 is a newline
    contents = bytearray(Path("x.ark").read_bytes())
    contents[contents.index(b"b ") + 4] = 0xFF
    Path("x.ark").write_bytes(contents)
    assert "".join(_keys(open_matrix_table("ark:x.ark"))) == "a!"


def test_a_script_goes_on() -> None:
    with matrix_writer("ark,scp:x.ark,x.scp") as writer:
        for key, matrix in MATRICES.items():
            writer.write(key, matrix)
    Path("x.scp").write_text(Path("x.scp").read_text().replace("b x.ark", "b y.ark"))
    assert "".join(_keys(open_matrix_table("scp:x.scp"))) == "a!c"


def test_entries_by_key_behind_damage() -> None:
    Path("x.ark").write_text("a [ 1 ]\nb [ x ]\nc [ 3 ]\n")
    table = random_access_vectors("ark:x.ark")
    assert "a" in table
    with pytest.raises(TableError, match="the entry 'b'"):
        table.get("c")
    assert table["c"].tolist() == [3]


@pytest.mark.parametrize("cut", [0, 3])
def test_keep_cuts_off_what_is_not_complete(cut: int) -> None:
    writer = matrix_writer("ark,scp:x.ark,x.scp")
    writer.write("a", MATRICES["a"])
    if cut:
        assert writer._archive is not None
        writer._archive.write(b"b \0B")
    assert writer.keep() == "x.ark"
    assert [key for key, _ in open_matrix_table("ark:x.ark")] == ["a"]
    assert [key for key, _ in open_matrix_table("scp:x.scp")] == ["a"]


def test_finished_entries_stay_and_others_follow() -> None:
    assert finished_matrices("ark,scp:x.ark,x.scp").keys == set()
    with matrix_writer("ark,scp:x.ark,x.scp") as writer:
        writer.write("a", MATRICES["a"])
    finished = finished_matrices("ark,scp:x.ark,x.scp")
    assert finished.keys == {"a"}
    with matrix_writer("ark,scp:x.ark,x.scp", finished) as writer:
        writer.write("b", MATRICES["b"])
    assert [key for key, _ in open_matrix_table("scp:x.scp")] == ["a", "b"]
    assert [key for key, _ in open_matrix_table("ark:x.ark")] == ["a", "b"]
    for wspecifier in ("ark:x.ark", "scp:x.scp", "ark:-"):
        with pytest.raises(TableError, match="only an archive with a script can be resumed"):
            finished_matrices(wspecifier)


def test_tensors_are_written_as_arrays_are() -> None:
    matrix = torch.ones(2, 3, requires_grad=True) * 2
    with matrix_writer("ark,t:x.ark") as writer:
        for key, value in (("a", matrix), ("b", matrix.bfloat16()), ("c", matrix.int()), ("d", matrix.T)):
            writer.write(key, value)  # type: ignore[arg-type]
        with pytest.raises(ModelFormatError, match="cannot write numbers of type complex64 as floats"):
            writer.write("e", np.ones((1, 1), np.complex64))
    assert {key: value.sum() for key, value in open_matrix_table("ark:x.ark")} == dict.fromkeys("abcd", 12.0)
