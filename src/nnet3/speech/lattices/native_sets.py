"""Determinization in C (lattices.c)."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nnet3.base.kaldi_io.lattice import Strings
from nnet3.base.native.addresses import address_of, addresses_of
from nnet3.speech.arrays.aliases import Doubles, Integers
from nnet3.speech.lattices.label_lattice import LabelLattice, LabelledArcs
from nnet3.speech.lattices.label_sets import LabelSets, Leaps, Memory, SetEnds, TooLargeError

_NO_MEMORY = 2  # status 1: too large
_WEIGHTS = np.float64, np.float64, np.int64, np.int32
_KINDS = *4 * (np.int64,), *_WEIGHTS, *_WEIGHTS  # of a lattice's columns
_NOTHING = np.zeros(0, np.int64)


def native_sets(functions: ctypes.CDLL, lattice: LabelLattice, most: float, memory: Memory) -> LabelSets:
    """Returns what `array_sets` returns, sets numbered alike."""
    given, status = _Given(lattice, memory), np.zeros(1, np.int64)
    sets = functions.nnet3_determinize(given.address, most, address_of(given.memory), address_of(status))
    given.settle(memory, int(status[0]))
    with ending(functions.nnet3_sets_end, sets) as columns:
        sizes = np.zeros(5, np.int64)
        functions.nnet3_sets_sizes(sets, address_of(sizes))
        count, arcs, of_arcs, ends, of_ends = sizes.tolist()
        levels, end = np.empty(count, np.int64), np.empty(ends, np.int64)
        src, dst, label = np.empty((3, arcs), np.int64)
        weights, of_end = _Weights.empty(arcs, of_arcs), _Weights.empty(ends, of_ends)
        columns += [levels, src, dst, label, *weights.columns(), end, *of_end.columns()]
    label = label.astype(lattice.label.dtype, copy=False)
    return LabelSets(levels, LabelledArcs(src, dst, label, *weights), SetEnds(end, *of_end))


def native_leaps(functions: ctypes.CDLL, lattice: LabelLattice, memory: Memory) -> Leaps:
    """Returns what `array_leaps` returns."""
    given, status = _Given(lattice, memory), np.zeros(1, np.int64)
    leaps = functions.nnet3_leaps(given.address, address_of(given.memory), address_of(status))
    given.settle(memory, int(status[0]))
    with ending(functions.nnet3_leaps_end, leaps) as columns:
        sizes = np.zeros(2, np.int64)
        functions.nnet3_leaps_sizes(leaps, address_of(sizes))
        count, of_ids = sizes.tolist()
        (entry, state), weights = np.empty((2, count), np.int64), _Weights.empty(count, of_ids)
        columns += [entry, state, *weights.columns()]
    return Leaps(np.searchsorted(entry, np.arange(lattice.num_states + 1)), state, *weights)


@contextmanager
def ending(end: Callable[[int, int], None], made: int) -> Iterator[list[npt.NDArray[Any]]]:
    """Yields columns to which `end` copies the results of C; frees the results without a copy where memory is short."""
    columns, addresses = list[npt.NDArray[Any]](), None
    try:
        yield columns
        addresses = addresses_of(columns)
    finally:
        end(made, 0 if addresses is None else address_of(addresses))


def empty_strings(count: int, num_ids: int) -> Strings:
    """Returns room for strings that C writes."""
    return Strings(np.empty(count + 1, np.int64), np.empty(num_ids, np.int32))


class _Weights(NamedTuple):
    """Costs and ids of rows that C writes."""

    graph: Doubles
    acoustic: Doubles
    ids: Strings

    @classmethod
    def empty(cls, rows: int, num_ids: int) -> _Weights:
        return cls(np.empty(rows), np.empty(rows), empty_strings(rows, num_ids))

    def columns(self) -> list[npt.NDArray[Any]]:
        return [self.graph, self.acoustic, self.ids.offsets, self.ids.values]


class NativeLattice:
    """A lattice for C (labelled.h), with further numbers and addresses, at `address`, while this object lives."""

    def __init__(self, lattice: LabelLattice, more: Integers = _NOTHING):
        of_arcs = lattice.graph_cost, lattice.acoustic_cost, lattice.ids.offsets, lattice.ids.values
        of_ends = lattice.final_graph, lattice.final_acoustic, lattice.final_ids.offsets, lattice.final_ids.values
        whole = lattice.level, lattice.offsets, lattice.dst, lattice.label, *of_arcs, *of_ends
        self._columns = [np.ascontiguousarray(column, kind) for column, kind in zip(whole, _KINDS, strict=True)]
        sizes = np.array([lattice.num_states, len(lattice.src)], np.int64)
        self._table = np.concatenate([sizes, addresses_of(self._columns), more])
        self.address = address_of(self._table)


class _Given(NativeLattice):
    """A lattice and a memory for C."""

    def __init__(self, lattice: LabelLattice, memory: Memory):
        self._backward = np.ascontiguousarray(lattice.backward)
        super().__init__(lattice, addresses_of([self._backward]))
        self.memory = np.array([memory.left, memory.work_left], np.float64)

    def settle(self, memory: Memory, status: int) -> None:
        """Gives the rest of the memory back. Raises TooLargeError or MemoryError by the status of C."""
        memory.left, memory.work_left = self.memory.tolist()
        if status:
            raise MemoryError if status == _NO_MEMORY else TooLargeError
