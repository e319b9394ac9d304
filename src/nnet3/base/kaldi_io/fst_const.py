"""OpenFst's types `const`, and `olabel_lookahead`: `const` with the output labels that come next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nnet3.base.kaldi_io.fst import Fst
from nnet3.base.kaldi_io.fst_header import CONST, FstHeader, read_fst_header, write_fst_header
from nnet3.base.kaldi_io.fst_properties import EXPANDED
from nnet3.base.kaldi_io.fst_records import RECORD_WORDS, record_starts
from nnet3.base.kaldi_io.reader import Reader
from nnet3.base.kaldi_io.writer import Writer

Integers = npt.NDArray[np.integer]
_STATE = np.dtype([("final", "<f4"), ("first", "<u4"), ("arcs", "<u4"), ("iepsilons", "<u4"), ("oepsilons", "<u4")])
_ARC = np.dtype([("ilabel", "<i4"), ("olabel", "<i4"), ("cost", "<f4"), ("dst", "<i4")])
_BLOCK = 1 << 18  # records
_ADD_ON_MAGIC = 446681434
_INTERVAL_WORDS = 2  # of 4 bytes
_AHEAD = "the look-ahead data of an FST"


@dataclass(frozen=True, eq=False)
class LabelReach:
    """The output labels that can come next on a path from each state of an FST.

    The labels of state q are all l with begin[i] <= l < end[i] for an i of offsets[q] .. offsets[q + 1] - 1;
    `final_label` among them says that the path can end without a label. offsets: (states + 1,) int64; begin, end:
    (intervals,) int32.
    """

    final_label: int
    offsets: Integers
    begin: Integers
    end: Integers


def read_const(reader: Reader, header: FstHeader) -> Fst:
    """Reads the table of states, then the table of arcs, both at multiples of 16 bytes if the file is aligned."""
    final, offsets = read_const_states(reader, header)
    names = "ilabel", "olabel", "cost", "dst"
    ilabel, olabel, cost, dst = _columns(reader, header.arcs, _ARC, names, "arcs of an FST")
    return Fst(header.start, final, offsets, ilabel, olabel, cost, dst)


def read_const_states(reader: Reader, header: FstHeader) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """Reads the table of states up to where that of arcs begins; returns their final costs and the offsets of arcs."""
    if header.arcs < 0:
        raise reader.error(f"an FST cannot have {header.arcs} arcs")
    reader.need(_STATE.itemsize * header.states + _ARC.itemsize * header.arcs, "the tables of an FST")
    header.align(reader)
    final, first, count = _columns(reader, header.states, _STATE, ("final", "first", "arcs"), "states of an FST")
    offsets = np.zeros(header.states + 1, np.int64)
    np.cumsum(count, out=offsets[1:])
    if offsets[-1] != header.arcs or ((first != offsets[:-1]) & (count > 0)).any():
        raise reader.error(f"the states of the FST do not share its {header.arcs} arcs in order")
    header.align(reader)
    return final, offsets


def write_const(writer: Writer, fst: Fst) -> None:
    """Writes what `read_const` reads, with its header, not aligned."""
    states, arcs = np.zeros(fst.num_states, _STATE), np.empty(fst.num_arcs, _ARC)
    states["final"], states["first"], states["arcs"] = fst.final, fst.offsets[:-1], np.diff(fst.offsets)
    for name, labels in (("iepsilons", fst.ilabel), ("oepsilons", fst.olabel)):
        states[name] = np.bincount(fst.src[labels == 0], minlength=fst.num_states)
    arcs["ilabel"], arcs["olabel"], arcs["cost"], arcs["dst"] = fst.ilabel, fst.olabel, fst.cost, fst.dst
    write_fst_header(writer, CONST, EXPANDED, fst, arcs=fst.num_arcs)
    writer.raw(states.tobytes())
    writer.raw(arcs.tobytes())


def _columns(reader: Reader, count: int, record: np.dtype, names: tuple[str, ...], what: str) -> list[npt.NDArray[Any]]:
    """Reads a table; returns some of its columns, (count,) each.

    Memory of a mapped file is given back block by block: a large file never lies in memory twice.
    """
    columns = [np.empty(count, record[name]) for name in names]
    for first in range(0, count, _BLOCK):
        block = reader.raw_array(min(_BLOCK, count - first), record, f"{count} {what}")
        for column, name in zip(columns, names, strict=True):
            column[first : first + len(block)] = block[name]
        reader.release()
    return columns


def read_lookahead(reader: Reader) -> tuple[FstHeader, Fst, LabelReach]:
    """Reads a whole FST of type `const`, its own header first, and the labels reached by its states, to the end."""
    header = read_inner_header(reader)
    fst = read_const(reader, header)
    return header, fst, read_reach(reader, fst.num_states)


def read_inner_header(reader: Reader) -> FstHeader:
    """Reads what is before the tables of the FST of type `const`."""
    if _number(reader, "<i4", _AHEAD) != _ADD_ON_MAGIC:
        raise reader.error(f"expected {_AHEAD}, as the header of the FST says")
    return read_fst_header(reader, (CONST,))


def read_reach(reader: Reader, num_states: int) -> LabelReach:
    """Reads the labels reached by states, which lie behind the tables of the FST."""
    reader.release()
    has_data, of_input, of_output, reaches_input, keeps_labels = reader.raw_array(5, "i1", _AHEAD).tolist()
    if (has_data, of_input, of_output, reaches_input) != (1, 0, 1, 0):
        raise reader.error(f"{_AHEAD} must be about output labels alone")
    if keeps_labels:
        labels = _number(reader, "<i8", _AHEAD)
        if labels < 0:
            raise reader.error(f"{_AHEAD} cannot have {labels} labels")
        reader.raw_array(2 * labels, "<i4", _AHEAD)
    final_label, states = _number(reader, "<i4", _AHEAD), _number(reader, "<i8", _AHEAD)
    if states != num_states:
        raise reader.error(f"{_AHEAD} is about {states} states, but there are {num_states}")
    intervals = _read_intervals(reader, states)
    reader.release()
    return LabelReach(final_label, *intervals)


def _number(reader: Reader, dtype: str, what: str) -> int:
    return int(reader.raw_array(1, dtype, what)[0])


def _read_intervals(reader: Reader, states: int) -> tuple[Integers, Integers, Integers]:
    """Reads for each state the number of intervals (int64), the intervals, and the number of labels in them (int32)."""
    what = f"the labels that {states} states reach"
    if states < 0 or 4 * RECORD_WORDS * states > reader.left:
        raise reader.truncated(f"{what} are not there")
    start = reader.position
    words = reader.raw_array(reader.left // 4, "<i4", what)
    at = record_starts(words, states, _INTERVAL_WORDS)
    reader.position = start
    if at.max(initial=0) + RECORD_WORDS > len(words):
        raise reader.truncated(f"{what} are not there")
    counts = words[at].astype(np.int64)
    ends = at + RECORD_WORDS + _INTERVAL_WORDS * counts
    if counts.min(initial=0) < 0 or (words[at + 1] != 0).any() or ends.max(initial=0) > len(words):
        raise reader.truncated(f"{what} are not there")
    offsets = np.append(0, np.cumsum(counts))
    first = np.repeat(at + RECORD_WORDS - 1 - _INTERVAL_WORDS * offsets[:-1], counts)
    first += _INTERVAL_WORDS * np.arange(offsets[-1])
    begin, end = words[first], words[first + 1]
    labels_before = np.append(0, np.cumsum(end.astype(np.int64) - begin))
    points = np.diff(labels_before[offsets])
    if begin.min(initial=0) < 0 or (end < begin).any() or not np.array_equal(points, words[ends - 1]):
        raise reader.error(f"{what} are not intervals of labels")
    reader.position = start + 4 * int(ends.max(initial=0))
    return offsets, begin, end
