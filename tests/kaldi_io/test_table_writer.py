"""Tables that are written: by script, to commands, only when complete, under keys that are words."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from nnet3.errors import ModelFormatError, TableError
from nnet3.kaldi_io import Finished, finished_matrices, matrix_writer, open_matrix_table
from tests.kaldi_io.matrix_tables import MATRICES, same, write_matrices


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_written_to_a_command() -> None:
    write_matrices("ark:| cat > y.ark", MATRICES)
    assert same(open_matrix_table("ark:y.ark"), MATRICES)


def test_written_by_script() -> None:
    Path("out.scp").write_text("utt3 three.mat\nutt1 one.mat\n")
    with pytest.raises(TableError, match="names no file for the key 'utt2'"):
        write_matrices("scp:out.scp", MATRICES)
    write_matrices("p,scp:out.scp", MATRICES)
    assert same(open_matrix_table("scp:out.scp"), {key: MATRICES[key] for key in ("utt3", "utt1")})


@pytest.mark.parametrize(
    ("wspecifier", "message"),
    [
        ("ark:none/x.ark", "cannot write none/x.ark: No such file"),
        ("ark,scp:-,x.scp", "only point into an archive that is a file"),
        ("scp:none.scp", "cannot read none.scp"),
        ("ark:x:5", "a position in a file"),
        ("ark:| cat >/dev/null; exit 4", "the command failed with status 4"),
        ("ark:/dev/full", "No space left"),
    ],
)
def test_unwritable_tables_are_refused(wspecifier: str, message: str) -> None:
    with pytest.raises(TableError) as caught:
        write_matrices(wspecifier, MATRICES)
    assert message in str(caught.value)
    assert wspecifier in str(caught.value)


@pytest.mark.parametrize("wspecifier", ["ark:x.ark", "ark,scp:x.ark,x.scp"])
def test_a_table_takes_its_place_when_it_is_complete(wspecifier: str) -> None:
    write_matrices("ark,scp:x.ark,x.scp", MATRICES)
    before = {path.name: path.read_bytes() for path in Path().iterdir()}
    with pytest.raises(TableError, match="cannot be a key"):
        write_matrices(wspecifier, {"utt1": MATRICES["utt1"], "not a key": MATRICES["utt1"]})
    assert {path.name: path.read_bytes() for path in Path().iterdir()} == before
    with matrix_writer(wspecifier) as writer, open_matrix_table("ark:x.ark") as table:
        for key, matrix in table:  # onto itself
            writer.write(key, 2 * matrix)
    assert same(open_matrix_table("ark:x.ark"), {key: 2 * matrix for key, matrix in MATRICES.items()})


def test_a_table_that_cannot_take_its_place_is_refused_at_once() -> None:
    Path("speech.wav").write_bytes(b"RIFF\x24\0\0\0WAVEfmt ")
    with pytest.raises(TableError, match=r"speech\.wav: this is a recording; an archive is not to take its place"):
        matrix_writer("ark:speech.wav")
    assert os.listdir() == ["speech.wav"]


def test_a_table_without_its_script_is_not_written() -> None:
    with pytest.raises(TableError, match=r"cannot write none/x\.scp"):
        matrix_writer("ark,scp:x.ark,none/x.scp")
    assert list(Path().iterdir()) == []


def test_a_value_without_a_form_in_the_file_is_named_and_no_part_of_it_is_written() -> None:
    with matrix_writer("ark:x.ark") as writer:
        writer.write("a", MATRICES["utt1"])
        with pytest.raises(ModelFormatError, match=r"^ark:x\.ark: the entry 'b': cannot write an array of shape "):
            writer.write("b", np.zeros(3, np.float32))
        writer.write("c", MATRICES["utt2"])
    assert same(open_matrix_table("ark:x.ark"), {"a": MATRICES["utt1"], "c": MATRICES["utt2"]})


def test_behind_an_entry_that_was_not_written_there_is_none(small_files: Callable[[int], None]) -> None:
    """Its key may be there already, or half of it: what is kept ends before it."""
    writer = matrix_writer("ark,scp:x.ark,x.scp")
    matrices = {key: np.full((100, 100), number, np.float32) for number, key in enumerate("abc")}
    writer.write("a", matrices["a"])
    small_files(60_000)
    with pytest.raises(TableError, match=r"cannot write x\.ark: File too large"):
        writer.write("b", matrices["b"])
    small_files(1_000_000)
    with pytest.raises(TableError, match="an entry before 'c' could not be written"):
        writer.write("c", matrices["c"])
    assert writer.keep() == "x.ark"
    assert same(open_matrix_table("scp:x.scp"), {"a": matrices["a"]})
    assert same(open_matrix_table("ark:x.ark"), {"a": matrices["a"]})


@pytest.mark.parametrize("end", ["close", "keep"])
@pytest.mark.parametrize("most", [0, 9, 100])
def test_a_table_whose_end_cannot_be_written_leaves_nothing(
    end: str, most: int, small_files: Callable[[int], None]
) -> None:
    """Neither of its two files, of which one may be whole."""
    writer = matrix_writer("ark,scp:x.ark,x.scp")
    for key in MATRICES:
        writer.write(key, np.zeros((3, 3), np.float32))
    small_files(most)
    with pytest.raises(TableError, match=r"ark,scp:x\.ark,x\.scp: cannot write x\.(ark|scp): File too large"):
        getattr(writer, end)()
    small_files(resource.RLIM_INFINITY)
    assert not [path for path in os.listdir() if path.endswith(".tmp")]


@pytest.fixture
def small_files() -> Iterator[Callable[[int], None]]:
    """Lets files have so many bytes, as on a disk that is full."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda most: resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, hard))


def test_bad_keys_are_refused() -> None:
    with matrix_writer("ark:x.ark") as writer:
        for key in ("", "a b", "a\n"):
            with pytest.raises(TableError, match="cannot be a key"):
                writer.write(key, [[1.0]])


@pytest.mark.parametrize("options", ["", "t,"])
def test_a_table_that_grows_is_there_after_each_entry(options: str) -> None:
    """Whoever is killed loses the entry in hand, and the next one goes on behind what is whole."""
    wspecifier = f"{options}ark,scp:out.ark,out.scp"
    items = list(MATRICES.items())
    for number, (key, matrix) in enumerate(items):
        writer = matrix_writer(wspecifier, finished_matrices(wspecifier), grows=True)
        writer.write(key, matrix)
        assert same(open_matrix_table("scp:out.scp"), dict(items[: number + 1]))
        assert same(open_matrix_table("ark:out.ark"), dict(items[: number + 1]))
        with open("out.ark", "ab") as file:
            file.write(b"half of an ent")  # as one that is killed leaves it
        writer.discard()
    writer = matrix_writer(wspecifier, Finished(), grows=True)  # begins again
    writer.close()
    assert same(open_matrix_table("ark:out.ark"), {})
