"""MappedFst: a decoding graph that stays in its file, which is mapped into memory (graphs.c)."""

from __future__ import annotations

import mmap
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nnet3.base.kaldi_io.files import WatchedFile
from nnet3.base.kaldi_io.fst import Fst
from nnet3.base.kaldi_io.fst_const import LabelReach, read_const_states, read_inner_header, read_reach
from nnet3.base.kaldi_io.fst_header import CONST, LOOKAHEAD, VECTOR, FstHeader, read_fst_header
from nnet3.base.kaldi_io.graph_file import read_graph
from nnet3.base.kaldi_io.reader import Reader
from nnet3.base.kaldi_io.symbols import SymbolTable
from nnet3.base.native.addresses import address_of
from nnet3.base.native.library import little_endian_library
from nnet3.errors import ModelFormatError
from nnet3.speech.arrays.aliases import Integers, Singles
from nnet3.speech.arrays.arcs import arcs_leaving

_STATE_WORDS, _ARC_WORDS = 3, 4  # of 4 bytes: those before a state's arcs in a file of type vector, and those of an arc
_BLOCK = 1 << 17  # states
_SINGLE = np.dtype("<f4")


@dataclass(frozen=True, eq=False)
class MappedFst:
    """The arcs of an FST by their places in its file, counted in words of 4 bytes.

    Arcs offsets[s], offsets[s] + 4, ... leave state s, as many as lie before offsets[s + 1].

    final: (states,) float32. offsets: (states + 1,) int64. words: int32, the arcs, maybe at an odd address. The columns
    `ilabel`, `olabel`, `cost` and `dst` are indexed by the places of arcs. file: None for bytes in memory.
    """

    start: int
    final: Singles
    offsets: Integers
    words: npt.NDArray[np.int32]
    largest_input: int
    file: WatchedFile | None = None

    step = _ARC_WORDS

    @property
    def ilabel(self) -> npt.NDArray[np.int32]:
        return self.words

    @property
    def olabel(self) -> npt.NDArray[np.int32]:
        return self.words[1:]

    @property
    def cost(self) -> Singles:
        return self.words[2:].view(_SINGLE)

    @property
    def dst(self) -> npt.NDArray[np.int32]:
        return self.words[3:]


def check_unchanged(fst: Fst | MappedFst) -> None:
    """Raises ModelFormatError if the FST lies in a file that was written to after it was mapped."""
    if isinstance(fst, MappedFst) and fst.file is not None:
        fst.file.check()


def in_memory(fst: Fst | MappedFst) -> Fst:
    """Returns the FST with its arcs in memory."""
    if isinstance(fst, Fst):
        return fst
    counts = np.diff(fst.offsets) // fst.step
    arc, _ = arcs_leaving(fst.offsets, np.arange(len(counts)), fst.step)
    offsets = np.append(0, np.cumsum(counts))
    return Fst(fst.start, fst.final, offsets, fst.ilabel[arc], fst.olabel[arc], fst.cost[arc], fst.dst[arc])


class GraphParts(NamedTuple):
    """An FST, the labels reached by its states (of type `olabel_lookahead`), and the table of its words, if any."""

    fst: Fst | MappedFst
    reach: LabelReach | None
    output_symbols: SymbolTable | None


def map_or_read(reader: Reader) -> GraphParts:
    """Maps a graph that can be mapped, and reads any other into memory. Raises ModelFormatError."""
    begin, found = reader.position, map_graph(reader)
    if found is not None:
        return found
    reader.position = begin
    graph = read_graph(reader)
    return GraphParts(graph.fst, graph.reach, graph.output_symbols)


def map_graph(reader: Reader) -> GraphParts | None:
    """Maps a graph of type vector, const or olabel_lookahead; None for others, for damage, and without C.

    All arcs are looked at once, and each part of the file goes back to the system then.
    """
    if little_endian_library() is None:
        return None
    try:
        file = WatchedFile(reader.source) if isinstance(reader.data, mmap.mmap) else None
        header = read_fst_header(reader, tuple(_WAYS))
        found = _WAYS[header.kind](reader, header)
    except (ModelFormatError, OSError):
        return None
    if found is None or reader.left or not 0 <= found.fst.start < len(found.fst.final):
        return None
    if np.isnan(found.fst.final).any() or (found.fst.final == -np.inf).any():
        return None
    assert isinstance(found.fst, MappedFst)
    return found._replace(fst=replace(found.fst, file=file))


def _map_vector(reader: Reader, header: FstHeader) -> GraphParts | None:
    reader.need(4 * _STATE_WORDS * header.states, "the states of an FST")
    final, first = np.empty(header.states, np.float32), np.empty(header.states + 1, np.int64)
    return _mapped(reader, header, final, first, is_vector=True)


def _map_const(reader: Reader, header: FstHeader) -> GraphParts | None:
    final, offsets = read_const_states(reader, header)
    return _mapped(reader, header, final, _ARC_WORDS * offsets, is_vector=False)


def _map_lookahead(reader: Reader, header: FstHeader) -> GraphParts | None:
    inner = read_inner_header(reader)
    found = _map_const(reader, inner)
    if found is None:
        return None
    reach = read_reach(reader, inner.states)
    return GraphParts(found.fst, reach, header.output_symbols or inner.output_symbols)


_WAYS = {VECTOR: _map_vector, CONST: _map_const, LOOKAHEAD: _map_lookahead}


def _mapped(reader: Reader, header: FstHeader, final: Singles, first: Integers, is_vector: bool) -> GraphParts | None:
    """Maps what is left, block by block; states of type vector are found on the way."""
    functions, states = little_endian_library(), header.states
    begin, before = reader.position, _STATE_WORDS if is_vector else 0
    words = reader.raw_array(reader.left // 4 if is_vector else _ARC_WORDS * header.arcs, "<i4", "the arcs of an FST")
    largest, place = np.zeros(1, np.int64), address_of(first)
    assert functions is not None, "looked at before"
    for low in range(0, states, _BLOCK):
        block = low, min(low + _BLOCK, states)
        if is_vector and not functions.nnet3_vector_states(
            address_of(words), len(words), *block, place, address_of(final)
        ):
            return None
        if not functions.nnet3_arcs_are_sound(address_of(words), place, *block, states, address_of(largest)):
            return None
        reader.position = begin + 4 * (int(first[block[1]]) - before)
        reader.release()
    return GraphParts(MappedFst(header.start, final, first, words, int(largest[0])), None, header.output_symbols)
