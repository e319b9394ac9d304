"""States of lattices: order, times, lattices of some states."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from nnet3.base.kaldi_io.fst import NO_STATE, Fst
from nnet3.base.kaldi_io.fst_reach import accessible, coaccessible, longest_paths, topological_order
from nnet3.base.kaldi_io.lattice import Integers, Lattice
from nnet3.errors import ModelFormatError


def with_states(lattice: Lattice, states: Integers) -> Lattice:
    """Keeps only `states` (the start among them, unless empty), numbered in the given order, and the arcs between.

    The arcs of a state keep their order.
    """
    fst = lattice.fst
    number = np.full(fst.num_states, NO_STATE)
    number[states] = np.arange(len(states))
    arcs = np.flatnonzero((number[fst.src] >= 0) & (number[fst.dst] >= 0))
    arcs = arcs[np.argsort(number[fst.src[arcs]], kind="stable")]
    ends = (number[fst.src[arcs]], number[fst.dst[arcs]])
    start = int(number[fst.start]) if len(states) else NO_STATE
    olabel = None if fst.is_acceptor else fst.olabel[arcs]
    made = Fst.from_arcs(start, fst.final[states], *ends, fst.ilabel[arcs], fst.cost[arcs], olabel)
    return replace(
        lattice,
        fst=made,
        acoustic_cost=lattice.acoustic_cost[arcs],
        final_acoustic_cost=lattice.final_acoustic_cost[states],
        transition_ids=lattice.transition_ids[arcs],
        final_transition_ids=lattice.final_transition_ids[states],
    )


def connected(lattice: Lattice) -> Lattice:
    """Removes states on no path from the start to an end; the rest keep their order."""
    kept = accessible(lattice.fst) & coaccessible(lattice.fst)
    return lattice if kept.all() else with_states(lattice, np.flatnonzero(kept))


def states_upwards(fst: Fst) -> Integers:
    """Returns the states in OpenFst's topological order, (states,). Raises ModelFormatError for a cycle."""
    order = topological_order(fst)
    rank = np.argsort(order)
    if (rank[fst.src] >= rank[fst.dst]).any():
        raise ModelFormatError("the lattice has a cycle")
    return order


def topologically_sorted(lattice: Lattice) -> Lattice:
    """Numbers the states in OpenFst's topological order. Raises ModelFormatError for a lattice with a cycle."""
    order = states_upwards(lattice.fst)
    return lattice if np.array_equal(order, np.arange(len(order))) else with_states(lattice, order)


def state_times(lattice: Lattice) -> npt.NDArray[np.int64]:
    """Returns the number of transition-ids on the paths to each state, (states,); 0 for a state that no path reaches.

    Raises ModelFormatError for a lattice with a cycle, or with paths to one state of different numbers.
    """
    fst, steps = lattice.fst, lattice.transition_ids.lengths
    depth = longest_paths(fst.num_states, fst.src, fst.dst)
    if (depth < 0).any():
        raise ModelFormatError("a lattice has a cycle")
    reached = accessible(fst)
    from_start = reached[fst.src]
    time = np.zeros(fst.num_states, np.int64)
    order = np.argsort(depth[fst.src], kind="stable")
    order = order[from_start[order]]
    for arcs in np.split(order, np.flatnonzero(np.diff(depth[fst.src[order]])) + 1):
        time[fst.dst[arcs]] = time[fst.src[arcs]] + steps[arcs]
    wrong = np.flatnonzero(from_start & (time[fst.dst] != time[fst.src] + steps))
    if len(wrong):
        raise ModelFormatError(
            f"a lattice has paths of different numbers of transition-ids to state {int(fst.dst[wrong[0]])}"
        )
    return time
