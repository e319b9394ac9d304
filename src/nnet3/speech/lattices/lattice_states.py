"""Lattices with arcs in another order, or of another FST; lattices by levels."""

from __future__ import annotations

import numpy as np

from nnet3.base.kaldi_io.fst import Fst
from nnet3.base.kaldi_io.fst_reach import goes_up
from nnet3.base.kaldi_io.lattice import Lattice, Strings, no_strings
from nnet3.base.kaldi_io.lattice_states import states_upwards, topologically_sorted
from nnet3.speech.arrays.aliases import Integers
from nnet3.speech.lattices.label_lattice import LabelLattice
from nnet3.speech.lattices.levels import longest_paths


def with_arcs(lattice: Lattice, fst: Fst, arcs: Integers, states: Integers) -> Lattice:
    """Makes an FST a lattice, with acoustic costs and transition-ids of arcs and ends of another lattice.

    arcs: for each arc of the FST the lattice's arc, -1 for none; states: for each state the lattice's state.
    """
    ends, none, free = fst.final < np.inf, no_strings(1), np.zeros(1, np.float32)
    last = np.where(ends, states, lattice.fst.num_states)
    return Lattice(
        fst,
        np.append(lattice.acoustic_cost, free)[arcs],
        np.where(ends, lattice.final_acoustic_cost[states], np.float32(np.inf)),
        Strings.joined([lattice.transition_ids, none])[np.where(arcs < 0, lattice.fst.num_arcs, arcs)],
        Strings.joined([lattice.final_transition_ids, none])[last],
    )


def check_acyclic(lattice: Lattice) -> None:
    """Raises ModelFormatError for a lattice with a cycle."""
    if not goes_up(lattice.fst):
        states_upwards(lattice.fst)


def sorted_upwards(lattice: Lattice) -> Lattice:
    """Returns the lattice with states numbered so that arcs lead upwards, as OpenFst does; itself if arcs already do.

    Raises ModelFormatError for a cycle.
    """
    return lattice if goes_up(lattice.fst) else topologically_sorted(lattice)


def is_deterministic(lattice: Lattice) -> bool:
    """Returns True if every arc has a label, and no two arcs of a state have the same."""
    fst = lattice.fst
    keys = np.sort(fst.src.astype(np.int64) << 32 | fst.ilabel)
    return bool((fst.ilabel > 0).all() and (np.diff(keys) > 0).all())


def sorted_by_label(lattice: Lattice) -> Lattice:
    """Returns the lattice with each state's arcs sorted by label."""
    fst = lattice.fst
    order = np.lexsort((fst.ilabel, fst.src))
    made = Fst(fst.start, fst.final, fst.offsets, fst.ilabel[order], fst.olabel[order], fst.cost[order], fst.dst[order])
    return Lattice(
        made,
        *(lattice.acoustic_cost[order], lattice.final_acoustic_cost, lattice.transition_ids[order]),
        *(lattice.final_transition_ids, lattice.is_plain),
    )


def label_lattice(lattice: Lattice) -> LabelLattice:
    """Returns a lattice with a path from each state to an end by levels. Raises ModelFormatError for a cycle."""
    check_acyclic(lattice)
    fst = lattice.fst
    level = longest_paths(fst.num_states, fst.src, fst.dst)
    order = np.argsort(level, kind="stable")
    number = np.argsort(order)
    arcs = np.argsort(number[fst.src], kind="stable")
    return LabelLattice(
        *(level[order], number[fst.src[arcs]], number[fst.dst[arcs]], fst.ilabel[arcs].astype(np.int64)),
        *(fst.cost[arcs].astype(np.float64), lattice.acoustic_cost[arcs].astype(np.float64)),
        lattice.transition_ids[arcs],
        *(fst.final[order].astype(np.float64), lattice.final_acoustic_cost[order].astype(np.float64)),
        lattice.final_transition_ids[order],
    )
