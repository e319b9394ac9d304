"""Archives and scripts: read and written as kaldi_native_io does, through pipes, by key, and when damaged."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from types import SimpleNamespace

import kaldi_native_io
import numpy as np
import pytest

from nnet3.base.kaldi_io.general import dense
from nnet3.cli.number_tables import part_of_file
from nnet3.errors import TableError
from nnet3.kaldi_io import (
    CompressionMethod,
    Posterior,
    Reader,
    TableReader,
    TableWriter,
    compress,
    int_vector_writer,
    matrix_writer,
    open_general_matrix_table,
    open_int_vector_table,
    open_matrix_table,
    open_posterior_table,
    open_token_table,
    open_vector_table,
    open_words_table,
    posterior_writer,
    random_access_int_vectors,
    random_access_matrices,
    token_writer,
    vector_writer,
    write_int32,
    write_real,
)
from tests.kaldi_io.matrix_tables import MATRICES, same, write_matrices
from tests.seeds import RANDOM
from tests.shared_data import GOLDEN, needs_shared


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("options", ["", "t,", "f,", "b,f,"])
def test_round_trips_and_kaldi_native_io_agrees(options: str) -> None:
    write_matrices(f"{options}ark,scp:our.ark,our.scp", MATRICES)
    with kaldi_native_io.FloatMatrixWriter(f"{options}ark,scp:kaldi.ark,kaldi.scp") as writer:
        for key, matrix in MATRICES.items():
            writer.write(key, matrix)
    if "t" not in options:  # Kaldi rounds numbers in text
        assert Path("our.ark").read_bytes() == Path("kaldi.ark").read_bytes()
        assert Path("our.scp").read_text() == Path("kaldi.scp").read_text().replace("kaldi", "our")
    for specifier in ("ark:our.ark", "scp:our.scp", "ark,s,cs,bg:cat our.ark |", "scp:cat our.scp |"):
        assert same(open_matrix_table(specifier), MATRICES)
    with kaldi_native_io.SequentialFloatMatrixReader("scp:our.scp") as reader:
        assert same([(key, np.array(matrix)) for key, matrix in reader], MATRICES)
    assert [key for key, _ in open_matrix_table("ark:kaldi.ark")] == list(MATRICES)


def test_compressed_entries_are_read_as_full_ones() -> None:
    with matrix_writer("ark:c.ark") as writer:
        for key, matrix in MATRICES.items():
            writer.write(key, compress(matrix, 3))
    for key, matrix in open_matrix_table("ark:c.ark"):
        np.testing.assert_allclose(matrix, MATRICES[key], atol=1e-4)


def test_other_kinds_have_kaldis_bytes() -> None:
    posterior = Posterior(np.array([0, 2, 2, 3]), np.array([3, 1, 7], np.int32), np.array([0.5, 0.5, 1], np.float32))
    frames = [[(3, 0.5), (1, 0.5)], [], [(7, 1.0)]]
    for options in ("", "t,"):
        specifier = f"{options}ark:our.ark"
        for open_ours, open_kaldis, value, kaldi_value in (
            (int_vector_writer, kaldi_native_io.Int32VectorWriter, [3, -1, 2], [3, -1, 2]),
            (int_vector_writer, kaldi_native_io.Int32VectorWriter, [], []),
            (vector_writer, kaldi_native_io.FloatVectorWriter, [1.5, 2], np.array([1.5, 2], np.float32)),
            (token_writer, kaldi_native_io.TokenWriter, "word", "word"),
            (posterior_writer, kaldi_native_io.PosteriorWriter, posterior, frames),
            (lambda specifier: TableWriter(specifier, write_int32), kaldi_native_io.Int32Writer, 7, 7),
            (lambda specifier: TableWriter(specifier, write_real), kaldi_native_io.FloatWriter, 1.5, 1.5),
        ):
            with open_ours(specifier) as ours, open_kaldis(f"{options}ark:kaldi.ark") as peer:
                for key in ("a", "b"):
                    ours.write(key, value)
                    peer.write(key, kaldi_value)
            assert Path("our.ark").read_bytes() == Path("kaldi.ark").read_bytes()


def test_other_kinds_round_trip() -> None:
    posterior = Posterior(np.array([0, 2, 2, 3]), np.array([3, 1, 7], np.int32), np.array([0.5, 0.1, 1], np.float32))
    for options in ("", "t,"):
        wspecifier, rspecifier = f"{options}ark:x.ark", "ark:x.ark"
        with int_vector_writer(wspecifier) as integers:
            integers.write("a", [1, -2])
            integers.write("b", [])
        assert [(key, value.tolist()) for key, value in open_int_vector_table(rspecifier)] == [
            ("a", [1, -2]),
            ("b", []),
        ]
        with vector_writer(wspecifier) as vectors:
            vectors.write("a", [0.5])
        assert [value.tolist() for _, value in open_vector_table(rspecifier)] == [[0.5]]
        with token_writer(wspecifier) as tokens:
            tokens.write("a", "x")
            tokens.write("b", "y")
        assert list(open_token_table(rspecifier)) == [("a", "x"), ("b", "y")]
        with TableWriter(wspecifier, write_int32) as numbers:
            numbers.write("a", 5)
        assert list(TableReader(rspecifier, Reader.int32)) == [("a", 5)]
        with posterior_writer(wspecifier) as posteriors:
            posteriors.write("a", posterior)
            posteriors.write("b", Posterior(np.zeros(1, np.int64), posterior.ids[:0], posterior.weights[:0]))
        (_, first), (_, second) = open_posterior_table(rspecifier)
        for got, expected in zip(first, posterior, strict=True):
            np.testing.assert_array_equal(got, expected)
        assert second.indptr.tolist() == [0]


def test_hand_written_text() -> None:
    Path("x.ark").write_text("utt1  [\n  1 2 \n  3 4 ]\nutt2\t[ ]\n utt3 [ 5 ]")
    assert [(key, value.tolist()) for key, value in open_matrix_table("ark:x.ark")] == [
        ("utt1", [[1, 2], [3, 4]]),
        ("utt2", []),
        ("utt3", [[5]]),
    ]
    Path("x.ark").write_text("a\nb 1 2\r\nc\n")
    assert [(key, value.tolist()) for key, value in open_int_vector_table("ark:x.ark")] == [
        ("a", []),
        ("b", [1, 2]),
        ("c", []),
    ]
    Path("empty.ark").touch()
    assert list(open_matrix_table("ark:empty.ark")) == []


def test_ranges_of_a_script_cut_rows_and_columns() -> None:
    write_matrices("ark,scp:x.ark,x.scp", {"a": np.arange(20).reshape(5, 4)})
    line = Path("x.scp").read_text().strip()
    for text, expected in (
        ("[1:2]", [slice(1, 3), slice(None)]),
        ("[0:7,1:3]", [slice(0, 5), slice(1, 4)]),
        ("[:,2:2]", [slice(None), slice(2, 3)]),
        ("[1:1,:]", [slice(1, 2), slice(None)]),
        ("[:]", [slice(None), slice(None)]),
    ):
        Path("r.scp").write_text(f"{line}{text}\n")
        ((_, matrix),) = open_matrix_table("scp:r.scp")
        assert matrix.tolist() == np.arange(20).reshape(5, 4)[tuple(expected)].tolist()
        assert matrix.base is None, "the whole would stay in memory"
    for text in ("[0:8]", "[5:5]", "[2:1]", "[:,0:4]", "[,0:1]", "[0]", "[-1:1]"):
        Path("r.scp").write_text(f"{line}{text}\n")
        with pytest.raises(TableError, match="range"):
            list(open_matrix_table("scp:r.scp"))


@pytest.mark.parametrize("rows", [1, 7, 8, 30])
@pytest.mark.parametrize("method", list(CompressionMethod))
def test_a_range_is_cut_from_the_decoded_matrix(method: CompressionMethod, rows: int) -> None:
    whole = compress(RANDOM.random((30, 4), np.float32), method)
    with matrix_writer("ark,scp:x.ark,x.scp") as writer:
        writer.write("a", whole)
    place = Path("x.scp").read_text().split()[1] + f"[{30 - rows}:29,1:2]"
    Path("r.scp").write_text(f"a {place}\n")
    expected = whole.decode()[30 - rows :, 1:3]
    for table in (open_matrix_table("scp:r.scp"), open_general_matrix_table("scp:r.scp")):
        ((_, part),) = table
        assert isinstance(part, np.ndarray), "it would be compressed a second time"
        np.testing.assert_array_equal(part, expected)
    np.testing.assert_array_equal(dense(part_of_file(place)), expected)


@pytest.mark.parametrize("blank", ["\u00a0", "\u3000", "\u2028", "\u0085", "\x1c"])
def test_only_ascii_blanks_separate(blank: str) -> None:
    """A key, a word and a file name may have other ones, as in Kaldi, wherever they stand."""
    key, word = f"{blank}a{blank}", f"b{blank}c"
    with token_writer(f"ark,scp,t:{blank}x.ark,x.scp") as writer:
        writer.write(key, word)
    for table in (f"ark:{blank}x.ark", "scp:x.scp"):
        assert list(open_token_table(table)) == [(key, word)]
        assert list(open_words_table(table)) == [(key, [word])]
    with matrix_writer("ark,scp,t:m.ark,m.scp") as matrices:
        matrices.write(key, np.eye(2))
    assert [found for found, _ in open_matrix_table("scp:m.scp")] == [key]
    for wrong in ("", "a b", "a\n", "\t"):
        with pytest.raises(TableError, match="cannot be a key"), matrix_writer("ark:none") as matrices:
            matrices.write(wrong, np.eye(2))


def large() -> dict[str, np.ndarray]:
    return {
        f"u{k}": RANDOM.normal(size=(size, 10)).astype(np.float32) for k, size in enumerate([1, 30000, 3, 9000, 0, 2])
    }


@pytest.mark.parametrize("options", ["", "t,"])
def test_entries_across_the_chunks_of_a_stream(options: str) -> None:
    matrices = large()
    write_matrices(f"{options}ark:x.ark", matrices)
    matrices["u4"] = np.empty((0, 0))
    assert same(open_matrix_table("ark:cat x.ark |"), matrices)
    assert same(open_matrix_table("ark:dd bs=100 if=x.ark status=none |"), matrices)
    with random_access_matrices("ark:cat x.ark |") as table:
        assert np.array_equal(table["u5"], matrices["u5"])
        assert np.array_equal(table["u1"], matrices["u1"])


def test_standard_input_and_output(monkeypatch: pytest.MonkeyPatch) -> None:
    output = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=output))
    write_matrices("ark:-", MATRICES)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(output.getvalue())))
    assert same(open_matrix_table("ark:-"), MATRICES)


@pytest.mark.parametrize("rspecifier", ["ark:x.ark", "scp:x.scp", "o,ark:cat x.ark |"])
def test_entries_are_found_by_key_in_any_order(rspecifier: str) -> None:
    write_matrices("ark,scp:x.ark,x.scp", MATRICES)
    with random_access_matrices(rspecifier) as table:
        for key in ("utt2", "utt3", "utt1"):
            assert key in table
            assert np.array_equal(table[key], MATRICES[key])
            assert (table.get(key) is None) == table.specifier.once
        assert "none" not in table
        assert table.get("none") is None
        with pytest.raises(TableError, match="there is no entry 'none'"):
            table["none"]


def test_sorted_tables_are_read_no_further_than_needed() -> None:
    Path("x.ark").write_text("a 1\nc 3\nd 4\nb 2\n")
    table = random_access_int_vectors("s,cs,ark:x.ark")
    assert "b" not in table
    assert table["c"].tolist() == [3]
    assert "a" not in table  # forgotten, since keys are asked for in order
    assert table["d"].tolist() == [4]
    with pytest.raises(TableError, match="'d', 'b' are not sorted"):
        table.get("e")


def test_duplicate_keys_are_refused() -> None:
    Path("x.ark").write_text("a 1\na 2\n")
    with pytest.raises(TableError, match="'a' occurs more than once"):
        random_access_int_vectors("ark:x.ark").get("b")
    Path("x.scp").write_text("a x.ark:2\na x.ark:2\n")
    with pytest.raises(TableError, match="occurs more than once"):
        random_access_int_vectors("scp:x.scp")


def test_permissive_tables_leave_out_what_is_missing(caplog: pytest.LogCaptureFixture) -> None:
    write_matrices("ark,scp:x.ark,x.scp", MATRICES)
    lines = Path("x.scp").read_text().splitlines()
    Path("x.scp").write_text("\n".join(["bad none.ark:5", *lines, "worse x.ark:1"]))
    assert same(open_matrix_table("p,scp:x.scp"), MATRICES)
    assert "none.ark" in caplog.text
    table = random_access_matrices("p,scp:x.scp")
    assert "bad" not in table
    assert "utt1" in table
    assert table.get("worse") is None
    Path("x.ark").write_bytes(Path("x.ark").read_bytes()[:-1])
    assert same(open_matrix_table("p,ark:x.ark"), {key: MATRICES[key] for key in ("utt3", "utt1")})


@pytest.mark.parametrize(
    ("rspecifier", "message"),
    [
        ("ark:none.ark", "ark:none.ark: cannot read none.ark: No such file"),
        ("scp:none.scp", "scp:none.scp: cannot read none.scp: No such file"),
        ("ark:.", "s a directory"),
        ("ark:bad.ark", "the entry 'utt3': bad.ark: byte 10: an integer takes 5 bytes"),
        ("ark:false |", "the command failed with status 1"),
        ("ark:cat x.ark; exit 3 |", "the command failed with status 3"),
        ("ark:no-such-command-at-all 2>/dev/null |", "the command failed with status 127"),
        ("ark:head -c 60 x.ark |", "the entry 'utt3': "),
        ("scp:bad.scp", "bad.scp, line 2: expected 'KEY FILENAME', got 'utt1'"),
        ("scp:missing.scp", "the entry 'a': cannot read none.ark: No such file"),
        ("scp:far.scp", "there is nothing at position 99999"),
        ("scp:end.scp", "there is nothing at position "),
        ("ark:huge.ark", "the entry 'u': huge.ark: byte"),
        ("ark:garbage.ark", "expected a key with a blank behind it"),
        ("ark:header.ark", "header 00 42"),
        ("foo:x.ark", "'foo' is unknown"),
    ],
)
def test_bad_tables_are_refused(rspecifier: str, message: str) -> None:
    write_matrices("ark:x.ark", MATRICES)
    contents = Path("x.ark").read_bytes()
    Path("bad.ark").write_bytes(contents[:12])
    Path("bad.scp").write_text("utt0 x.ark\nutt1\n")
    Path("missing.scp").write_text("a none.ark:2\n")
    Path("far.scp").write_text("a x.ark:99999\n")
    Path("end.scp").write_text(f"a x.ark:{len(contents)}\n")
    Path("huge.ark").write_bytes(b"u \0BFM \4\xff\xff\xff\x7f\4\xff\xff\xff\x7f")
    Path("garbage.ark").write_bytes(contents + b"garbage")
    Path("header.ark").write_bytes(b"u \0C")
    with pytest.raises(TableError) as caught:
        list(open_matrix_table(rspecifier))
    assert message in str(caught.value)
    assert rspecifier in str(caught.value)


@pytest.mark.parametrize("source", ["x.ark", "cat x.ark |"])
def test_truncation_at_every_byte(source: str) -> None:
    write_matrices("ark:whole.ark", {"a": np.ones((1, 2)), "b": np.ones((1, 1))})
    contents = Path("whole.ark").read_bytes()
    for length in range(0, len(contents), 1 if source == "x.ark" else 7):
        Path("x.ark").write_bytes(contents[:length])
        if length in (0, contents.index(b"b \0")):
            assert len(list(open_matrix_table(f"ark:{source}"))) == (length > 0)
            continue
        with pytest.raises(TableError):
            list(open_matrix_table(f"ark:{source}"))


@needs_shared
def test_golden_archives_are_read_as_by_kaldi_native_io() -> None:
    archives = sorted((GOLDEN / "decode").glob("*/*.ark"))
    assert archives
    for path in archives:
        ours = dict(open_matrix_table(f"ark:{path}"))
        with kaldi_native_io.SequentialFloatMatrixReader(f"ark:{path}") as reader:
            expected = {key: np.array(matrix) for key, matrix in reader}
        assert list(ours) == list(expected)
        assert all(np.array_equal(ours[key], expected[key]) for key in ours)
