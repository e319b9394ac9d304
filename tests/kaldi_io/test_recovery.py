"""Tables that go on behind damage, that keep what is finished, and that are gone on with."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from nnet3.errors import ModelFormatError, TableError
from nnet3.kaldi_io import finished_matrices, matrix_writer, open_matrix_table, random_access_vectors
from tests.kaldi_io.damaged_tables import MATRICES, keys_of


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_script_goes_on() -> None:
    with matrix_writer("ark,scp:x.ark,x.scp") as writer:
        for key, matrix in MATRICES.items():
            writer.write(key, matrix)
    Path("x.scp").write_text(Path("x.scp").read_text().replace("b x.ark", "b y.ark"))
    assert "".join(keys_of(open_matrix_table("scp:x.scp"))) == "a!c"


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
