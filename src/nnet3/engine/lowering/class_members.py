"""Sequences told apart again: the same graph with a cindex for each member of a class.

>>> from tests.lowering.examples import splice
>>> print(splice(sequences=2).graph)
17 cindexes, 16 dependencies, 5 provided; each stands for 2 sequences
0..4: x [ (0, -1:3) ] provided
5..8: y_input [ (0, 0:3) ] uses x
9..12: y [ (0, 0:3) ] uses y_input
13..16: output [ (0, 0:3) ] uses y
>>> print(told_apart(splice(sequences=2).graph))
34 cindexes, 32 dependencies, 10 provided
0..9: x [ (0:1, -1:3) ] provided
10..17: y_input [ (0:1, 0:3) ] uses x
18..25: y [ (0:1, 0:3) ] uses y_input
26..33: output [ (0:1, 0:3) ] uses y
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nnet3.base.index import NO_TIME, N, T, X
from nnet3.engine.lowering.graph import ComputationGraph, Ids


def told_apart(graph: ComputationGraph) -> ComputationGraph:
    """Returns the graph with multiplicity 1; the same object if the multiplicity is 1 already."""
    m = graph.multiplicity
    if m == 1:
        return graph
    is_single = graph.indexes[:, T] == NO_TIME
    copies = np.where(is_single, 1, m)
    begin = np.cumsum(copies) - copies  # where the members of each cindex begin
    old = np.repeat(np.arange(graph.num_cindexes), copies)
    member = np.arange(len(old)) - begin[old]
    indexes = graph.indexes[old]
    representative = np.searchsorted(graph.members[:, 0], indexes[:, N])
    indexes[:, N] = np.where(is_single[old], 0, graph.members[np.where(is_single[old], 0, representative), member])
    node = graph.node[old]
    order = np.lexsort((indexes[:, N], indexes[:, X], indexes[:, T], node))
    number = np.empty(len(old), np.int32)
    number[order] = np.arange(len(old))
    first = np.searchsorted(node, np.arange(len(graph.first))).astype(np.int32)

    def renumbered(ids: Ids, members: np.ndarray) -> Ids:
        """Returns the new numbers of given cindexes for given members; -1 stays."""
        found = number[begin[ids] + np.where(is_single[ids], 0, members)]
        return np.where(ids >= 0, found, np.int32(-1)).astype(np.int32)

    slots = []
    for each in range(len(graph.slots)):
        rows = order[first[each] : first[each + 1]]
        own = graph.slots[each][old[rows] - graph.first[each]]
        slots.append(renumbered(own, member[rows][:, np.newaxis]) if own.size else own)
    all_samples = {
        key: np.sort(renumbered(np.repeat(ids, m), np.tile(np.arange(m), len(ids))))
        for key, ids in graph.all_samples.items()
    }
    return replace(
        graph,
        node=node[order],
        indexes=indexes[order],
        is_input=graph.is_input[old][order],
        first=first,
        slots=slots,
        multiplicity=1,
        members=np.sort(graph.members.reshape(-1))[:, np.newaxis],
        all_samples=all_samples,
    )
