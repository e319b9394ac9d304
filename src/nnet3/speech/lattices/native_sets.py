"""Determinization in C (lattices.c)."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from nnet3.base.kaldi_io.lattice import Strings
from nnet3.speech.arrays.aliases import Doubles, Integers
from nnet3.speech.lattices.label_lattice import LabelLattice, LabelledArcs
from nnet3.speech.lattices.label_sets import Ends, LabelSets, Leaps, Memory, TooLargeError

_TOO_LARGE, _NO_MEMORY = 1, 2


def native_sets(functions: ctypes.CDLL, lattice: LabelLattice, most: float, memory: Memory) -> LabelSets:
    """Returns what `array_sets` returns, with the same numbers of sets."""
    given, status = _Given(lattice, memory), np.zeros(1, np.int64)
    sets = functions.nnet3_determinize(given.address, most, given.memory.ctypes.data, status.ctypes.data)
    given.settle(memory, int(status[0]))
    sizes = np.zeros(5, np.int64)
    functions.nnet3_sets_sizes(sets, sizes.ctypes.data)
    count, arcs, of_arcs, ends, of_ends = sizes.tolist()
    levels, (src, dst, label), (end,) = (
        np.empty(count, np.int64),
        *(np.empty((n, k), np.int64) for n, k in ((3, arcs), (1, ends))),
    )
    *weighed, ids = _weights(arcs, of_arcs)
    *ending, final_ids = _weights(ends, of_ends)
    columns = (
        levels,
        src,
        dst,
        label,
        *weighed,
        ids.offsets,
        ids.values,
        end,
        *ending,
        final_ids.offsets,
        final_ids.values,
    )
    functions.nnet3_sets_end(sets, _addresses(columns).ctypes.data)
    label = label.astype(lattice.label.dtype, copy=False)
    return LabelSets(levels, LabelledArcs(src, dst, label, *weighed, ids), Ends(end, *ending, final_ids))


def native_leaps(functions: ctypes.CDLL, lattice: LabelLattice, memory: Memory) -> Leaps:
    """Returns what `array_leaps` returns."""
    given, status = _Given(lattice, memory), np.zeros(1, np.int64)
    leaps = functions.nnet3_leaps(given.address, given.memory.ctypes.data, status.ctypes.data)
    given.settle(memory, int(status[0]))
    sizes = np.zeros(2, np.int64)
    functions.nnet3_leaps_sizes(leaps, sizes.ctypes.data)
    count, of_ids = sizes.tolist()
    entry, state = np.empty((2, count), np.int64)
    graph, acoustic, ids = _weights(count, of_ids)
    columns = entry, state, graph, acoustic, ids.offsets, ids.values
    functions.nnet3_leaps_end(leaps, _addresses(columns).ctypes.data)
    return Leaps(np.searchsorted(entry, np.arange(lattice.num_states + 1)), state, graph, acoustic, ids)


class _Given:
    """A lattice and memory as C takes them, at `address`; the columns live as long as this object."""

    def __init__(self, lattice: LabelLattice, memory: Memory):
        whole = lattice.level, lattice.offsets, lattice.dst, lattice.label
        costs = lattice.graph_cost, lattice.acoustic_cost
        ends = lattice.final_graph, lattice.final_acoustic
        self._columns = (
            *(np.ascontiguousarray(each, np.int64) for each in whole),
            *(np.ascontiguousarray(each, np.float64) for each in costs),
            *(lattice.ids.offsets, np.ascontiguousarray(lattice.ids.values, np.int32)),
            *(np.ascontiguousarray(each, np.float64) for each in ends),
            *(lattice.final_ids.offsets, np.ascontiguousarray(lattice.final_ids.values, np.int32)),
            np.ascontiguousarray(lattice.backward, np.float64),
        )
        sizes = np.array([lattice.num_states, len(lattice.src)], np.int64)
        self._table = np.append(sizes, _addresses(self._columns))
        self.address = self._table.ctypes.data
        self.memory = np.array([memory.left, memory.work_left], np.float64)

    def settle(self, memory: Memory, status: int) -> None:
        """Puts back what is left of the memory. Raises TooLargeError or MemoryError if C says so."""
        memory.left, memory.work_left = self.memory.tolist()
        if status:
            raise MemoryError if status == _NO_MEMORY else TooLargeError


def _weights(rows: int, num_ids: int) -> tuple[Doubles, Doubles, Strings]:
    return np.empty(rows), np.empty(rows), Strings(np.empty(rows + 1, np.int64), np.empty(num_ids, np.int32))


def _addresses(columns: Iterable[npt.NDArray[Any]]) -> Integers:
    return np.array([column.ctypes.data for column in columns], np.int64)
