"""Pruned composition in C (rescoring.c)."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from contextlib import ExitStack
from typing import NamedTuple

import numpy as np

from nnet3.base.kaldi_io.fst import NO_STATE, Fst
from nnet3.base.kaldi_io.lattice import Lattice
from nnet3.base.options.rescoring import ComposeOptions
from nnet3.speech.arrays.aliases import Doubles, Integers
from nnet3.speech.language_models.word_acceptor import NativeModel
from nnet3.speech.lattices.lattice_states import with_arcs
from nnet3.speech.lattices.native_sets import addresses_of, ending

_KINDS = *2 * (np.int64,), *5 * (np.float64,), *2 * (np.int64,), np.float64  # of the columns of a lattice and its ways


class WaysOn(NamedTuple):
    """Ways on from the states of a lattice whose arcs lead upwards, the best first.

    best: (states,), the cost of the best path to an end. Ways offsets[s] to offsets[s + 1] - 1 leave state s: `arc`, or
    -1 for the end; `excess`, by how much the best path with this way is worse than the best path. Costs are rounded to
    float32.
    """

    best: list[float]
    offsets: list[int]
    arc: list[int]
    excess: list[float]


class PrunedArcs(NamedTuple):
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


def can_compose(models: Sequence[NativeModel]) -> bool:
    """Returns True for an n-gram model and an RNNLM."""
    return [model.kind for model in models] == ["ngrams", "network"]


def native_pruned(
    functions: ctypes.CDLL, lattice: Lattice, ahead: WaysOn, models: Sequence[NativeModel], options: ComposeOptions
) -> PrunedArcs | None:
    """Returns the composition with an n-gram model and an RNNLM; None where native code gives up (see rescoring.c)."""
    fst = lattice.fst
    whole = fst.ilabel, fst.dst, fst.cost, lattice.acoustic_cost, fst.final, lattice.final_acoustic_cost, *ahead
    columns = [np.ascontiguousarray(column, kind) for column, kind in zip(whole, _KINDS, strict=True)]
    given = [np.append(np.array([fst.num_states]), addresses_of(columns)), *(model.table for model in models)]
    numbers = np.array([options.lattice_compose_beam, options.growth_ratio, *(model.scale for model in models)])
    with ExitStack() as held:
        for lock in (lock for model in models for lock in model.locks):
            held.enter_context(lock)
        search = functions.nnet3_compose_pruned(*addresses_of([*given, numbers]).tolist(), options.max_arcs)
    if search is None:
        return None
    with ending(functions.nnet3_pruned_end, search) as found:
        sizes = np.zeros(2, np.int64)
        functions.nnet3_pruned_sizes(search, sizes.ctypes.data)
        states, arcs = sizes.tolist()
        (src, dst, arc), (state, final) = np.empty((3, arcs), np.int64), (np.empty(states, np.int64), np.empty(states))
        made = PrunedArcs(state, final, src, dst, np.empty(arcs), arc)
        found += made
    return made
