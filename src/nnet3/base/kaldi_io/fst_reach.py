"""Reachability and cycles of an FST, computed for whole fronts of states at a time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nnet3.base.index import entries_of_rows
from nnet3.base.kaldi_io.fst import Fst

_FEW = 3000  # arcs, for which arrays take longer than lists
Flags = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.integer]


def breadth_first(fst: Fst, states: Integers) -> Integers:
    """Returns the states reached from `states`, (reached,) int64, in breadth-first order, arcs taken in order."""
    return np.concatenate([np.empty(0, np.int64), *breadth_first_fronts(fst, states)])


def breadth_first_fronts(fst: Fst, states: Integers) -> list[Integers]:
    """Returns the states reached from `states` by 0, 1, 2, ... arcs, an array (reached,) for each number of arcs."""
    position = np.full(fst.num_states, -1)
    front: Integers = np.asarray(states, np.int64)
    position[front] = 0
    fronts: list[Integers] = []
    while len(front):
        fronts.append(front)
        found = fst.dst[entries_of_rows(fst.offsets, front)]
        found = found[position[found] < 0]
        position[found[::-1]] = np.arange(len(found))[::-1]  # the first occurrence stays
        front = found[position[found] == np.arange(len(found))].astype(np.int64)
    return fronts


def _backward(fst: Fst) -> tuple[Integers, Integers]:
    """Offsets and sources of the arcs grouped by destination."""
    order = np.argsort(fst.dst, kind="stable")
    offsets = np.zeros(fst.num_states + 1, np.int64)
    np.cumsum(np.bincount(fst.dst, minlength=fst.num_states), out=offsets[1:])
    return offsets, fst.src[order]


def _spread(offsets: Integers, targets: Integers, marked: Flags) -> Flags:
    """Returns the states reachable from marked states, (states,)."""
    if len(targets) < _FEW:
        return _spread_singly(offsets, targets, marked)
    marked = marked.copy()
    front = np.flatnonzero(marked)
    while len(front):
        found = targets[entries_of_rows(offsets, front)]
        front = np.unique(found[~marked[found]])
        marked[front] = True
    return marked


def _spread_singly(offsets: Integers, targets: Integers, marked: Flags) -> Flags:
    """Returns what `_spread` does, state by state."""
    first, target, found = offsets.tolist(), targets.tolist(), marked.tolist()
    waiting = np.flatnonzero(marked).tolist()
    while waiting:
        state = waiting.pop()
        for each in target[first[state] : first[state + 1]]:
            if not found[each]:
                found[each] = True
                waiting.append(each)
    return np.array(found, bool)


def goes_up(fst: Fst) -> bool:
    """Returns True if every arc leads to a state of a higher number."""
    return bool((fst.dst > fst.src).all())


def accessible(fst: Fst) -> Flags:
    """Marks the states that can be reached from the start, (states,)."""
    marked = np.zeros(fst.num_states, bool)
    if fst.num_states == 0:
        return marked
    marked[fst.start] = True
    if fst.start == 0 and goes_up(fst):
        entered = np.bincount(fst.dst, minlength=fst.num_states) > 0
        if entered[1:].all():  # by induction from the start upwards
            return np.ones(fst.num_states, bool)
    return _spread(fst.offsets, fst.dst, marked)


def coaccessible(fst: Fst) -> Flags:
    """Marks the states from which a final state can be reached, (states,)."""
    final = fst.final < np.inf
    if goes_up(fst) and (final | (np.diff(fst.offsets) > 0)).all():  # by induction from the end downwards
        return np.ones(fst.num_states, bool)
    offsets, sources = _backward(fst)
    return _spread(offsets, sources, final)


def longest_paths(states: int, src: Integers, dst: Integers) -> Integers:
    """Returns the number of arcs of the longest path to each state, (states,); -1 on cycles and behind them."""
    order = np.argsort(src, kind="stable")
    dst, offsets = dst[order], np.searchsorted(src[order], np.arange(states + 1))
    if len(dst) < _FEW:
        return _longest_paths_singly(offsets, dst)
    depth, waiting = np.full(states, -1), np.bincount(dst, minlength=states)  # arcs to each state from those to come
    level, reached = 0, np.flatnonzero(waiting == 0)
    while len(reached):
        depth[reached] = level
        ahead, arcs = np.unique(dst[entries_of_rows(offsets, reached)], return_counts=True)
        waiting[ahead] -= arcs
        level, reached = level + 1, ahead[waiting[ahead] == 0]
    return depth


def _longest_paths_singly(offsets: Integers, targets: Integers) -> Integers:
    """Returns what `longest_paths` does, state by state."""
    first, target = offsets.tolist(), targets.tolist()
    depth, waiting = [0] * (len(first) - 1), np.bincount(targets, minlength=len(first) - 1).tolist()
    reached = [state for state, arcs in enumerate(waiting) if not arcs]
    while reached:
        state = reached.pop()
        behind = depth[state] + 1
        for each in target[first[state] : first[state + 1]]:
            if behind > depth[each]:
                depth[each] = behind
            waiting[each] -= 1
            if not waiting[each]:
                reached.append(each)
    return np.where(np.array(waiting, np.int64) == 0, np.array(depth, np.int64), -1)


def topological_order(fst: Fst) -> Integers:
    """Returns the states in OpenFst's order, (states,): the reverse postorder of a depth-first search.

    The search begins at the start, then at each state not yet seen; arcs are taken in order.
    """
    next_arc, ends, dst = fst.offsets[:-1].tolist(), fst.offsets[1:].tolist(), fst.dst.tolist()
    seen, left = [False] * fst.num_states, []
    for root in [fst.start, *range(fst.num_states)] if fst.num_states else []:
        path = [] if seen[root] else [root]
        seen[root] = True
        while path:
            arc = next_arc[path[-1]]
            if arc == ends[path[-1]]:
                left.append(path.pop())
                continue
            next_arc[path[-1]] += 1
            if not seen[dst[arc]]:
                seen[dst[arc]] = True
                path.append(dst[arc])
    return np.array(left[::-1], np.int64)


def arcs_on_cycles(fst: Fst) -> Flags:
    """Marks the arcs of cycles, (arcs,): arcs within a strongly connected component."""
    on_cycle = fst.src == fst.dst
    if ((fst.dst > fst.src) | on_cycle).all():
        return on_cycle
    remaining: Integers = np.flatnonzero(~on_cycle)
    while len(remaining := _without_dead_ends(fst, remaining)):
        component = _component_of(fst, remaining)
        inside = component[fst.src[remaining]] & component[fst.dst[remaining]]
        on_cycle[remaining[inside]] = True
        touches = component[fst.src[remaining]] | component[fst.dst[remaining]]
        remaining = remaining[~touches]
    return on_cycle


def _without_dead_ends(fst: Fst, arcs: Integers) -> Integers:
    """Removes, again and again, arcs from states without entering arcs and arcs to states without leaving arcs."""
    while len(arcs):
        entered, left = np.zeros(fst.num_states, bool), np.zeros(fst.num_states, bool)
        left[fst.src[arcs]], entered[fst.dst[arcs]] = True, True
        kept = entered[fst.src[arcs]] & left[fst.dst[arcs]]
        if kept.all():
            break
        arcs = arcs[kept]
    return arcs


def _component_of(fst: Fst, arcs: Integers) -> Flags:
    """Returns the strongly connected component, by the given arcs, of the first arc's source state."""
    part = Fst.from_arcs(0, fst.final, fst.src[arcs], fst.dst[arcs], np.zeros(len(arcs)))
    origin = np.zeros(fst.num_states, bool)
    origin[fst.src[arcs[0]]] = True
    return _spread(part.offsets, part.dst, origin) & _spread(*_backward(part), origin)
