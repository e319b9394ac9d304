"""OpenFst's types `const`, and `olabel_lookahead`: `const` with the output labels that come next."""

from __future__ import annotations

from collections.abc import Iterator
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
from nnet3.base.native.addresses import address_of
from nnet3.base.native.library import little_endian_library

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
    (intervals,) int32; those of a state increase.
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
    final, offsets = np.empty(header.states, np.float32), np.zeros(header.states + 1, np.int64)
    are_in_order = True
    for states, (first, end) in _blocks(reader, header.states, _STATE, "states of an FST"):
        are_in_order &= _take_states(states, final[first:end], offsets[first : end + 1])
    if offsets[-1] != header.arcs or not are_in_order:
        raise reader.error(f"the states of the FST do not share its {header.arcs} arcs in order")
    header.align(reader)
    return final, offsets


def _take_states(states: npt.NDArray[np.void], final: npt.NDArray[np.float32], offsets: npt.NDArray[np.int64]) -> bool:
    """Sets the final costs (n,) of states (n,) and, but for the first one, the offsets (n + 1,) of their arcs.

    Returns True if each state has its arcs behind those of the state before.
    """
    functions = little_endian_library()
    if functions is not None:
        return bool(functions.nnet3_const_states(len(states), *map(address_of, (states, offsets, final))))
    final[:] = states["final"]
    offsets[1:] = offsets[0] + np.cumsum(states["arcs"], dtype=np.int64)
    return not ((states["first"] != offsets[:-1]) & (states["arcs"] > 0)).any()


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
    """Reads a table; returns some of its columns, (count,) each."""
    columns = [np.empty(count, record[name]) for name in names]
    for block, (first, end) in _blocks(reader, count, record, what):
        for column, name in zip(columns, names, strict=True):
            column[first:end] = block[name]
    return columns


def _blocks(
    reader: Reader, count: int, record: np.dtype, what: str
) -> Iterator[tuple[npt.NDArray[np.void], tuple[int, int]]]:
    """Yields a table of records in blocks, each with its first record and the one behind.

    Memory of a mapped file is given back block by block: a large file never lies in memory twice.
    """
    for first in range(0, count, _BLOCK):
        end = min(first + _BLOCK, count)
        yield reader.raw_array(end - first, record, f"{count} {what}"), (first, end)
        reader.release()


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
    start, functions = reader.position, little_endian_library()
    words = reader.raw_array(reader.left // 4, "<i4", what)
    if functions is not None:
        most = (len(words) - RECORD_WORDS * states) // _INTERVAL_WORDS
        offsets, begin, end = np.empty(states + 1, np.int64), np.empty(most, np.int32), np.empty(most, np.int32)
        read = functions.nnet3_intervals(len(words), states, *map(address_of, (words, offsets, begin, end)))
        if read >= 0:  # else what follows says where the damage is
            reader.position = start + 4 * read
            return offsets, begin[: offsets[-1]], end[: offsets[-1]]
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
