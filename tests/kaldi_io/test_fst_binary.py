"""Binary files of FSTs: symbol tables, alignment, claims that a file cannot hold, damage."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from nnet3.errors import ModelFormatError
from nnet3.kaldi_io import Fst, load_fst
from tests.kaldi_io.fst_bytes import WORKED, WORKED_BYTES, fst_bytes, fst_from
from tests.kaldi_io.random_fsts import same


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
    assert same(fst_from(flagged + _symbols(name, symbols) + body), WORKED)


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
        fst_from(flagged + table + bytes(60))


@pytest.mark.parametrize(("count", "state"), [(-1, 0), (3, 0), (1 << 40, 0)])
def test_arcs_that_a_file_cannot_hold(count: int, state: int) -> None:
    whole = fst_bytes(WORKED)
    place = whole.index(struct.pack("<fq", np.inf, 1)) + 4
    changed = whole[:place] + struct.pack("<q", count) + whole[place + 8 :]
    with pytest.raises(ModelFormatError, match=f"state {state} of an FST cannot have {count} arcs"):
        fst_from(changed[: place + 8 + 40])


def test_the_aligned_form_is_read() -> None:
    """As version 1 has it: both tables begin at multiples of 16 of the position in the file."""
    header, offsets, elements = WORKED_BYTES[:76], WORKED_BYTES[76:92], WORKED_BYTES[92:]
    version_1 = header[:36] + struct.pack("<i", 1) + header[40:]
    flagged = header[:40] + struct.pack("<i", 4) + header[44:]
    for changed in (version_1, flagged):
        assert same(fst_from(changed + bytes(4) + offsets + elements), WORKED)


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
        (fst_bytes(WORKED)[:-48], "3 states of an FST takes 36 bytes, but only 20 are left"),
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
        fst_from(contents)
