"""FSTs in files and tables, text or binary. They stand there without the header 00 42 of Kaldi's other objects."""

from __future__ import annotations

from nnet3.kaldi_io.fst import Fst
from nnet3.kaldi_io.fst_binary import read_binary_fst, write_compact_acceptor, write_vector_fst
from nnet3.kaldi_io.fst_text import read_text_fst, write_text_fst
from nnet3.kaldi_io.load import open_rxfilename, write_wxfilename
from nnet3.kaldi_io.reader import Reader
from nnet3.kaldi_io.table_writer import TableWriter
from nnet3.kaldi_io.tables import RandomAccessTable, TableReader
from nnet3.kaldi_io.writer import Writer


def read_fst(reader: Reader) -> Fst:
    """The FST that begins here: as text, which begins with white space, or binary. Raises ModelFormatError."""
    first = reader.raw_byte_peek()
    if first is not None and bytes([first]).isspace():
        return read_text_fst(reader)
    binary, reader.binary = reader.binary, True  # errors say at which byte
    fst = read_binary_fst(reader)
    reader.binary = binary
    return fst


def write_fst(writer: Writer, fst: Fst) -> None:
    """As a file or an entry of a table: type `vector` in binary."""
    if writer.binary:
        write_vector_fst(writer, fst)
    else:
        write_text_fst(writer, fst)


def write_acceptor(writer: Writer, fst: Fst) -> None:
    """As it stands inside other objects: type `compact_acceptor` in binary."""
    if writer.binary:
        write_compact_acceptor(writer, fst)
    else:
        write_text_fst(writer, fst)


def load_fst(name: str) -> Fst:
    """The FST in a file (or what else a user may name as input). ModelFormatError says what is wrong with it."""
    reader = open_rxfilename(name)
    fst = read_fst(reader)
    reader.finish()
    return fst


def save_fst(fst: Fst, name: str) -> None:
    """Put it where a user said, as type `vector`."""
    writer = Writer(binary=True)
    write_vector_fst(writer, fst)
    write_wxfilename(name, writer)


def open_fst_table(rspecifier: str) -> TableReader[Fst]:
    """Iterates over (key, FST)."""
    return TableReader(rspecifier, read_fst)


def random_access_fsts(rspecifier: str) -> RandomAccessTable[Fst]:
    """FSTs by key."""
    return RandomAccessTable(rspecifier, read_fst)


def fst_writer(wspecifier: str) -> TableWriter[Fst]:
    return TableWriter(wspecifier, write_fst, header=False)
