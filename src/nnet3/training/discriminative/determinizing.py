"""Determinizes acceptors of transition-ids, one an arc: keeps the best path for each sequence of ids."""

from __future__ import annotations

import numpy as np

from nnet3.base.index import entries_of_rows
from nnet3.base.index.row_hashes import mixed
from nnet3.base.kaldi_io.lattice import Lattice
from nnet3.base.kaldi_io.lattice_states import state_times
from nnet3.training.discriminative.frame_arcs import Costs, FrameArcs, Integers, first_of_each
from nnet3.training.discriminative.supervision import acceptor

_SAME = 1024  # costs that are equal multiples of its inverse are taken for equal


def determinized(lattice: Lattice, minimize: bool = False) -> Lattice:
    """Determinizes a lattice with start 0 and one end of cost 0; `minimize`: determinizes the reverse as well.

    Costs of arcs change; costs of paths do not, but for rounding to multiples of 1 / 1024 where sets are compared.
    """
    time = state_times(lattice)
    ends = np.flatnonzero(lattice.fst.final < np.inf)
    assert len(ends) == 1, "a chunk has one end"
    arcs = FrameArcs.of(lattice)
    start, end = lattice.fst.start, int(ends[0])
    if minimize:
        last = int(time[end])
        arcs, time = _from_start(_backwards(arcs), last - time, end)
        arcs, time = _from_start(_backwards(arcs), last - time, len(time) - 1)
    else:
        arcs, time = _from_start(arcs, time, start)
    final = np.full(len(time), np.inf, np.float32)
    final[-1] = 0
    return acceptor(final, *arcs)


def _backwards(arcs: FrameArcs) -> FrameArcs:
    return arcs._replace(src=arcs.dst, dst=arcs.src)


def _from_start(arcs: FrameArcs, time: Integers, start: int) -> tuple[FrameArcs, Integers]:
    """Returns the arcs between sets of states, sorted by source, and the time of each set; all frames have arcs.

    Sets are numbered by time, the start first. A set is reached by one sequence of ids: its states, each with the cost
    of the best path beyond the best path to the set.
    """
    arcs = arcs.part(np.argsort(arcs.src, kind="stable"))
    offsets = np.searchsorted(arcs.src, np.arange(len(time) + 1))
    members, state = np.zeros(1, np.int64), np.array([start])  # the set of each member, and its state
    graph: Costs = np.zeros(1)  # beyond the best member's
    acoustic: Costs = np.zeros(1)
    made, times, first = list[FrameArcs](), [np.zeros(1, np.int64)], 0
    for frame in range(int(time.max())):
        steps = entries_of_rows(offsets, state)
        position = np.repeat(np.arange(len(state)), np.diff(offsets)[state])
        step = arcs.part(steps)
        found = FrameArcs(
            members[position], step.dst, step.id, graph[position] + step.graph, acoustic[position] + step.acoustic
        )
        found = found.part(found.best_first(found.src, found.id, found.dst))
        found = found.part(first_of_each(found.src, found.id, found.dst))
        starts = np.flatnonzero(first_of_each(found.src, found.id))
        group = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(found.src))))
        best = found.best_first(group)[starts]
        excess = found.graph - found.graph[best][group], found.acoustic - found.acoustic[best][group]
        rounded = (np.floor(each * _SAME + 0.5).astype(np.int64) for each in excess)
        key = np.add.reduceat(mixed(found.dst, *rounded), starts)
        _, kept, number = np.unique(key, return_index=True, return_inverse=True)
        count, behind = len(times[-1]), first + len(times[-1])
        made.append(found.part(best)._replace(src=first + found.src[starts], dst=behind + number))
        times.append(np.full(len(kept), frame + 1))
        rows = np.flatnonzero(np.isin(group, kept))
        members, state, graph, acoustic = number[group[rows]], found.dst[rows], excess[0][rows], excess[1][rows]
        first += count
    whole = made[0]
    for others in made[1:]:
        whole = whole.joined(others)
    return whole, np.concatenate(times)
