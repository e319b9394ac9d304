"""The computation graph of random networks against the dictionary version, cindex by cindex."""

from __future__ import annotations

import pytest

from nnet3.compiler.graph import ComputationGraph
from nnet3.compiler.graph_builder import GraphBuilder
from random_networks import random_network
from slow_descriptor import Cindex
from slow_graph import SlowGraph, SlowNet


def as_dict(graph: ComputationGraph) -> dict[Cindex, set[Cindex]]:
    names = [graph.node_names[node] for node in graph.node.tolist()]
    cindexes = list(zip(names, map(tuple, graph.indexes.tolist()), strict=True))
    indptr, ids = graph.dependencies
    return {
        cindex: {cindexes[i] for i in ids[indptr[number] : indptr[number + 1]].tolist()}
        for number, cindex in enumerate(cindexes)
    }


@pytest.mark.parametrize("block", range(10))
def test_random_graphs_equal_the_slow_ones(block: int) -> None:
    for seed in range(20 * block, 20 * block + 20):
        case = random_network(seed)
        slow = SlowGraph(SlowNet.from_config(case.config), case.request)
        builder = GraphBuilder(case.nnet(), case.request)
        builder.compute()
        flags = [flag for rows in builder.outputs_computable() for flag in rows.tolist()]
        assert flags == [cindex in slow.computable for cindex in slow.requested], case
        graph = builder.prune()
        assert as_dict(graph) == slow.used(), case
        provided = {(graph.node_names[node], tuple(index)) for node, index in
                    zip(graph.node[graph.is_input], graph.indexes[graph.is_input].tolist(), strict=True)}  # fmt: skip
        assert provided == slow.provided, case
