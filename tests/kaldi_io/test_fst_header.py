"""Headers of OpenFst's files: which types of which versions are read, and what is said of others."""

from __future__ import annotations

import struct

import pytest

from nnet3.base.kaldi_io.fst_header import COMPACT, CONST, LOOKAHEAD, NGRAM, VECTOR, FstHeader, read_fst_header
from nnet3.errors import ModelFormatError
from nnet3.kaldi_io import Reader
from tests.kaldi_io.graph_bytes import MAGIC, header, symbol_table

KINDS = VECTOR, COMPACT, CONST, LOOKAHEAD, NGRAM
VERSIONS = {VECTOR: {2}, COMPACT: {1, 2}, CONST: {1, 2}, LOOKAHEAD: {1}, NGRAM: {4}}


def _read(contents: bytes) -> FstHeader:
    return read_fst_header(Reader(contents, binary=True), KINDS)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_versions(kind: str, version: int) -> None:
    contents = header(kind, version, 3, 7, 9)
    if version in VERSIONS[kind]:
        found = _read(contents)
        assert (found.kind, found.start, found.states, found.arcs) == (kind, 3, 7, 9)
        return
    with pytest.raises(ModelFormatError, match=f"of an FST of type {kind}, got {version}"):
        _read(contents)


@pytest.mark.parametrize("before", [b"", b"abc"])
def test_tables_of_aligned_files_begin_at_multiples_of_16(before: bytes) -> None:
    for contents, aligned in ((header(CONST, 1), True), (header(CONST, 2, flags=4), True), (header(CONST, 2), False)):
        reader = Reader(before + contents + bytes(20), binary=True)
        reader.position = len(before)
        found = read_fst_header(reader, KINDS)
        behind = reader.position
        found.align(reader)
        assert reader.position == (-(-behind // 16) * 16 if aligned else behind)


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (MAGIC + struct.pack("<i", 257), "a type of an FST has no name of 257 bytes"),
        (MAGIC + struct.pack("<i", -2), "the type of an FST cannot have -2 bytes"),
        (header("edit", 1), "expected an FST of type vector or compact_acceptor or .*, got 'edit'; fstconvert"),
        (
            header(CONST, 2).replace(b"standard", b"log_arcs"),
            "expected an FST with arcs of type standard, got 'log_arcs'",
        ),
        (header(CONST, 2, states=-1), "an FST cannot have -1 states"),
        (header(CONST, 2, flags=1), "a symbol table takes 4 bytes, but only 0 are left"),
        (header(CONST, 2, flags=3) + symbol_table({1: "a"}) + b"none", "expected a symbol table, as the header"),
    ],
)
def test_headers_that_are_none(contents: bytes, message: str) -> None:
    with pytest.raises(ModelFormatError, match=message):
        _read(contents)
