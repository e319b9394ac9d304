"""Graphs for recognizers, in files of all OpenFst types, with their symbol tables."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from nnet3.base.kaldi_io.files import map_file
from nnet3.base.kaldi_io.fst import Fst
from nnet3.base.kaldi_io.fst_binary import read_compact, read_vector
from nnet3.base.kaldi_io.fst_const import LabelReach, read_const, read_lookahead
from nnet3.base.kaldi_io.fst_header import COMPACT, CONST, LOOKAHEAD, NGRAM, VECTOR, FstHeader, read_fst_header
from nnet3.base.kaldi_io.fst_ngram import NgramFst, read_ngram
from nnet3.base.kaldi_io.reader import Reader
from nnet3.base.kaldi_io.symbols import SymbolTable
from nnet3.errors import ModelFormatError

_READERS: Mapping[str, Callable[[Reader, FstHeader], Fst | NgramFst]] = {
    VECTOR: read_vector,
    COMPACT: read_compact,
    CONST: read_const,
    NGRAM: read_ngram,
}


@dataclass(frozen=True, eq=False)
class GraphFile:
    """An FST or an n-gram model, the labels reached by its states (of type `olabel_lookahead`), and the symbol tables
    of the file.
    """

    content: Fst | NgramFst
    reach: LabelReach | None
    input_symbols: SymbolTable | None
    output_symbols: SymbolTable | None

    @cached_property
    def fst(self) -> Fst:
        """The FST, or that for which the n-gram model stands."""
        return self.content.fst() if isinstance(self.content, NgramFst) else self.content


def load_graph(path: str | os.PathLike[str]) -> GraphFile:
    """Reads a file of type vector, compact_acceptor, const, olabel_lookahead or ngram. Raises ModelFormatError."""
    return read_graph(Reader(map_file(path), os.fspath(path), binary=True))


def read_graph(reader: Reader) -> GraphFile:
    """Reads a graph that must end where the reader does. Raises ModelFormatError."""
    reader.binary = True
    header = read_fst_header(reader, (*_READERS, LOOKAHEAD))
    try:
        graph = _read(reader, header)
    except ModelFormatError as error:
        raise error if error.place else reader.error_at(0, f"a damaged FST: {error.message}") from None
    if reader.left:
        raise reader.error(f"the FST should end here, but {reader.left} bytes follow")
    return graph


def _read(reader: Reader, header: FstHeader) -> GraphFile:
    symbols = header.input_symbols, header.output_symbols
    if header.kind != LOOKAHEAD:
        return GraphFile(_READERS[header.kind](reader, header), None, *symbols)
    inner, fst, reach = read_lookahead(reader)
    return GraphFile(fst, reach, symbols[0] or inner.input_symbols, symbols[1] or inner.output_symbols)
