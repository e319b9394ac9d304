"""The graph of random networks and requests against two oracles: hop by hop, and with dictionaries."""

from __future__ import annotations

import random

import numpy as np
import pytest

import nnet3
from nnet3.engine.lowering.build_graph import number_cindexes
from nnet3.engine.lowering.graph import ComputationGraph
from nnet3.engine.lowering.sweeps import Sweeps
from nnet3.model.requests import NnetSource, lowering_request
from tests.effort import EFFORT
from tests.hop_by_hop_builder import GraphBuilder
from tests.random_networks import RandomNetwork, random_network
from tests.slow_descriptor import Cindex
from tests.slow_graph import SlowGraph, SlowNet

NUM_NETWORKS = 20 if EFFORT == 1 else 40 * EFFORT
BLOCK = 20

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
        slots.append(new_id[all_ids.reshape(len(ids) * copies, -1)[own]] if ids.size else ids.repeat(copies, 0))
    return node[order], indexes[order], is_input[order], slots


def as_dict(names: list[str], graph: Expanded) -> dict[Cindex, set[Cindex]]:
    """What each cindex uses."""
    node, indexes, _, slots = graph
    cindexes = [(names[number], tuple(index)) for number, index in zip(node.tolist(), indexes.tolist(), strict=True)]
    used = [row for table in slots for row in table.tolist()]
    return {cindex: {cindexes[i] for i in row if i >= 0} for cindex, row in zip(cindexes, used, strict=True)}


def with_twins(case: RandomNetwork) -> nnet3.ComputationRequest:
    """The request with some sequences twice or three times, or as it is."""
    rng = random.Random(case.seed)
    copies = rng.choice([{}, {}, dict.fromkeys(range(8), 2), {n: rng.randint(1, 3) for n in range(8)}])

    def specification(io: nnet3.IoSpecification) -> nnet3.IoSpecification:
        rows = [(n + 20 * i, t, x) for n, t, x in io.indexes.tolist() for i in range(copies.get(n, 1))]
        return nnet3.IoSpecification(io.name, rows, io.has_deriv)

    return nnet3.ComputationRequest(
        [specification(io) for io in case.request.inputs], [specification(io) for io in case.request.outputs]
    )


def check_graph(seed: int) -> None:
    case = random_network(seed)
    nnet, request = case.nnet(), with_twins(case)
    builder = GraphBuilder(nnet, request)
    builder.compute()
    source = NnetSource(nnet)
    sweeps = Sweeps(source, lowering_request(nnet, request))
    sweeps.run()
    computable = sweeps.outputs_computable()
    for new, old in zip(computable, builder.outputs_computable(), strict=True):
        assert np.array_equal(new, old), case
    graph = number_cindexes(sweeps)
    check_order(graph)
    everything = expanded(graph)
    node, indexes, is_input, slots = everything
    oracle = builder.prune()
    assert np.array_equal(node, oracle.node), case
    assert np.array_equal(indexes, oracle.indexes), case
    assert np.array_equal(is_input, oracle.is_input), case
    for ids, expected in zip(slots, oracle.slots, strict=True):
        assert np.array_equal(ids, expected) or (ids.max(initial=-1) < 0 and expected.size == 0), case
    slow = SlowGraph(SlowNet.from_config(case.config), request)
    assert np.concatenate(computable).tolist() == [cindex in slow.computable for cindex in slow.requested], case
    assert as_dict(list(graph.node_names), everything) == slow.used(), case


def check_order(graph: ComputationGraph) -> None:
    """By node, then t, x, n; members ascending, their first the one that the graph holds."""
    keys = list(zip(graph.node.tolist(), *(graph.indexes[:, column].tolist() for column in (1, 2, 0)), strict=True))
    assert keys == sorted(set(keys))
    assert graph.members.shape[1] == graph.multiplicity
    assert (np.diff(graph.members, axis=1) > 0).all()
    assert (np.diff(graph.members[:, 0]) > 0).all()
    assert set(graph.indexes[:, 0].tolist()) <= set(graph.members[:, 0].tolist())
    for number, ids in enumerate(graph.slots):
        assert len(ids) == graph.first[number + 1] - graph.first[number]
        assert ids.shape[1] == len(graph.slot_operand[number])


@pytest.mark.parametrize("block", range(NUM_NETWORKS // BLOCK))
def test_random_graphs_equal_the_oracles(block: int) -> None:
    for seed in range(BLOCK * block, BLOCK * (block + 1)):
        check_graph(seed)
