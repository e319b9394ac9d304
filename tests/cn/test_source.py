"""A graph as lowering sees it: a source node for each node that is needed, and what is provided from outside."""

from __future__ import annotations

from nnet3 import cn
from nnet3.cn.graph import NodeGraph
from nnet3.cn.source import GRADIENT, PROBE, VALUE, CnSource
from nnet3.engine.lowering.source import NodeKind

X = cn.input("x", 3)
W = cn.parameter("W", (2, 3))
Y = cn.tanh(cn.times(W, X, name="z"), name="y")
OTHER = cn.relu(Y, name="other")
GRAPH = NodeGraph([OTHER])


def _by_name(source: CnSource) -> dict[str, NodeKind]:
    return {node.name: node.kind for node in source.nodes}


def test_only_what_the_roots_need_is_there() -> None:
    kinds = _by_name(CnSource(GRAPH, [Y], {}))
    assert {"x", "W", "z", "y"} <= kinds.keys()
    assert "other" not in kinds
    assert kinds["x"] == kinds["W"] == NodeKind.PROVIDED
    assert NodeKind.PROVIDED not in (kinds["z"], kinds["y"])


def test_numbers_are_those_of_the_nodes() -> None:
    source = CnSource(GRAPH, [OTHER], {})
    assert {node: source.nodes[number].name for node, number in source.number.items()} == GRAPH.names


def test_a_value_that_is_given_is_provided_and_what_it_needs_is_not() -> None:
    (z,) = (node for node, name in GRAPH.names.items() if name == "z")
    kinds = _by_name(CnSource(GRAPH, [Y], {}, given=[z]))
    assert kinds["z"] == NodeKind.PROVIDED
    assert "W" not in kinds


def test_a_parameter_has_memory_for_its_gradient_if_that_is_wanted() -> None:
    for flags, gradient in (({}, ""), ({W: True}, "W" + GRADIENT)):
        source = CnSource(GRAPH, [Y], flags)
        node = source.nodes[source.number[W]]
        assert (node.memory, node.gradient, node.num_rows) == ("W", gradient, 3)


def test_a_probe_is_added_to_the_value_of_its_node() -> None:
    source = CnSource(GRAPH, [OTHER], {Y: True}, probes=[Y])
    kinds = _by_name(source)
    assert kinds["y" + PROBE] == NodeKind.PROVIDED
    assert {"y", "y" + VALUE} <= kinds.keys()
    assert source.nodes[source.probe[Y]].name == "y" + PROBE
