"""Composition with language models in C: breadth first (composition.c), then best first (rescoring.c)."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from contextlib import ExitStack
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nnet3.base.kaldi_io.fst import NO_STATE, Fst
from nnet3.base.kaldi_io.lattice import Lattice
from nnet3.base.native.addresses import address_of, addresses_of
from nnet3.base.native.library import library
from nnet3.base.options.rescoring import ComposeOptions
from nnet3.speech.arrays.aliases import Doubles, Integers
from nnet3.speech.language_models.word_acceptor import NativeModel, WordAcceptor
from nnet3.speech.lattices.label_lattice import LabelLattice
from nnet3.speech.lattices.lattice_states import with_arcs
from nnet3.speech.lattices.native_sets import NativeLattice, empty_strings, ending

_KINDS = *3 * (np.int64,), *4 * (np.float64,)  # of the columns of a lattice
_ADDED = ["grammar", "ngrams"]  # kinds of models in the order of composition.c
_EXCHANGED = ["ngrams", "network"]
_MODEL = [("kind", np.int64), ("table", np.int64), ("scale", np.float64)]


class ComposedArcs(NamedTuple):
    """States and arcs on complete paths.

    Of states the lattice's state and the final graph cost; of arcs the source, the destination, the graph cost and the
    lattice's arc.
    """

    state: Integers
    final: Doubles
    src: Integers
    dst: Integers
    graph: Doubles
    arc: Integers

    def of(self, lattice: Lattice) -> Lattice:
        """Returns the lattice that they make."""
        start, labels = 0 if len(self.state) else NO_STATE, lattice.fst.ilabel[self.arc]
        fst = Fst.from_arcs(start, self.final, self.src, self.dst, labels, self.graph)
        return with_arcs(lattice, fst, self.arc, self.state)


class NativeComposition:
    """Models whose costs C adds to lattices, one after the other, and models that it exchanges on good paths."""

    def __init__(
        self,
        functions: ctypes.CDLL,
        added: Sequence[NativeModel],
        exchanged: Sequence[NativeModel],
        options: ComposeOptions,
    ):
        self._functions, self._kept = functions, [*added, *exchanged]
        self._locks = [lock for model in self._kept for lock in model.locks]
        rows = [(_ADDED.index(model.kind), address_of(model.table), model.scale) for model in added]
        self._added = np.array(rows, _MODEL)
        beams = options.lattice_compose_beam, options.growth_ratio
        self._numbers = np.array([*beams, *(model.scale for model in exchanged)], np.float64)
        tables = addresses_of([*(model.table for model in exchanged), self._numbers]).tolist()
        self._exchanged = (*tables, options.max_arcs) if exchanged else ()
        models = address_of(self._added), len(added), *(self._exchanged or 4 * (0,))
        self._table = np.array(models, np.int64)
        self._models = address_of(self._table)

    @classmethod
    def of(
        cls,
        added: Sequence[WordAcceptor],
        exchanged: WordAcceptor | None = None,
        options: ComposeOptions | None = None,
    ) -> NativeComposition | None:
        """Returns the composition with models that begin at the start; None for other models, and without C."""
        models = [model for acceptor in added for model in acceptor.native()]
        last = [] if exchanged is None else exchanged.native()
        if len(models) < len(added) or not {model.kind for model in models} <= set(_ADDED):
            return None
        if exchanged is not None and [model.kind for model in last] != _EXCHANGED:
            return None
        functions = library()
        return None if functions is None else cls(functions, models, last, options or ComposeOptions())

    def arcs(self, lattice: Lattice) -> ComposedArcs | None:
        """Returns the composition; None where C gives up, and for a lattice whose arcs do not all lead upwards."""
        fst = lattice.fst
        ends = fst.final, lattice.final_acoustic_cost
        given = _Given(fst.start, [fst.offsets, fst.ilabel, fst.dst, fst.cost, lattice.acoustic_cost, *ends])
        made = self._composed(given)
        if made is None:
            return None
        with ending(self._functions.nnet3_composed_end, made) as columns:
            sizes = np.zeros(2, np.int64)
            self._functions.nnet3_composed_sizes(made, address_of(sizes))
            states, num_arcs = sizes.tolist()
            state, final, graph = np.empty(states, np.int64), np.empty(states), np.empty(num_arcs)
            of_arcs = np.empty((3, num_arcs), np.int64)
            columns += [state, final, of_arcs, graph]
        src, dst, arc = of_arcs
        return ComposedArcs(state, final, src, dst, graph, arc)

    def labelled(self, lattice: LabelLattice) -> LabelLattice | None:
        """Returns the composition by levels, maybe empty; costs are rounded to float32, as in tables.

        None where C gives up, and for a lattice with arcs without labels or with several arcs for a label.
        """
        functions, given, sizes = self._functions, NativeLattice(lattice), np.empty(4, np.int64)
        with ExitStack() as held:
            for lock in self._locks:
                held.enter_context(lock)
            made = functions.nnet3_rescored(given.address, self._models, address_of(sizes))
        if made is None:
            return None
        with ending(functions.nnet3_rescored_end, made) as columns:
            states, num_arcs, of_arcs, of_ends = sizes.tolist()
            level, (src, dst, label) = np.empty(states, np.int64), np.empty((3, num_arcs), np.int64)
            (graph, acoustic), (final, final_acoustic) = np.empty((2, num_arcs)), np.empty((2, states))
            ids, final_ids = empty_strings(num_arcs, of_arcs), empty_strings(states, of_ends)
            columns += [level, src, graph, final]  # of rows that lie one behind the other, the first ones
            columns += [ids.offsets, ids.values, final_ids.offsets, final_ids.values]
        return LabelLattice(level, src, dst, label, graph, acoustic, ids, final, final_acoustic, final_ids)

    def _composed(self, given: _Given) -> int | None:
        """Returns the address of the composition, which C keeps; None where C gives up."""
        functions = self._functions
        made: int | None = functions.nnet3_compose(given.address, address_of(self._added), len(self._added))
        if made is None or not self._exchanged:
            return made
        with ExitStack() as held:
            for lock in self._locks:
                held.enter_context(lock)
            is_done = functions.nnet3_exchange(made, *self._exchanged)
        if is_done:
            return made
        functions.nnet3_composed_end(made, None)
        return None


class _Given:
    """A lattice for C, at `address`; the columns live as long as this object."""

    def __init__(self, start: int, columns: Sequence[npt.NDArray[np.number]]):
        self._columns = [np.ascontiguousarray(column, kind) for column, kind in zip(columns, _KINDS, strict=True)]
        sizes = np.array([len(columns[-1]), len(columns[1]), start], np.int64)
        self._table = np.append(sizes, addresses_of(self._columns))
        self.address = address_of(self._table)
