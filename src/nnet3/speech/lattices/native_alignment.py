"""Alignment of words with their phones in C (alignment.c)."""

from __future__ import annotations

import ctypes
from typing import NamedTuple

import numpy as np

from nnet3.base.kaldi_io.lattice import Strings
from nnet3.base.native.addresses import address_of
from nnet3.speech.arrays.aliases import Doubles, Integers
from nnet3.speech.lattices.label_lattice import LabelLattice
from nnet3.speech.lattices.native_sets import NativeLattice, ending
from nnet3.speech.lattices.word_times import WordBoundaries

_MISFIT = 1  # status 2: no memory


class AlignedNodes(NamedTuple):
    """Nodes of an alignment: rows up to each node, arcs without and with labels, nodes where paths end.

    `is_whole`: all paths end with a whole word, or silence.
    """

    row: Integers
    silent: tuple[Integers, Integers, Doubles, Doubles]
    spoken: tuple[Integers, Integers, Integers, Strings]
    last: Integers
    is_whole: bool


def native_alignment(
    functions: ctypes.CDLL, lattice: LabelLattice, kinds: WordBoundaries, silence: int, partial_word: int, most: int
) -> AlignedNodes | None:
    """Returns the nodes, numbered as Python numbers them; None for more than `most` nodes. Raises MemoryError."""
    given = NativeLattice(lattice, kinds.addresses)
    status = np.zeros(1, np.int64)
    made = functions.nnet3_align(given.address, silence, partial_word, most, address_of(status))
    if made is None and status[0] == _MISFIT:
        return None
    if made is None:
        raise MemoryError
    with ending(functions.nnet3_aligned_end, made) as found:
        sizes = np.zeros(6, np.int64)
        functions.nnet3_aligned_sizes(made, address_of(sizes))
        nodes, steps, words, ids, ends, is_whole = sizes.tolist()
        row, silent, costs = np.empty(nodes, np.int64), np.empty((2, steps), np.int64), np.empty((2, steps))
        spoken, first_id, values = (
            np.empty((3, words), np.int64),
            np.empty(words + 1, np.int64),
            np.empty(ids, np.int32),
        )
        last = np.empty(ends, np.int64)
        found += [row, silent, costs, spoken, first_id, values, last]
    return AlignedNodes(row, (*silent, *costs), (*spoken, Strings(first_id, values)), last, bool(is_whole))
