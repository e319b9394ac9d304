"""Archives that go on behind damage, in text and where objects begin with a known token."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nnet3.base.kaldi_io.lattice import open_lattice_table
from nnet3.errors import TableError
from nnet3.kaldi_io import Reader, TableReader, matrix_writer, open_matrix_table, open_vector_table
from tests.kaldi_io.damaged_tables import MATRICES, keys_of


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", ["x.ark", "cat x.ark |"])
@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("a \n0 1 2 x,0,\n1\n\nb \n0 1 2 0,0,3\n1\n\n", "!b"),
        ("a\n0 1 2 x,0,\n1\n\n1 \n0 1 2 0,0,3\n1\n\n", "!1"),
        ("a \n0 1 2 0,0,3\n1\n\nb \n0 1 2 x,0,3\n1", "a!"),
    ],
)
def test_lattices_go_on_behind_the_blank_line_of_one_that_cannot_be_read(text: str, keys: str, name: str) -> None:
    Path("x.ark").write_text(text)
    assert "".join(keys_of(open_lattice_table(f"ark:{name}"))) == keys


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
    assert "".join(keys_of(open_vector_table(f"ark:{name}"))) == keys
    permissive = "".join(keys_of(open_vector_table(f"ark,p:{name}")))
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
    assert "".join(keys_of(table)) == keys
    assert table.num_skipped == 0
    table = TableReader(f"ark:{name}", read, "<X>", permissive=True)
    assert "".join(keys_of(table)) == keys.replace("!", "")
    assert table.num_skipped == keys.count("!")


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (b"RIFF\n\x80\0\0WAVEfmt ", r"^ark:x\.ark: x\.ark: this is a recording \(WAV\), not an archive"),
        (b"\x1f\x8b\x08", r"this is packed by gzip \(gunzip unpacks it\), not an archive"),
        (b"\0B<Nnet3> ", "this is one object, such as a model, not an archive, which has a key before each object$"),
        (b"k" * 200 + b" x\n", rf"the entry '{'k' * 80}': "),
    ],
)
def test_files_that_are_no_archives(contents: bytes, message: str) -> None:
    Path("x.ark").write_bytes(contents)
    with pytest.raises(TableError, match=message), open_matrix_table("ark:x.ark") as table:
        next(iter(table))


def test_binary_ends_at_damage() -> None:
    """Although lines seem to end in it."""
    with matrix_writer("ark:x.ark") as writer:
        for key, matrix in MATRICES.items():
            writer.write(key, np.full((10, 10), matrix[0, 0]))  # 10 is a newline
    contents = bytearray(Path("x.ark").read_bytes())
    contents[contents.index(b"b ") + 4] = 0xFF
    Path("x.ark").write_bytes(contents)
    assert "".join(keys_of(open_matrix_table("ark:x.ark"))) == "a!"


def test_pipes_of_a_script_need_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is no object, what goes on behind one, and what is one that does not end; a command that fails is named."""
    monkeypatch.setattr("nnet3.base.kaldi_io.files.MOST_OF_STREAM", 1 << 20)
    entries = {
        "text": ("yes |", "expected a matrix"),
        "zeros": ("cat /dev/zero |", "this begins with a zero byte"),
        "more": (r"printf '[ 1 2 ]\n'; yes |", "1048576 bytes and more follow the first object"),
        "long": ("yes '[ 1' |", "the first object does not end within 1048576 bytes"),
        "fails": ("echo '[ 1 2 ]'; exit 3 |", "the command failed with status 3"),
        "cut": ("echo '[ 1 2'; exit 4 |", "the command failed with status 4"),
        "empty": ("true |", "there is nothing at position 0 of 0 bytes"),
        "good": ("sleep 0.05; printf '[ 1 2'; sleep 0.05; printf '3 ]' |", ""),
    }
    Path("x.scp").write_text("".join(f"{key} {command}\n" for key, (command, _) in entries.items()))
    table = open_matrix_table("scp:x.scp")
    for key, (_, message) in entries.items():
        if message:
            with pytest.raises(TableError, match=f"the entry '{key}': .*{message}"):
                next(table)
        else:
            name, matrix = next(table)
            assert (name, np.asarray(matrix).tolist()) == (key, [[1, 23]])


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("echo 'a [ 1 ]'; echo 'b ['; yes '1 2' |", "the entry 'b' does not end within 1048576 bytes of a stream"),
        (
            "echo 'a [ 1 ]'; printf 'b \\0BFM \\4\\0\\0\\0\\1\\4\\0\\0\\0\\1'; yes |",
            "the entry 'b' does not end within",
        ),
    ],
)
def test_entries_of_a_pipe_end(command: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nnet3.base.kaldi_io.files.MOST_OF_STREAM", 1 << 20)
    table = open_matrix_table(f"ark:{command}")
    assert next(table)[0] == "a"
    with pytest.raises(TableError, match=message):
        next(table)
    table.close()


def test_a_pipe_is_as_long_as_it_likes_if_its_entries_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nnet3.base.kaldi_io.files.MOST_OF_STREAM", 1 << 16)
    command = "for k in $(seq 200); do echo \"$k [\"; yes '1 2 3 4 5 6 7 8' | head -n 100; echo ']'; done |"
    assert len(list(open_matrix_table(f"ark:{command}"))) == 200
