"""OpenFst's types `vector` and `compact_acceptor` of standard arcs, byte for byte as OpenFst writes them."""

from __future__ import annotations

import struct

import numpy as np

from nnet3.base.kaldi_io.fst import Fst
from nnet3.base.kaldi_io.fst_header import COMPACT, VECTOR, FstHeader, read_fst_header, write_fst_header
from nnet3.base.kaldi_io.fst_properties import EXPANDED, MUTABLE, known_properties
from nnet3.base.kaldi_io.fst_records import record_starts
from nnet3.base.kaldi_io.reader import Reader
from nnet3.base.kaldi_io.symbols import SymbolTable
from nnet3.base.kaldi_io.writer import Writer
from nnet3.errors import ModelFormatError

_STATE_WORDS, _ARC_WORDS = 3, 4  # of 4 bytes: final cost and number of arcs; labels, cost, next state
_COUNT = struct.Struct("<q")
_ELEMENT = np.dtype([("label", "<i4"), ("cost", "<f4"), ("dst", "<i4")])
_FINAL = -1  # label and next state of the element that stands for a final cost


def read_binary_fst(reader: Reader) -> Fst:
    """Returns the FST that begins here. Symbol tables are passed over: labels are numbers here."""
    start = reader.position
    header = read_fst_header(reader, (VECTOR, COMPACT))
    try:
        return read_vector(reader, header) if header.kind == VECTOR else read_compact(reader, header)
    except ModelFormatError as error:
        raise error if error.place else reader.error_at(start, f"a damaged FST: {error.message}") from None


def read_vector(reader: Reader, header: FstHeader) -> Fst:
    """Reads for each state its final cost (float32), number of arcs (int64) and arcs."""
    reader.need(4 * _STATE_WORDS * header.states, f"{header.states} states of an FST")
    start = reader.position
    words = reader.raw_array(reader.left // 4, "<i4", "an FST")
    reader.position = start
    state_at = record_starts(words[1:], header.states, _ARC_WORDS)  # the record is from a count to the next final cost
    state_at = state_at[: np.searchsorted(state_at, len(words) - 1)]
    counts = words[state_at + 1].astype(np.int64)
    end = int(state_at[-1] + _STATE_WORDS + _ARC_WORDS * counts[-1]) if len(counts) else 0
    if len(counts) < header.states or end > len(words):
        raise _damage(reader, header.states, words, counts.tolist(), end)
    reader.position += 4 * end
    offsets = np.append(0, np.cumsum(counts))
    _, arc_at = _word_positions(offsets)
    final = words[state_at].view("<f4").astype(np.float32)
    ilabel, olabel, cost, dst = (np.ascontiguousarray(words[arc_at + word]) for word in range(_ARC_WORDS))
    if np.array_equal(ilabel, olabel):
        olabel = ilabel
    return Fst(header.start, final, offsets, ilabel, olabel, cost.view("<f4"), dst, header.properties)


def _damage(reader: Reader, states: int, words: np.ndarray, counts: list[int], end: int) -> ModelFormatError:
    """Returns the error behind some good states, with their numbers of arcs, that would end at the word `end`."""
    state = len(counts) - (end > len(words))  # the one that is not good
    if end + _STATE_WORDS <= len(words):
        (count,) = _COUNT.unpack(words[end + 1 : end + _STATE_WORDS].tobytes())
    elif end > len(words):
        count = counts[-1]
    else:
        return reader.truncated(f"state {state} of {states} of an FST is not there")
    return reader.truncated(f"state {state} of an FST cannot have {count} arcs")


def _word_positions(offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns where states (states,) and arcs (arcs,) begin in the body, in words of 4 bytes."""
    states, counts = len(offsets) - 1, np.diff(offsets)
    state_at = _STATE_WORDS * np.arange(states) + _ARC_WORDS * offsets[:-1]
    headers_before = _STATE_WORDS * np.repeat(np.arange(1, states + 1), counts)
    return state_at, headers_before + _ARC_WORDS * np.arange(offsets[-1])


def read_compact(reader: Reader, header: FstHeader) -> Fst:
    """Reads the offsets of the states' elements, then the elements: a final cost comes first in its state."""
    header.align(reader)
    bounds = reader.raw_array(header.states + 1, "<u4", f"{header.states} states of an FST").astype(np.int64)
    if bounds[0] != 0 or (np.diff(bounds) < 0).any():
        raise reader.error("the offsets of the states of an FST do not increase from 0")
    header.align(reader)
    elements = reader.raw_array(int(bounds[-1]), _ELEMENT, f"an FST with {bounds[-1]} arcs and final states")
    is_final = elements["label"] == _FINAL
    state_of_final = np.searchsorted(bounds, np.flatnonzero(is_final), "right") - 1
    if (bounds[state_of_final] != np.flatnonzero(is_final)).any() or (elements["dst"][is_final] != _FINAL).any():
        raise reader.error("a final cost in an FST must come before the arcs of its state, without a next state")
    final = np.full(header.states, np.inf, np.float32)
    final[state_of_final] = elements["cost"][is_final]
    offsets = bounds - np.concatenate([[0], np.cumsum(is_final)])[bounds]
    arcs = elements[~is_final]
    if len(arcs) != header.arcs:
        raise reader.error(f"the header of the FST says that it has {header.arcs} arcs, but it has {len(arcs)}")
    label = np.ascontiguousarray(arcs["label"])
    cost, dst = np.ascontiguousarray(arcs["cost"]), np.ascontiguousarray(arcs["dst"])
    return Fst(header.start, final, offsets, label, label, cost, dst)


def write_vector_fst(writer: Writer, fst: Fst, symbols: SymbolTable | None = None) -> None:
    """Writes type `vector`, with the properties of the FST's file, else with the properties that always hold."""
    properties = EXPANDED | MUTABLE if fst.properties is None else fst.properties
    write_fst_header(writer, VECTOR, properties, fst, arcs=0, symbols=symbols)
    words = np.empty(_STATE_WORDS * fst.num_states + _ARC_WORDS * fst.num_arcs, "<i4")
    state_at, arc_at = _word_positions(fst.offsets)
    words[state_at] = np.asarray(fst.final, "<f4").view("<i4")
    words[state_at + 1], words[state_at + 2] = np.diff(fst.offsets), 0
    for word, values in enumerate((fst.ilabel, fst.olabel, np.asarray(fst.cost, "<f4").view("<i4"), fst.dst)):
        words[arc_at + word] = values
    writer.raw(words.tobytes())


def write_compact_acceptor(writer: Writer, fst: Fst) -> None:
    """Writes type `compact_acceptor`, with all properties."""
    if not fst.is_acceptor:
        raise ModelFormatError("cannot write an FST as an acceptor whose input and output labels differ")
    write_fst_header(writer, COMPACT, EXPANDED | known_properties(fst), fst, arcs=fst.num_arcs)
    is_final = fst.final < np.inf
    bounds = fst.offsets + np.concatenate([[0], np.cumsum(is_final)])
    elements = np.empty(bounds[-1], _ELEMENT)
    final_at = bounds[:-1][is_final]
    elements["label"][final_at], elements["dst"][final_at] = _FINAL, _FINAL
    elements["cost"][final_at] = fst.final[is_final]
    arc_at = np.setdiff1d(np.arange(len(elements)), final_at, assume_unique=True)
    elements["label"][arc_at], elements["cost"][arc_at], elements["dst"][arc_at] = fst.ilabel, fst.cost, fst.dst
    writer.raw(bounds.astype("<u4").tobytes() + elements.tobytes())
