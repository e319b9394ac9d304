"""The graph of random networks against the hop-by-hop builder, cindex by cindex and slot by slot."""

from __future__ import annotations

import numpy as np
import pytest

from hop_by_hop_builder import GraphBuilder
from nnet3.compiler.nnet_source import NnetSource, lowering_request
from nnet3.lowering.graph import ComputationGraph
from nnet3.lowering.numbering import number_cindexes
from nnet3.lowering.sweeps import Sweeps
from random_networks import random_network

Expanded = tuple[np.ndarray, np.ndarray, np.ndarray, list[np.ndarray]]


def expanded(graph: ComputationGraph) -> Expanded:
    """Nodes, indexes, which are inputs and slots by node, each representative replaced by its members."""
    copies = graph.multiplicity
    indexes = graph.expanded_indexes(np.arange(graph.num_cindexes)).reshape(-1, 3)
    node, is_input = np.repeat(graph.node, copies), np.repeat(graph.is_input, copies)
    order = np.lexsort((indexes[:, 0], indexes[:, 2], indexes[:, 1], node))
    new_id = np.full(len(order) + 1, -1)
    new_id[order] = np.arange(len(order))
    slots = []
    for number, ids in enumerate(graph.slots):
        all_ids = np.where(ids[:, np.newaxis] >= 0, ids[:, np.newaxis] * copies + np.arange(copies)[:, np.newaxis], -1)
        own = order[graph.first[number] * copies : graph.first[number + 1] * copies] - graph.first[number] * copies
        slots.append(new_id[all_ids.reshape(len(ids) * copies, -1)[own]] if ids.size else ids)
    return node[order], indexes[order], is_input[order], slots


def check_graph(seed: int) -> None:
    case = random_network(seed)
    nnet = case.nnet()
    builder = GraphBuilder(nnet, case.request)
    builder.compute()
    source = NnetSource(nnet)
    sweeps = Sweeps(source, lowering_request(nnet, case.request))
    sweeps.run()
    for new, old in zip(sweeps.outputs_computable(), builder.outputs_computable(), strict=True):
        assert np.array_equal(new, old), case
    graph = number_cindexes(
        sweeps.domain,
        sweeps.tables,
        sweeps.need,
        sweeps.computability.used,
        sweeps.given,
        sweeps.samples,
        sweeps.classes,
    )
    node, indexes, is_input, slots = expanded(graph)
    oracle = builder.prune()
    assert np.array_equal(node, oracle.node), case
    assert np.array_equal(indexes, oracle.indexes), case
    assert np.array_equal(is_input, oracle.is_input), case
    for ids, expected in zip(slots, oracle.slots, strict=True):
        assert np.array_equal(ids, expected) or (ids.max(initial=-1) < 0 and expected.size == 0), case


@pytest.mark.parametrize("block", range(10))
def test_random_graphs_equal_the_hop_by_hop_ones(block: int) -> None:
    for seed in range(10 * block, 10 * block + 10):
        check_graph(seed)
