"""MappedFst: a decoding graph that stays in its file, which is mapped into memory (graphs.c)."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nnet3.base.kaldi_io.fst import Fst
from nnet3.base.kaldi_io.fst_const import read_const_states
from nnet3.base.kaldi_io.fst_header import CONST, VECTOR, FstHeader, read_fst_header
from nnet3.base.kaldi_io.reader import Reader
from nnet3.base.kaldi_io.symbols import SymbolTable
from nnet3.base.native.library import library
from nnet3.errors import ModelFormatError
from nnet3.speech.arrays.aliases import Integers, Singles

_STATE_WORDS, _ARC_WORDS = 3, 4  # of 4 bytes: those before a state's arcs in a file of type vector, and those of an arc
_BLOCK = 1 << 17  # states
_SINGLE = np.dtype("<f4")


@dataclass(frozen=True, eq=False)
class MappedFst:
    """The arcs of an FST by their places in its file, counted in words of 4 bytes: first[s], first[s] + 4, ... leave
    state s, as many as lie before first[s + 1].

    final: (states,) float32. first: (states + 1,) int64. words: int32, the arcs, maybe at an odd address. The columns
    `ilabel`, `olabel`, `cost` and `dst` are indexed by the places of arcs.
    """

    start: int
    final: Singles
    first: Integers
    words: npt.NDArray[np.int32]
    largest_input: int
    output_symbols: SymbolTable | None

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

    def fst(self) -> Fst:
        """Returns the FST in memory."""
        counts = np.diff(self.first) // _ARC_WORDS
        offsets = np.append(0, np.cumsum(counts))
        arc = np.repeat(self.first[:-1] - _ARC_WORDS * offsets[:-1], counts) + _ARC_WORDS * np.arange(offsets[-1])
        ilabel, olabel, cost, dst = (each[arc] for each in (self.ilabel, self.olabel, self.cost, self.dst))
        return Fst(self.start, self.final, offsets, ilabel, olabel, cost, dst)


def map_fst(reader: Reader) -> MappedFst | None:
    """Maps an FST of type vector or const; None for others, for damage, and without C, where `read_graph` tells more.

    All arcs are looked at once, and each part of the file goes back to the system then.
    """
    if library(warns=False) is None or sys.byteorder != "little":
        return None
    try:
        header = read_fst_header(reader, (VECTOR, CONST))
        found = (_map_vector if header.kind == VECTOR else _map_const)(reader, header)
    except ModelFormatError:
        return None
    if found is None or reader.left or not 0 <= found.start < len(found.final):
        return None
    return None if np.isnan(found.final).any() or (found.final == -np.inf).any() else found


def _map_vector(reader: Reader, header: FstHeader) -> MappedFst | None:
    reader.need(4 * _STATE_WORDS * header.states, "the states of an FST")
    final, first = np.empty(header.states, np.float32), np.empty(header.states + 1, np.int64)
    return _mapped(reader, header, final, first, is_vector=True)


def _map_const(reader: Reader, header: FstHeader) -> MappedFst | None:
    final, offsets = read_const_states(reader, header)
    return _mapped(reader, header, final, _ARC_WORDS * offsets, is_vector=False)


def _mapped(reader: Reader, header: FstHeader, final: Singles, first: Integers, is_vector: bool) -> MappedFst | None:
    """Maps what is left, block by block; states of type vector are found on the way."""
    functions, states = library(warns=False), header.states
    begin, before = reader.position, _STATE_WORDS if is_vector else 0
    words = reader.raw_array(reader.left // 4 if is_vector else _ARC_WORDS * header.arcs, "<i4", "the arcs of an FST")
    largest, place = np.zeros(1, np.int64), _address(first)
    assert functions is not None, "looked at before"
    for low in range(0, states, _BLOCK):
        block = low, min(low + _BLOCK, states)
        if is_vector and not functions.nnet3_vector_states(_address(words), len(words), *block, place, _address(final)):
            return None
        if not functions.nnet3_arcs_are_sound(_address(words), place, *block, states, _address(largest)):
            return None
        reader.position = begin + 4 * (int(first[block[1]]) - before)
        reader.release()
    return MappedFst(header.start, final, first, words, int(largest[0]), header.output_symbols)


def _address(values: npt.NDArray[Any]) -> int:
    return int(values.ctypes.data)
