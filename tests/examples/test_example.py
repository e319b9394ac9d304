"""Examples in files: Kaldi's bytes, round trips, damage."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from nnet3.base.kaldi_io.general import dense
from nnet3.errors import ArgumentError, ModelFormatError, Nnet3Error, TableError
from nnet3.examples import EXAMPLES, Example, ExampleReader, NnetIo, example_writer, read_example
from nnet3.kaldi_io import CompressedMatrix, Reader, SparseMatrix, compress
from tests.effort import draws
from tests.shared_data import golden_cases
from tests.train.example_data import examples, frame_example, grid, written

TEXT = """<Nnet3Eg> <NumIo> 2 <NnetIo> input <I1V> 2 <I1> 0 0 0 <I1> 0 1 0  [
  1 2·
  3 4 ]
</NnetIo> <NnetIo> output <I1V> 1 <I1> 0 0 0 rows=1 dim=5 [ 3 1 ]·
</NnetIo> </Nnet3Eg> """.replace("·", " ")

_GOLDEN = [
    case / file
    for file in ("egs.ark", "merged.ark")
    for case in (*golden_cases("train", file), *golden_cases("xvector", file))
]


@pytest.mark.parametrize("path", _GOLDEN, ids=lambda path: "-".join(path.parts[-3:]))
def test_golden_archives_are_rewritten_byte_for_byte(path: Path, tmp_path: Path) -> None:
    copy, text = tmp_path / "copy.ark", tmp_path / "text.ark"
    _copy(path, f"ark:{copy}")
    assert copy.read_bytes() == (path).read_bytes()
    _copy(copy, f"ark,t:{text}")
    _copy(text, f"ark:{copy}")
    if b"CM" not in (path).read_bytes():  # text has no compressed matrices
        assert copy.read_bytes() == (path).read_bytes()


def _copy(source: Path, wspecifier: str) -> None:
    with ExampleReader(f"ark:{source}", EXAMPLES) as table, example_writer(wspecifier, EXAMPLES) as writer:
        for key, example in table:
            writer.write(key, example)
    assert writer.count > 2


def test_text_is_read_and_written_the_same() -> None:
    example = read_example(Reader(TEXT.encode()))
    assert [io.name for io in example.ios] == ["input", "output"]
    assert example.ios[0].indexes.tolist() == [[0, 0, 0], [0, 1, 0]]
    assert isinstance(example.ios[1].matrix, SparseMatrix)
    assert written(example, binary=False).decode() == TEXT
    assert example.num_sequences == 1
    assert example.io("output") is example.ios[1]
    assert example.io("ivector") is None
    assert Example((NnetIo("input", np.zeros((0, 3), np.int32), np.zeros((0, 1), np.float32)),)).num_sequences == 0


@given(examples())
def test_what_is_written_is_read_the_same(example: Example) -> None:
    contents = written(example)
    again = read_example(Reader(contents, binary=True))
    assert written(again) == contents
    for io, io_again in zip(example.ios, again.ios, strict=True):
        assert type(io_again.matrix) is type(io.matrix)
    text = written(example, binary=False)
    from_text = read_example(Reader(text, binary=False))
    assert written(from_text, binary=False) == text
    for io, io_again in zip(example.ios, from_text.ios, strict=True):
        np.testing.assert_array_equal(dense(io_again.matrix), dense(io.matrix))


def test_compressed_matrices_keep_their_codes() -> None:
    matrix = compress(np.arange(40, dtype=np.float32).reshape(10, 4))
    example = Example((NnetIo("input", grid(1, np.arange(10)), matrix),))
    again = read_example(Reader(written(example), binary=True))
    assert isinstance(again.ios[0].matrix, CompressedMatrix)
    np.testing.assert_array_equal(again.ios[0].matrix.codes, matrix.codes)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("<NumIo> 2", "<NumIo> 0", "an example cannot have 0 inputs and outputs"),
        ("<NumIo> 2", "<NumIo> 1000001", "an example cannot have 1000001"),
        ("<NumIo> 2", "<NumIo> 1000000", "expected <NnetIo>, got '</Nnet3Eg>'"),
        ("<NumIo> 2", "<NumIo> 3", "expected <NnetIo>, got '</Nnet3Eg>'"),
        ("<NumIo> 2", "<NumIo> 1", "expected </Nnet3Eg>, got '<NnetIo>'"),
        ("<I1V> 2 <I1> 0 0 0", "<I1V> 1", "'input' has 1 indexes, but a matrix of 2 rows"),
        ("<I1V> 2", "<I1V> 2000000000", "an index vector of 2000000000 elements takes"),
        ("rows=1 ", "rows=2000000000 ", "a sparse matrix of 2000000000 rows takes"),
        ("dim=5", "dim=3", "must ascend within 0..2"),
        ("3 4 ]", "3 4", "all rows must be equally long"),
        ("3 4 ]", "3 nan ]", "NaN"),
    ],
)
def test_damage_in_text(old: str, new: str, message: str) -> None:
    assert TEXT.count(old) == 1
    with pytest.raises(ModelFormatError, match=r"<bytes>: line \d+, column \d+: ") as error:
        read_example(Reader(TEXT.replace(old, new).encode()))
    assert message in str(error.value)


@settings(max_examples=draws(300))
@given(st.data())
def test_damaged_bytes_are_read_or_refused(data: st.DataObject) -> None:
    contents = bytearray(written(frame_example(np.random.default_rng(data.draw(st.integers(0, 9))))))
    for _ in range(data.draw(st.integers(1, 4))):
        contents[data.draw(st.integers(0, len(contents) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(contents)))
    try:
        example = read_example(Reader(contents[: cut or None], binary=True))
    except ModelFormatError:
        return
    written(example)


def _archive(tmp_path: Path, binary: bool) -> tuple[Path, list[Example]]:
    rng = np.random.default_rng(1)
    made = [frame_example(rng) for _ in range(6)]
    path = tmp_path / "egs.ark"
    with example_writer(f"ark{'' if binary else ',t'}:{path}", EXAMPLES) as writer:
        for number, example in enumerate(made):
            writer.write(f"eg-{number}", example)
    return path, made


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("binary", [True, False])
def test_a_damaged_record_is_an_error_or_skipped(tmp_path: Path, binary: bool, streamed: bool) -> None:
    path, made = _archive(tmp_path, binary)
    contents = path.read_bytes()
    at = contents.index(b"<NnetIo>", contents.index(b"eg-3"))
    path.write_bytes(contents[: at + 1] + b"!" + contents[at + 2 :])
    rspecifier = f"ark:cat {path} |" if streamed else f"ark:{path}"
    place = "" if streamed else rf"{path}: (byte {at}|line \d+, column \d+): "
    with ExampleReader(rspecifier, EXAMPLES) as table:
        entries = iter(table)
        assert [next(entries)[0] for _ in range(3)] == ["eg-0", "eg-1", "eg-2"]
        with pytest.raises(Nnet3Error, match=rf"{path}.*the entry 'eg-3': {place}expected <NnetIo>"):
            next(entries)
    for damaged in (ExampleReader(rspecifier, EXAMPLES, "skip"), ExampleReader(f"p,{rspecifier}", EXAMPLES)):
        kept = dict(damaged)
        assert list(kept) == ["eg-0", "eg-1", "eg-2", "eg-4", "eg-5"]
        assert written(kept["eg-4"]) == written(made[4])
        assert damaged.num_damaged == 1


@pytest.mark.parametrize("streamed", [False, True])
def test_many_damaged_records(tmp_path: Path, streamed: bool) -> None:
    """Keys, headers and ends too; records over several refills of a stream."""
    rng = np.random.default_rng(2)
    path = tmp_path / "egs.ark"
    with example_writer(f"ark:{path}", EXAMPLES) as writer:
        for number in range(60):
            writer.write(f"eg-{number}", frame_example(rng, frames=100))
    contents = path.read_bytes()
    contents = contents.replace(b" eg-7 ", b" eg\x00\xff ").replace(b" eg-20 \0B", b" eg-20 \0C")
    at = contents.index(b" eg-40 ")
    contents = contents[: at + 2000] + contents[at + 2700 :]
    path.write_bytes(contents[:-30])
    with ExampleReader(f"ark:cat {path} |" if streamed else f"ark:{path}", EXAMPLES, "skip") as table:
        keys = [key for key, _ in table]
    expected = [f"eg-{number}" for number in range(60) if number not in (7, 20, 40, 59)]
    assert [key for key in keys if key.isascii() and key.isprintable()] == expected
    assert len(keys) + table.num_damaged == 60


def test_a_script_with_a_damaged_entry(tmp_path: Path) -> None:
    path, made = _archive(tmp_path, binary=True)
    script = tmp_path / "egs.scp"
    with ExampleReader(f"ark:{path}", EXAMPLES) as table, example_writer(f"ark,scp:{path},{script}", EXAMPLES) as out:
        for key, example in table:
            out.write(key, example)
    contents = path.read_bytes()
    path.write_bytes(contents.replace(b"eg-2 \0B<Nnet3Eg>", b"eg-2 \0B<Nnet3EG>"))
    with pytest.raises(TableError, match=r"the entry 'eg-2': .*expected <Nnet3Eg>, got '<Nnet3EG>'"):
        list(ExampleReader(f"scp:{script}", EXAMPLES))
    with ExampleReader(f"scp:{script}", EXAMPLES, "skip") as table:
        assert [key for key, _ in table] == ["eg-0", "eg-1", "eg-3", "eg-4", "eg-5"]
    assert table.num_damaged == 1
    assert len(made) == 6


def test_an_unknown_policy_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="'error' or 'skip', got 'ignore'"):
        ExampleReader(f"ark:{_archive(tmp_path, True)[0]}", EXAMPLES, "ignore")  # type: ignore[arg-type]
