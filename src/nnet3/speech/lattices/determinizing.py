"""Determinization of lattices: keeps the best path for each sequence of labels, within a beam."""

from __future__ import annotations

import numpy as np

from nnet3.base.native.library import library
from nnet3.speech.arrays.columns import part
from nnet3.speech.lattices.array_sets import array_leaps, array_sets
from nnet3.speech.lattices.label_lattice import LabelLattice, final_columns
from nnet3.speech.lattices.label_sets import Leaps, Memory
from nnet3.speech.lattices.native_sets import native_leaps, native_sets

_ROUNDING = 1e-5  # that costs may have along a path


def determinized(lattice: LabelLattice, beam: float, memory: Memory) -> LabelLattice:
    """Returns the paths within the beam, at most one for each sequence of labels; every arc has a label.

    A state of the result is a set: the states reached by equal labels. A member has its cost beyond the cost of the
    best member, and its ids beyond the ids common to all members. An arc stays if the best path through its set and the
    arc is within the beam. Worse paths may consist of such arcs; worse paths stay too, as in Kaldi's lattices. Raises
    TooLargeError if the sets need more than the memory, or more work.
    """
    functions, most = library(), lattice.best_cost + beam + _ROUNDING
    if functions is None:
        sets = array_sets(lattice, most, memory)
    else:
        sets = native_sets(functions, lattice, most, memory)
    _, number = np.unique(sets.levels, return_inverse=True)
    order = np.argsort(number, kind="stable")
    by_label = np.argsort(sets.arcs.label, kind="stable")
    arcs, ends = part(sets.arcs, by_label).renumbered(order), sets.ends
    finals = final_columns(len(order), np.argsort(order)[ends.set], ends.graph, ends.acoustic, ends.ids)
    return LabelLattice(number[order], *arcs, *finals).pruned(np.inf)


def leaps_of(lattice: LabelLattice, memory: Memory) -> Leaps:
    """Returns the best ways without labels. Raises TooLargeError if they need more than the memory, or more work."""
    functions = library()
    return array_leaps(lattice, memory) if functions is None else native_leaps(functions, lattice, memory)
