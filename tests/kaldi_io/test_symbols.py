"""Symbol tables of graphs, in binary files and as text."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from nnet3.base.kaldi_io.graph_file import load_graph
from nnet3.base.kaldi_io.symbols import load_symbols
from nnet3.errors import ModelFormatError
from nnet3.kaldi_io import Fst
from tests.kaldi_io.graph_bytes import const_bytes, header, symbol_table

SMALL = Fst.from_arcs(0, [np.inf, 0.5], [0, 0], [1, 1], [1, 2], [0.25, 1], [3, 0])
BODY = const_bytes(SMALL)[len(header("const", 2)) :]
WORDS = {0: "<eps>", 1: "안녕", 2: "", 7: "word"}


@pytest.fixture(autouse=True, params=["in C", "one by one"])
def _by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "one by one":
        monkeypatch.setattr("nnet3.base.kaldi_io.symbols.little_endian_library", lambda: None)


@pytest.mark.parametrize("flags", [0, 1, 2, 3])
def test_tables_stand_with_their_side(tmp_path: Path, flags: int) -> None:
    tables = symbol_table(WORDS) * (flags & 1) + symbol_table({0: "<eps>"} if flags == 2 else WORDS) * (flags >> 1)
    (tmp_path / "graph.fst").write_bytes(header("const", 2, 0, 2, 2, flags) + tables + BODY)
    graph = load_graph(tmp_path / "graph.fst")
    assert (graph.input_symbols is not None, graph.output_symbols is not None) == (bool(flags & 1), bool(flags & 2))
    if graph.input_symbols is not None:
        assert graph.input_symbols.names == WORDS
    if graph.output_symbols is not None:
        assert graph.output_symbols.names == ({0: "<eps>"} if flags == 2 else WORDS)


def test_different_tables_of_both_sides(tmp_path: Path) -> None:
    tables = symbol_table(WORDS) + symbol_table({4: "four"})
    (tmp_path / "graph.fst").write_bytes(header("const", 2, 0, 2, 2, 3) + tables + BODY)
    graph = load_graph(tmp_path / "graph.fst")
    assert graph.input_symbols is not None
    assert graph.output_symbols is not None
    assert (graph.input_symbols.labels["안녕"], graph.output_symbols[4]) == (1, "four")
    with pytest.raises(ModelFormatError, match=r"graph\.fst: the symbol table has no label 5: does it belong"):
        graph.output_symbols[5]


def test_names_are_looked_up_one_by_one_or_listed(tmp_path: Path) -> None:
    """Of two names of a label the first one holds; labels come in the order of the file."""
    table = symbol_table({9: "nine", 5: "five", 7: "again"})
    table = table.replace(b"again" + struct.pack("<q", 7), b"again" + struct.pack("<q", 9))
    (tmp_path / "graph.fst").write_bytes(header("const", 2, 0, 2, 2, 1) + table + BODY)
    symbols = load_graph(tmp_path / "graph.fst").input_symbols
    assert symbols is not None
    assert len(symbols) == 2
    assert list(symbols.names.items()) == [(9, "nine"), (5, "five")]
    assert symbols.labels == {"nine": 9, "five": 5}
    for label in (-1, 4, 6, 10, 1 << 40):
        assert label not in symbols.names


@pytest.mark.parametrize("length", [127, 128, 255, 256, 70_000])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_long_words(tmp_path: Path, length: int, place: int) -> None:
    words = {0: "<eps>", 1: "a", 2: "b"} | {place: "long" * (length // 4) + "l" * (length % 4)}
    (tmp_path / "graph.fst").write_bytes(header("const", 2, 0, 2, 2, 1) + symbol_table(words) + BODY)
    graph = load_graph(tmp_path / "graph.fst")
    assert graph.input_symbols is not None
    assert graph.input_symbols.names == words


def test_a_symbol_that_the_file_cannot_hold(tmp_path: Path) -> None:
    for length in (1 << 30, -1, -(1 << 31)):
        table = bytearray(symbol_table(WORDS))
        table[24:28] = struct.pack("<i", length)
        (tmp_path / "graph.fst").write_bytes(header("const", 2, 0, 2, 2, 1) + table + BODY)
        with pytest.raises(ModelFormatError, match="a symbol table of 4 symbols is not there"):
            load_graph(tmp_path / "graph.fst")


def test_tables_of_both_sides_that_are_long(tmp_path: Path) -> None:
    """They are compared block by block."""
    words = {label: f"word{label}" for label in range(8000)}
    table, other = symbol_table(words), symbol_table(words | {7999: "another"})
    for second in (table, other):
        (tmp_path / "graph.fst").write_bytes(header("const", 2, 0, 2, 2, 3) + table + second + BODY)
        graph = load_graph(tmp_path / "graph.fst")
        assert (graph.output_symbols is graph.input_symbols) == (second is table)


def test_words_of_a_text(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("<eps> 0\n\none 1\none 1\ntwo\t12\n", encoding="utf-8")
    symbols = load_symbols(tmp_path / "words.txt")
    assert symbols.names == {0: "<eps>", 1: "one", 12: "two"}
    assert len(symbols) == 3


def test_a_label_of_two_words(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("<eps> 0\none 1\nuno 1\n")
    with pytest.raises(ModelFormatError, match="line 3: the label 1 is that of 'one' already, got it for 'uno' too"):
        load_symbols(tmp_path / "words.txt")


@pytest.mark.parametrize("line", [b"word", b"word x", b"two words 3", b"word -1", b"w\xff 3"])
def test_lines_that_are_no_words(tmp_path: Path, line: bytes) -> None:
    (tmp_path / "words.txt").write_bytes(b"<eps> 0\n" + line + b"\n")
    with pytest.raises(ModelFormatError, match="line 2: expected a word and its label"):
        load_symbols(tmp_path / "words.txt")
