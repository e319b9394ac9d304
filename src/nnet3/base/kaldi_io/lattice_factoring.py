"""Makes compact lattices of plain ones, numbered as Kaldi numbers them (fst::ConvertLattice)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nnet3.base.kaldi_io.fst import Fst
from nnet3.base.kaldi_io.fst_reach import accessible, topological_order
from nnet3.base.kaldi_io.lattice import Integers, Lattice, Strings, no_strings


def factored(lattice: Lattice) -> Lattice:
    """Returns a plain lattice as an acceptor of words, with an arc for each chain of arcs; only the first arc of a
    chain may have a word. States are numbered in topological order.
    """
    fst, ids = lattice.fst, lattice.transition_ids
    inner = _inside_chains(fst)
    head, position = _chains(fst, inner)
    cost, acoustic, dst = fst.cost.copy(), lattice.acoustic_cost.copy(), fst.dst.copy()
    by_position = np.split(np.argsort(position, kind="stable"), np.cumsum(np.bincount(position)))
    for arcs in by_position[1:]:  # from left to right, as Kaldi adds and rounds
        cost[head[arcs]] += fst.cost[arcs]
        acoustic[head[arcs]] += lattice.acoustic_cost[arcs]
        dst[head[arcs]] = fst.dst[arcs]
    kept = np.flatnonzero(position == 0)
    lengths = np.bincount(head, weights=ids.lengths, minlength=fst.num_arcs).astype(np.int64)
    strings = Strings.of(lengths[kept], ids[np.lexsort((position, head))].values)
    chained = Fst.from_arcs(fst.start, fst.final, fst.src[kept], dst[kept], fst.ilabel[kept], cost[kept])
    states = topological_order(chained)
    states = states[~inner[states]]
    number_of = np.full(fst.num_states, -1)
    number_of[states] = np.arange(len(states))
    src = number_of[chained.src]
    order = np.argsort(src, kind="stable")
    made = Fst.from_arcs(
        int(number_of[fst.start]) if len(states) else -1,
        *(fst.final[states], src, number_of[chained.dst], chained.ilabel, chained.cost),
    )
    final_acoustic = lattice.final_acoustic_cost[states]
    return Lattice(made, acoustic[kept][order], final_acoustic, strings[order], no_strings(len(states)))


def _inside_chains(fst: Fst) -> npt.NDArray[np.bool_]:
    """Marks states inside chains: one arc in, one arc without a word out; no start and no final state."""
    inside = (np.bincount(fst.dst, minlength=fst.num_states) == 1) & (np.diff(fst.offsets) == 1)
    inside &= (fst.final == np.inf) & accessible(fst)
    inside[fst.src[fst.ilabel > 0]] = False
    inside[fst.start : fst.start + 1] = False
    return inside


def _chains(fst: Fst, inside: npt.NDArray[np.bool_]) -> tuple[Integers, Integers]:
    """Returns the first arc of each arc's chain, and the arc's position in the chain, from 0, (arcs,) each."""
    into = np.zeros(fst.num_states, np.int64)
    into[fst.dst] = np.arange(fst.num_arcs)
    head = np.where(inside[fst.src], into[fst.src], np.arange(fst.num_arcs))
    position = inside[fst.src].astype(np.int64)
    while (head[head] != head).any():
        head, position = head[head], position + position[head]
    return head, position
