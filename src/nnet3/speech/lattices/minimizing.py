"""Minimizes lattices: transition-ids and costs move towards the start, then states with equal continuations merge."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nnet3.base.index.ranges import concatenate_ranges
from nnet3.base.index.row_hashes import mixed
from nnet3.base.kaldi_io.fst_reach import longest_paths
from nnet3.base.kaldi_io.lattice import Strings
from nnet3.speech.arrays.aliases import Doubles, Integers
from nnet3.speech.arrays.row_buffer import RowBuffer
from nnet3.speech.lattices.label_lattice import LabelLattice
from nnet3.speech.lattices.strings import chained, common_lengths, first_values, hashes, without_first

_SAME = 1.0 / 1024  # sums of costs this close are taken for equal, as in Kaldi


def minimized(lattice: LabelLattice, ids: bool = True, costs: bool = True) -> LabelLattice:
    """Returns a lattice with the same paths and as few states as equal continuations allow.

    `ids`, `costs`: these move towards the start first.
    """
    return _merged(pushed(lattice, ids, costs))


def pushed(lattice: LabelLattice, ids: bool = True, costs: bool = True) -> LabelLattice:
    """Returns a lattice of equal paths, with ids, costs or both moved as early as possible."""
    lattice = _with_early_ids(lattice) if ids else lattice
    return _with_early_costs(lattice) if costs else lattice


def _with_early_ids(lattice: LabelLattice) -> LabelLattice:
    """Moves the ids common to all continuations of a state into the arcs to the state."""
    ends = np.isfinite(lattice.final_graph)
    length, begin = np.zeros((2, lattice.num_states), np.int64)  # of what each state hands on
    values = RowBuffer(1, np.int32)

    def hand_on(states: Integers, common: Strings) -> None:
        length[states], begin[states] = common.lengths, len(values) + common.offsets[:-1]
        values.append(common.values[:, None])

    def with_common(ids: Strings, dst: Integers) -> Strings:
        common = values.take(concatenate_ranges(begin[dst], length[dst]))[:, 0]
        return chained(ids, Strings.of(length[dst], common))

    alone = 1 + np.flatnonzero((ends & (np.diff(lattice.offsets) == 0))[1:])  # the start keeps its ids
    hand_on(alone, lattice.final_ids[alone])
    for arcs in reversed(list(lattice.arcs_by_source())[1:]):
        states = np.unique(lattice.src[arcs])
        ending = states[ends[states]]
        which = np.arange(arcs.start, arcs.stop)
        strings = Strings.joined([with_common(lattice.ids[which], lattice.dst[arcs]), lattice.final_ids[ending]])
        owner = np.append(lattice.src[arcs], ending)
        order = np.argsort(owner, kind="stable")
        strings, first = strings[order], np.searchsorted(owner[order], states)
        hand_on(states, first_values(strings[first], common_lengths(strings, first)))
    return replace(
        lattice,
        ids=without_first(with_common(lattice.ids, lattice.dst), length[lattice.src]),
        final_ids=without_first(lattice.final_ids, np.where(ends, length, 0)),
    )


def _with_early_costs(lattice: LabelLattice) -> LabelLattice:
    """Moves the cost of each state's best continuation into the arcs to the state."""
    graph, acoustic = lattice.final_graph.copy(), lattice.final_acoustic.copy()
    for arcs in reversed(list(lattice.arcs_by_source())):
        src, dst = lattice.src[arcs], lattice.dst[arcs]
        states = np.unique(src)
        owner = np.append(src, states)
        graphs = np.append(lattice.graph_cost[arcs] + graph[dst], graph[states])
        acoustics = np.append(lattice.acoustic_cost[arcs] + acoustic[dst], acoustic[states])
        order = np.lexsort((graphs, graphs + acoustics, owner))
        best = order[np.searchsorted(owner[order], states)]
        graph[states], acoustic[states] = graphs[best], acoustics[best]
    graph[0] = acoustic[0] = 0.0
    return replace(
        lattice,
        graph_cost=lattice.graph_cost + graph[lattice.dst] - graph[lattice.src],
        acoustic_cost=lattice.acoustic_cost + acoustic[lattice.dst] - acoustic[lattice.src],
        final_graph=_less(lattice.final_graph, graph),
        final_acoustic=_less(lattice.final_acoustic, acoustic),
    )


def _less(costs: Doubles, moved: Doubles) -> Doubles:
    return np.where(np.isfinite(costs), costs - np.where(np.isfinite(costs), moved, 0.0), np.inf)


def _merged(lattice: LabelLattice) -> LabelLattice:
    """Merges states whose arcs and ends have equal labels, ids, destinations and costs: the last state stays."""
    kind = _kinds(lattice)
    _, first_from_end, of_kind = np.unique(kind[::-1], return_index=True, return_inverse=True)
    last = lattice.num_states - 1 - first_from_end
    order = np.argsort(last)
    number, kept = np.argsort(order)[of_kind[::-1]], last[order]
    stays = np.zeros(lattice.num_states, bool)
    stays[kept] = True
    arcs = np.flatnonzero(stays[lattice.src])
    return LabelLattice(
        *(lattice.level[kept], number[lattice.src[arcs]], number[lattice.dst[arcs]], lattice.label[arcs]),
        *(lattice.graph_cost[arcs], lattice.acoustic_cost[arcs], lattice.ids[arcs]),
        *(lattice.final_graph[kept], lattice.final_acoustic[kept], lattice.final_ids[kept]),
    )


def _kinds(lattice: LabelLattice) -> Integers:
    """Returns a number for each state, (states,), equal for states with equal continuations.

    Such states have equally long longest ways to an end. An end counts as an arc with a label of its own to no state.
    """
    ends = np.flatnonzero(np.isfinite(lattice.final_cost))
    src = np.append(lattice.src, ends)
    dst = np.append(lattice.dst, np.full(len(ends), lattice.num_states))
    cost = np.append(lattice.cost, lattice.final_cost[ends])
    ids = np.append(hashes(lattice.ids), hashes(lattice.final_ids[ends]))
    own = mixed(np.append(lattice.label, np.full(len(ends), -1)), ids)
    height = longest_paths(lattice.num_states, lattice.dst, lattice.src)
    kind = mixed(np.append(height, -1))
    order = np.argsort(height[src], kind="stable")
    for arcs in np.split(order, 1 + np.flatnonzero(np.diff(height[src[order]]))):
        what = mixed(own[arcs], kind[dst[arcs]])
        by_cost = np.lexsort((cost[arcs], what))
        starts = (np.diff(what[by_cost]) != 0) | (np.diff(cost[arcs][by_cost]) > _SAME)
        like = np.empty(len(arcs), np.int64)
        like[by_cost] = np.append(0, np.cumsum(starts))
        with np.errstate(over="ignore"):
            np.add.at(kind, src[arcs], mixed(what, like))
    return kind[:-1]
