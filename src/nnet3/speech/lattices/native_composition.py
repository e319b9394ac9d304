"""Composition with language models in C: breadth first (composition.c), then best first (rescoring.c)."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from contextlib import ExitStack
from typing import NamedTuple

import numpy as np

from nnet3.base.kaldi_io.fst import NO_STATE, Fst
from nnet3.base.kaldi_io.fst_reach import goes_up
from nnet3.base.kaldi_io.lattice import Lattice
from nnet3.base.native.library import library
from nnet3.base.options.rescoring import ComposeOptions
from nnet3.speech.arrays.aliases import Doubles, Integers
from nnet3.speech.language_models.word_acceptor import NativeModel, WordAcceptor
from nnet3.speech.lattices.lattice_states import with_arcs
from nnet3.speech.lattices.native_sets import addresses_of, ending

_KINDS = np.int64, *2 * (np.int32,), *4 * (np.float32,)  # of the columns of a lattice
_ADDED = ["grammar", "ngrams"]  # kinds of models in the order of composition.c
_EXCHANGED = ["ngrams", "network"]


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


def native_composed(
    lattice: Lattice,
    added: Sequence[WordAcceptor],
    exchanged: WordAcceptor | None = None,
    options: ComposeOptions | None = None,
) -> ComposedArcs | None:
    """Returns the composition with the models `added`, one after the other, and of its good paths with `exchanged`.

    None where native code cannot compose: without a compiler, with other models, with arcs that lead downwards, and
    where it gives up.
    """
    models = [model for acceptor in added for model in acceptor.native()]
    last = [] if exchanged is None else exchanged.native()
    if len(models) < len(added) or not {model.kind for model in models} <= set(_ADDED) or not goes_up(lattice.fst):
        return None
    if exchanged is not None and [model.kind for model in last] != _EXCHANGED:
        return None
    functions = library()
    if functions is None:
        return None
    rows = [(_ADDED.index(model.kind), model.table.ctypes.data) for model in models]
    table = np.zeros(len(rows), [("kind", np.int64), ("table", np.int64), ("scale", np.float64)])
    if rows:
        table["kind"], table["table"] = zip(*rows, strict=True)
        table["scale"] = [model.scale for model in models]
    fst = lattice.fst
    whole = fst.offsets, fst.ilabel, fst.dst, fst.cost, lattice.acoustic_cost, fst.final, lattice.final_acoustic_cost
    columns = [np.require(column, kind, ["C", "ALIGNED"]) for column, kind in zip(whole, _KINDS, strict=True)]
    given = np.append(np.array([fst.num_states, fst.num_arcs, fst.start]), addresses_of(columns))
    made = functions.nnet3_compose(given.ctypes.data, table.ctypes.data, len(table))
    if made is None:
        return None
    if not last:
        return _copied(functions, "composed", made)
    try:
        return _pruned(functions, made, last, options or ComposeOptions())
    finally:
        functions.nnet3_composed_end(made, None)


def _pruned(
    functions: ctypes.CDLL, made: int, models: Sequence[NativeModel], options: ComposeOptions
) -> ComposedArcs | None:
    """Returns the good paths of a lattice of C, composed with an n-gram model and an RNNLM."""
    numbers = np.array([options.lattice_compose_beam, options.growth_ratio, *(model.scale for model in models)])
    operands = addresses_of([*(model.table for model in models), numbers]).tolist()
    with ExitStack() as held:
        for lock in (lock for model in models for lock in model.locks):
            held.enter_context(lock)
        search = functions.nnet3_compose_pruned(made, *operands, options.max_arcs)
    return None if search is None else _copied(functions, "pruned", search)


def _copied(functions: ctypes.CDLL, kind: str, made: int) -> ComposedArcs:
    """Returns what C has made, which is gone then."""
    with ending(getattr(functions, f"nnet3_{kind}_end"), made) as found:
        sizes = np.zeros(2, np.int64)
        getattr(functions, f"nnet3_{kind}_sizes")(made, sizes.ctypes.data)
        states, arcs = sizes.tolist()
        (src, dst, arc), (state, final) = np.empty((3, arcs), np.int64), (np.empty(states, np.int64), np.empty(states))
        copied = ComposedArcs(state, final, src, dst, np.empty(arcs), arc)
        found += copied
    return copied
