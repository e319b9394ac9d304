"""Files and tables of FSTs: against Kaldi's own files, OpenFst, and damage."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nnet3.errors import ModelFormatError, TableError
from nnet3.kaldi_io import Fst, Reader, fst_writer, load_fst, open_fst_table, random_access_fsts, read_fst, save_fst
from tests.kaldi_io.fst_bytes import WORKED, WORKED_BYTES, fst_bytes, fst_from
from tests.kaldi_io.random_fsts import random_fst, same
from tests.shared_data import GOLDEN, needs_shared


def test_a_worked_example_has_its_bytes_and_text() -> None:
    assert fst_bytes(WORKED, acceptor=True) == WORKED_BYTES
    assert same(fst_from(WORKED_BYTES), WORKED)
    text = b"\n0\t1\t1\t1\t0.5\n1\t2\t3\t3\n2\n\n"
    assert fst_bytes(WORKED, binary=False) == text
    read = fst_from(text, binary=False)
    assert same(read, WORKED)
    assert read.olabel is read.ilabel, "equal labels take memory once"


@pytest.mark.parametrize("seed", range(100))
def test_what_is_written_is_read_the_same(seed: int) -> None:
    fst = random_fst(np.random.default_rng(seed))
    assert same(fst_from(fst_bytes(fst)), fst)
    if fst.is_acceptor:
        assert same(fst_from(fst_bytes(fst, acceptor=True)), fst)
    else:
        with pytest.raises(ModelFormatError, match="whose input and output labels differ"):
            fst_bytes(fst, acceptor=True)
    again = fst_from(fst_bytes(fst, binary=False), binary=False)
    assert again.start == fst.start
    for name in ("offsets", "dst", "ilabel", "olabel", "final"):
        assert np.array_equal(getattr(again, name), getattr(fst, name)), name
    np.testing.assert_allclose(again.cost, fst.cost, rtol=1e-6)


def test_the_empty_one() -> None:
    assert fst_from(fst_bytes(Fst.empty())).num_states == 0
    assert fst_from(fst_bytes(Fst.empty(), acceptor=True)).num_states == 0
    assert fst_bytes(Fst.empty(), binary=False) == b"\n\n"
    assert fst_from(b"\n\n", binary=False).num_states == 0


@pytest.mark.parametrize(
    "path", sorted(GOLDEN.glob("chain/*/*.fst")), ids=lambda path: f"{path.parent.name}-{path.name}"
)
def test_golden_files_are_written_as_they_were(path: Path, tmp_path: Path) -> None:
    fst = load_fst(str(path))
    save_fst(fst, str(tmp_path / "again"))
    assert (tmp_path / "again").read_bytes() == path.read_bytes()
    printed = path.with_suffix(".fst.txt")
    if printed.exists():
        # As fstprint has it: without the newline before and the empty line behind
        assert same(fst_from(b"\n" + printed.read_bytes() + b"\n", binary=False), fst)


def _rounded(fst: Fst) -> Fst:
    """With costs of as many digits as text has."""
    return fst_from(fst_bytes(fst, binary=False), binary=False)


@needs_shared
def test_golden_table_is_written_as_it_was(tmp_path: Path) -> None:
    source = GOLDEN / "chain/e2e/graphs.ark"
    with fst_writer(f"ark:{tmp_path}/again") as table, fst_writer(f"ark,t:{tmp_path}/text") as text:
        for key, fst in open_fst_table(f"ark:{source}"):
            table.write(key, fst)
            text.write(key, fst)
    assert (tmp_path / "again").read_bytes() == source.read_bytes()
    for key, fst in open_fst_table(f"ark:{tmp_path}/text"):
        assert same(fst, _rounded(random_access_fsts(f"ark:{source}")[key]))


@pytest.mark.parametrize("seed", range(30))
def test_openfst_reads_and_writes_the_same(seed: int, tmp_path: Path) -> None:
    kaldifst = pytest.importorskip("kaldifst")
    fst = random_fst(np.random.default_rng(seed))
    save_fst(fst, str(tmp_path / "ours"))
    peer = kaldifst.StdVectorFst.read(str(tmp_path / "ours"))
    assert (peer.start, peer.num_states) == (fst.start, fst.num_states)
    assert peer.write(str(tmp_path / "theirs"))
    assert same(load_fst(str(tmp_path / "theirs")), fst)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n0 1 1\n\n", "line 2, column 1: line 1 of this FST has 3 fields: expected 1, 2, 4 or 5: '0 1 1'"),
        ("\n0 1 1 x 1\n\n", "a state or label of an FST must be a whole number, got 'x'"),
        ("\n0 1 1 1.5 1\n\n", "must be a whole number, got '1.5'"),
        ("\n0 -1 1 1\n\n", "must be a whole number, got '-1'"),
        ("\n0 1 1 1 nan\n\n", "arc 0 has the cost nan"),
        ("\n0 1 1 1 Infinity\n\n", "arc 0 has the cost inf"),
        ("\n0 1 1 1 one\n\n", "a cost of an FST must be a number, got 'one'"),
        ("\n0 1000000000 1 1\n\n", "state 1000000000 is more than an FST of 17 characters can have"),
        ("\n0 1 4294967297 1\n\n", "must be a whole number, got '4294967297'"),
        (f"\n0 1 1 1 {'1' * 999}\n\n", "a cost of an FST must be a number, got '1111"),
        (" 0 1 1 1\n\n", "expected an FST as text, which begins with a newline"),
    ],
)
def test_damaged_text_is_refused(text: str, message: str) -> None:
    with pytest.raises(ModelFormatError, match=message):
        fst_from(text.encode(), binary=False)


def test_table_says_which_entry_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"utt1 " + fst_bytes(WORKED)[:-3])
    with pytest.raises(TableError, match=r"the entry 'utt1': .*state 2 of 3 of an FST is not there"):
        list(open_fst_table(f"ark:{tmp_path}/x"))


@pytest.mark.parametrize("kind", ["vector", "acceptor", "text"])
def test_mutations_are_read_or_refused(kind: str) -> None:
    random = np.random.default_rng(5)
    fst = Fst.from_arcs(
        0, [np.inf, 0.5, 0, 2], [0, 0, 1, 2, 3], [1, 2, 1, 3, 0], [1, 2, 2, 3, 1], random.normal(size=5)
    )
    whole = fst_bytes(fst, binary=kind != "text", acceptor=kind == "acceptor")
    refused = 0
    for _ in range(2000):
        mutated = bytearray(whole)
        for at in random.integers(0, len(whole), random.integers(1, 4)):
            mutated[at] = random.choice([0, 1, 2, 9, 10, 32, 46, 48, 57, 101, 127, 128, 255])
        cut = mutated[: random.integers(0, len(whole) + 1)] if random.random() < 0.2 else mutated
        try:
            read_fst(Reader(cut, binary=kind != "text"))
        except ModelFormatError:
            refused += 1
    assert 500 < refused < 2000
