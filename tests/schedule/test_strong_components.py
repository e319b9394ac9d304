"""Components, their order and epochs against brute-force reachability."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, strategies as st

from nnet3.engine.schedule import DirectedGraph, epochs, strongly_connected_components
from tests.call_count import assert_calls_in_proportion

Edges = list[tuple[int, int]]


@st.composite
def graphs(draw: st.DrawFn) -> tuple[int, Edges]:
    num_nodes = draw(st.integers(1, 9))
    node = st.integers(0, num_nodes - 1)
    return num_nodes, draw(st.lists(st.tuples(node, node), max_size=2 * num_nodes))


def build(num_nodes: int, edges: Edges) -> DirectedGraph:
    return DirectedGraph.from_edges(num_nodes, [a for a, _ in edges], [b for _, b in edges])


def reachable(num_nodes: int, edges: Edges) -> list[set[int]]:
    """The nodes that each node reaches, itself included."""
    reach = [{node} for node in range(num_nodes)]
    for _ in range(num_nodes):
        for a, b in edges:
            reach[a] |= reach[b]
    return reach


@given(graphs())
def test_a_graph_holds_each_arc_once(graph: tuple[int, Edges]) -> None:
    num_nodes, edges = graph
    built = build(num_nodes, edges)
    assert built.num_nodes == num_nodes
    assert list(zip(built.sources.tolist(), built.successors.tolist(), strict=True)) == sorted(set(edges))
    turned = built.reversed()
    assert list(zip(turned.sources.tolist(), turned.successors.tolist(), strict=True)) == sorted(
        {(b, a) for a, b in edges}
    )


@given(graphs())
def test_components_are_the_sets_that_reach_each_other_in_topological_order(graph: tuple[int, Edges]) -> None:
    num_nodes, edges = graph
    reach = reachable(num_nodes, edges)
    component, num_components = strongly_connected_components(build(num_nodes, edges))
    assert set(component.tolist()) == set(range(num_components))
    for a in range(num_nodes):
        for b in range(num_nodes):
            together = b in reach[a] and a in reach[b]
            assert (component[a] == component[b]) == together
            if b in reach[a] and not together:
                assert component[a] < component[b]


@given(graphs())
def test_arcs_that_lead_upwards_keep_the_order_of_the_nodes(graph: tuple[int, Edges]) -> None:
    num_nodes, edges = graph
    component, _ = strongly_connected_components(build(num_nodes, [(a, b) for a, b in edges if a < b]))
    assert component.tolist() == list(range(num_nodes))


@given(graphs())
def test_recurrent_epochs_hold_a_circle(graph: tuple[int, Edges]) -> None:
    num_nodes, edges = graph
    reach = reachable(num_nodes, edges)
    epoch_of_node, is_recurrent = epochs(build(num_nodes, edges))
    for node in range(num_nodes):
        on_a_circle = any(a == node and node in reach[b] for a, b in edges)
        assert is_recurrent[epoch_of_node[node]] == on_a_circle


def test_a_recurrent_layer_below_a_feedforward_one() -> None:
    # input -> lstm_input <-> lstm -> affine_input -> affine -> output
    epoch_of_node, is_recurrent = epochs(build(6, [(0, 1), (1, 2), (2, 1), (2, 3), (3, 4), (4, 5)]))
    assert epoch_of_node.tolist() == [0, 1, 1, 2, 3, 4]
    assert is_recurrent.tolist() == [False, True, False, False, False]


def test_an_empty_graph() -> None:
    component, num_components = strongly_connected_components(build(0, []))
    assert (component.tolist(), num_components) == ([], 0)
    assert [array.tolist() for array in epochs(build(0, []))] == [[], []]


def _long(length: int, closed: bool) -> DirectedGraph:
    """A chain, or a ring if it is closed."""
    nodes = np.arange(length)
    end = length if closed else length - 1
    return DirectedGraph.from_edges(length, nodes[:end], (nodes[:end] + 1) % length)


@pytest.mark.parametrize(("closed", "num_components"), [(False, 100_000), (True, 1)])
def test_long_chains_and_rings(closed: bool, num_components: int) -> None:
    component, found = strongly_connected_components(_long(100_000, closed))
    assert found == num_components
    assert np.all(component == 0) if closed else np.array_equal(component, np.arange(100_000))


@pytest.mark.parametrize("closed", [False, True])
def test_calls_are_in_proportion_to_the_number_of_nodes(closed: bool) -> None:
    def work(length: int) -> Callable[[], object]:
        graph = _long(length, closed)
        return lambda: strongly_connected_components(graph)

    assert_calls_in_proportion(work, 1000, 10_000)


@pytest.mark.parametrize(("sources", "targets"), [([0], [2]), ([-1], [0]), ([0, 1], [0])])
def test_arcs_that_do_not_fit_are_our_own_bug(sources: list[int], targets: list[int]) -> None:
    with pytest.raises(AssertionError):
        DirectedGraph.from_edges(2, sources, targets)
