"""FSTs in files and tables, text or binary, without the header 00 42 of Kaldi's other objects.

A text begins with a newline, has one line for each arc (`src dst ilabel olabel [cost]`) and final state
(`state [cost]`), and ends with an empty line. A cost that is left out is 0.
"""

from __future__ import annotations

import numpy as np

from nnet3.base.kaldi_io.fst import NOT_FINAL, Fst
from nnet3.base.kaldi_io.fst_binary import read_binary_fst, write_compact_acceptor, write_vector_fst
from nnet3.base.kaldi_io.fst_lines import read_lines
from nnet3.base.kaldi_io.load import open_rxfilename, write_wxfilename
from nnet3.base.kaldi_io.reader import Reader
from nnet3.base.kaldi_io.symbols import SymbolTable
from nnet3.base.kaldi_io.table_values import TableKind
from nnet3.base.kaldi_io.writer import Writer

# Templates of five arguments each; %.0s takes one and prints nothing
_ARC, _FREE_ARC = "%d\t%d\t%d\t%d\t%.7g\n", "%d\t%d\t%d\t%d%.0s\n"
_FINAL, _FREE_FINAL, _NOT_FINAL = "%d%.0s%.0s%.0s\t%.7g\n", "%d%.0s%.0s%.0s%.0s\n", "%d%.0s%.0s%.0s%.0s\tInfinity\n"


def read_fst(reader: Reader) -> Fst:
    """Reads an FST: text, which begins with white space, or binary. Raises ModelFormatError."""
    first = reader.raw_byte_peek()
    if first is not None and bytes([first]).isspace():
        return _read_text(reader)
    binary, reader.binary = reader.binary, True  # errors say at which byte
    fst = read_binary_fst(reader)
    reader.binary = binary
    return fst


def write_fst(writer: Writer, fst: Fst) -> None:
    """Writes a file or an entry of a table; in binary its type is `vector`."""
    if writer.binary:
        write_vector_fst(writer, fst)
    else:
        _write_text(writer, fst)


def write_acceptor(writer: Writer, fst: Fst) -> None:
    """Writes an FST inside another object; in binary its type is `compact_acceptor`."""
    if writer.binary:
        write_compact_acceptor(writer, fst)
    else:
        _write_text(writer, fst)


def _read_text(reader: Reader) -> Fst:
    lines = read_lines(reader, (1, 2, 4, 5))
    with lines.naming(reader):
        if not len(lines.fields):
            return Fst.empty()
        labels = lines.whole_numbers(lines.arcs[:, 2]), lines.whole_numbers(lines.arcs[:, 3])
        olabel = None if np.array_equal(*labels) else labels[1]
        final = lines.by_state(lines.costs(lines.ends[:, 1]), NOT_FINAL)
        return Fst.from_arcs(lines.start, final, lines.src, lines.dst, labels[0], lines.costs(lines.arcs[:, 4]), olabel)


def _write_text(writer: Writer, fst: Fst) -> None:
    """Writes the lines of the start state first."""
    states, arcs = np.arange(fst.num_states), np.arange(fst.num_arcs)
    said = (fst.final < np.inf) | (np.diff(fst.offsets) == 0)
    ends = np.where(fst.final == np.inf, _NOT_FINAL, np.where(fst.final == 0, _FREE_FINAL, _FINAL))[said]
    templates = np.concatenate([np.where(fst.cost == 0, _FREE_ARC, _ARC), ends])
    none = np.zeros(len(ends), np.int64)
    parts = (
        (fst.src, states[said]),
        *((a, none) for a in (fst.dst, fst.ilabel, fst.olabel)),
        (fst.cost, fst.final[said]),
    )
    columns = [np.concatenate(part).tolist() for part in parts]
    behind_arcs = np.concatenate([arcs, fst.offsets[1:][said] - 0.5])
    order = np.lexsort((behind_arcs, columns[0], np.asarray(columns[0]) != fst.start))
    arguments: list[object] = [None] * (5 * len(order))
    for number, column in enumerate(columns):
        arguments[number::5] = [column[line] for line in order.tolist()]
    writer.text("\n" + "".join(templates[order].tolist()) % tuple(arguments) + "\n")


def load_fst(name: str) -> Fst:
    """Reads the FST in a file, or in another input that a user may name. Raises ModelFormatError for a damaged one."""
    return open_rxfilename(name).whole(read_fst)


def save_fst(fst: Fst, name: str, symbols: SymbolTable | None = None) -> None:
    """Writes an FST of type `vector` to a file named by the user, with the symbols of input and output, if any."""
    write_wxfilename(name, fst_file(fst, symbols))


def fst_file(fst: Fst, symbols: SymbolTable | None = None) -> Writer:
    """Returns the contents of the file that `save_fst` writes."""
    writer = Writer(binary=True)
    write_vector_fst(writer, fst, symbols)
    return writer


_FSTS = TableKind(read_fst, write_fst, header=False)
open_fst_table, random_access_fsts, fst_writer = _FSTS.open, _FSTS.by_key, _FSTS.writer
