"""Files and tables of FSTs: against Kaldi's own files, OpenFst, and damage."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from nnet3.errors import ModelFormatError, TableError
from nnet3.kaldi_io import (
    Fst,
    Reader,
    Writer,
    fst_writer,
    load_fst,
    open_fst_table,
    random_access_fsts,
    read_fst,
    save_fst,
    write_acceptor,
    write_fst,
)
from tests.kaldi_io.random_fsts import random_fst, same
from tests.shared_data import GOLDEN, needs_shared

WORKED = Fst.from_arcs(0, [np.inf, np.inf, 0], [0, 1], [1, 2], [1, 3], [0.5, 0])
WORKED_BYTES = bytes.fromhex(
    "d6fdb27e 10000000 636f6d706163745f6163636570746f72 08000000 7374616e64617264 02000000 00000000"
    "0100955a69950000 0000000000000000 0300000000000000 0200000000000000"
    "00000000 01000000 02000000 03000000"
    "01000000 0000003f 01000000  03000000 00000000 02000000  ffffffff 00000000 ffffffff"
)


def _written(fst: Fst, binary: bool = True, acceptor: bool = False) -> bytes:
    writer = Writer(binary)
    (write_acceptor if acceptor else write_fst)(writer, fst)
    return writer.getvalue()


def _reading(contents: bytes, binary: bool = True) -> Fst:
    reader = Reader(contents, binary=binary)
    fst = read_fst(reader)
    assert reader.position == len(contents)
    return fst


def test_worked_bytes() -> None:
    assert _written(WORKED, acceptor=True) == WORKED_BYTES
    assert same(_reading(WORKED_BYTES), WORKED)
    text = b"\n0\t1\t1\t1\t0.5\n1\t2\t3\t3\n2\n\n"
    assert _written(WORKED, binary=False) == text
    read = _reading(text, binary=False)
    assert same(read, WORKED)
    assert read.olabel is read.ilabel, "equal labels take memory once"


@pytest.mark.parametrize("seed", range(100))
def test_round_trips(seed: int) -> None:
    fst = random_fst(np.random.default_rng(seed))
    assert same(_reading(_written(fst)), fst)
    if fst.is_acceptor:
        assert same(_reading(_written(fst, acceptor=True)), fst)
    else:
        with pytest.raises(ModelFormatError, match="whose input and output labels differ"):
            _written(fst, acceptor=True)
    again = _reading(_written(fst, binary=False), binary=False)
    assert again.start == fst.start
    for name in ("offsets", "dst", "ilabel", "olabel", "final"):
        assert np.array_equal(getattr(again, name), getattr(fst, name)), name
    np.testing.assert_allclose(again.cost, fst.cost, rtol=1e-6)


def test_the_empty_one() -> None:
    assert _reading(_written(Fst.empty())).num_states == 0
    assert _reading(_written(Fst.empty(), acceptor=True)).num_states == 0
    assert _written(Fst.empty(), binary=False) == b"\n\n"
    assert _reading(b"\n\n", binary=False).num_states == 0


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
        assert same(_reading(b"\n" + printed.read_bytes() + b"\n", binary=False), fst)


def _rounded(fst: Fst) -> Fst:
    """With costs of as many digits as text has."""
    return _reading(_written(fst, binary=False), binary=False)


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


@pytest.mark.parametrize(("of_input", "of_output"), [(True, True), (True, False), (False, True)])
def test_symbol_tables_are_passed_over(tmp_path: Path, of_input: bool, of_output: bool) -> None:
    kaldifst = pytest.importorskip("kaldifst")
    symbols = kaldifst.SymbolTable.from_str("<eps> 0\na 1\nbee 2\n")
    peer = kaldifst.compile(
        "0 1 a bee 0.5\n1\n", isymbols=symbols, osymbols=symbols, keep_isymbols=of_input, keep_osymbols=of_output
    )
    assert peer.write(str(tmp_path / "with_symbols"))
    assert b"bee" in (tmp_path / "with_symbols").read_bytes()
    assert same(load_fst(str(tmp_path / "with_symbols")), Fst.from_arcs(0, [np.inf, 0], [0], [1], [1], [0.5], [2]))


def _symbols(name: bytes, symbols: list[bytes], count: int | None = None) -> bytes:
    """A table as OpenFst writes it: magic, name, next free key, number of symbols, symbols with their keys."""
    head = struct.pack("<ii", 2125658996, len(name)) + name
    count = len(symbols) if count is None else count
    entries = (struct.pack("<i", len(text)) + text + struct.pack("<q", key) for key, text in enumerate(symbols))
    return head + struct.pack("<qq", len(symbols), count) + b"".join(entries)


@pytest.mark.parametrize("name", [b"", b"words"])
@pytest.mark.parametrize("symbols", [[], [b"<eps>", b"", b"word"]])
def test_symbol_tables_of_any_names(name: bytes, symbols: list[bytes]) -> None:
    header, body = WORKED_BYTES[:76], WORKED_BYTES[76:]
    flagged = header[:40] + struct.pack("<i", 1) + header[44:]
    assert same(_reading(flagged + _symbols(name, symbols) + body), WORKED)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (_symbols(b"", [], count=-1), "a symbol table of -1 symbols is more than the file can hold"),
        (_symbols(b"", [], count=6), "a symbol table of 6 symbols is more than the file can hold"),
        (_symbols(b"", [], count=5), "3 states of an FST takes 16 bytes, but only 0 are left"),  # all five are empty
        (_symbols(b"", [])[:4] + struct.pack("<i", -1), "a symbol table cannot have -1 bytes"),
    ],
)
def test_damaged_symbol_tables(table: bytes, message: str) -> None:
    flagged = WORKED_BYTES[:40] + struct.pack("<i", 1) + WORKED_BYTES[44:76]
    with pytest.raises(ModelFormatError, match=message):
        _reading(flagged + table + bytes(60))


@pytest.mark.parametrize(("count", "state"), [(-1, 0), (3, 0), (1 << 40, 0)])
def test_arcs_that_a_file_cannot_hold(count: int, state: int) -> None:
    whole = _written(WORKED)
    place = whole.index(struct.pack("<fq", np.inf, 1)) + 4
    changed = whole[:place] + struct.pack("<q", count) + whole[place + 8 :]
    with pytest.raises(ModelFormatError, match=f"state {state} of an FST cannot have {count} arcs"):
        _reading(changed[: place + 8 + 40])


def test_aligned_form() -> None:
    """As version 1 has it: both tables begin at multiples of 16 of the position in the file."""
    header, offsets, elements = WORKED_BYTES[:76], WORKED_BYTES[76:92], WORKED_BYTES[92:]
    version_1 = header[:36] + struct.pack("<i", 1) + header[40:]
    flagged = header[:40] + struct.pack("<i", 4) + header[44:]
    for changed in (version_1, flagged):
        assert same(_reading(changed + bytes(4) + offsets + elements), WORKED)


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (b"", "the header of an FST takes 4 bytes"),
        (b"<Nnet3>", "begins with the bytes d6 fd b2 7e"),
        (WORKED_BYTES.replace(b"compact_acceptor", b"const_acceptorxx"), "got 'const_acceptorxx'; fstconvert"),
        (
            WORKED_BYTES.replace(b"standard", b"logarith"),
            "expected an FST with arcs of type standard, got 'logarith'",
        ),
        (
            WORKED_BYTES[:36] + b"\x09" + WORKED_BYTES[37:],
            "expected version 2 of an FST of type compact_acceptor, got 9",
        ),
        (WORKED_BYTES[:-1], "an FST with 3 arcs and final states takes 36 bytes, but only 35 are left"),
        (WORKED_BYTES[:60] + struct.pack("<q", 1 << 40) + WORKED_BYTES[68:], "an FST cannot have 1099511627776 states"),
        (WORKED_BYTES[:60] + struct.pack("<q", 1 << 30) + WORKED_BYTES[68:], "takes 4294967300 bytes"),
        (WORKED_BYTES[:68] + struct.pack("<q", 5) + WORKED_BYTES[76:], "says that it has 5 arcs, but it has 2"),
        (WORKED_BYTES[:76] + struct.pack("<4I", 0, 2, 1, 3) + WORKED_BYTES[92:], "do not increase from 0"),
        (
            WORKED_BYTES[:100] + struct.pack("<i", 3) + WORKED_BYTES[104:],
            "arc 0 leads to state 3, but there are 3 states",
        ),
        (WORKED_BYTES[:92] + struct.pack("<i", -1) + WORKED_BYTES[96:], "must come before the arcs of its state"),
        (WORKED_BYTES[:96] + struct.pack("<f", np.nan) + WORKED_BYTES[100:], "arc 0 has the cost nan"),
        (WORKED_BYTES[:40] + b"\x01" + WORKED_BYTES[41:], "expected a symbol table, as the header"),
    ],
)
def test_damaged_binary_files(contents: bytes, message: str) -> None:
    with pytest.raises(ModelFormatError, match=message):
        _reading(contents)


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
def test_damaged_text(text: str, message: str) -> None:
    with pytest.raises(ModelFormatError, match=message):
        _reading(text.encode(), binary=False)


def test_table_says_which_entry_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"utt1 " + _written(WORKED)[:-3])
    with pytest.raises(TableError, match=r"the entry 'utt1': .*state 2 of 3 of an FST is not there"):
        list(open_fst_table(f"ark:{tmp_path}/x"))


@pytest.mark.parametrize("kind", ["vector", "acceptor", "text"])
def test_mutations_are_read_or_refused(kind: str) -> None:
    random = np.random.default_rng(5)
    fst = Fst.from_arcs(
        0, [np.inf, 0.5, 0, 2], [0, 0, 1, 2, 3], [1, 2, 1, 3, 0], [1, 2, 2, 3, 1], random.normal(size=5)
    )
    whole = _written(fst, binary=kind != "text", acceptor=kind == "acceptor")
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
