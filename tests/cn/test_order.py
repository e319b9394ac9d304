"""Algorithms 1.2, 1.4, 1.5 and 1.6 on small graphs and on random ones."""

from __future__ import annotations

import random

import pytest

from nnet3 import cn
from nnet3.cn.order import (
    all_nodes,
    forward_order,
    forward_order_with_loops,
    gradient_order,
    gradient_order_with_loops,
    need_gradient_flags,
    parents_of,
)
from nnet3.errors import NetworkError


def names(nodes) -> list[str]:
    return [node.name or node.type for node in nodes]


def two_layers():
    x = cn.input("x", 3)
    W1, W2 = cn.parameter("W1", (4, 3)), cn.parameter("W2", (2, 4))
    b1 = cn.parameter("b1", (4, 1))
    hidden = cn.sigmoid(W1 @ x + b1)
    J = cn.cross_entropy_with_softmax(cn.input("labels", 2), W2 @ hidden, name="J")
    return J


def test_forward_order_of_the_one_hidden_layer_network() -> None:
    assert names(forward_order([two_layers()])) == [
        *("labels", "W2", "W1", "x", "times", "b1", "plus", "sigmoid", "times", "J"),
    ]


def test_gradients_go_from_the_root_down() -> None:
    assert names(gradient_order(two_layers())) == ["J", "times", "sigmoid", "plus", "times"]


def test_a_shared_node_comes_after_all_its_parents() -> None:
    x = cn.parameter("x", (3, 1))
    shared = cn.tanh(x, name="shared")
    J = cn.sum_elements(cn.plus(shared, cn.exp(cn.negate(shared))))
    order = names(gradient_order(J))
    assert order.index("shared") > order.index("negate")


@pytest.mark.parametrize("seed", range(20))
def test_operands_of_random_graphs_come_first(seed) -> None:
    random.seed(seed)
    nodes = [cn.parameter(f"p{i}", (2, 2)) for i in range(3)]
    for _ in range(30):
        nodes.append(cn.plus(random.choice(nodes), random.choice(nodes)))
    root = cn.sum_elements(nodes[-1])
    place = {node: i for i, node in enumerate(forward_order([root]))}
    assert set(place) == set(all_nodes([root]))
    assert all(place[operand] < place[node] for node in place for operand in node.operands)
    order = gradient_order(root)
    assert len(set(order)) == len(order)
    assert set(order) == {node for node in place if node.operands}
    back = {node: i for i, node in enumerate(order)}
    parents = parents_of(place)
    assert all(back[parent] < back[node] for node in back for parent in parents[node])


def test_need_gradient_flags() -> None:
    J = two_layers()
    flags = {node.name or node.type: flag for node, flag in need_gradient_flags([J]).items()}
    assert flags["J"]
    assert flags["sigmoid"]
    assert not flags["x"]
    assert not flags["labels"]
    for node in all_nodes([J]):
        if node.name in ("W1", "b1"):
            node.trainable = False
    frozen = {id(node): flag for node, flag in need_gradient_flags([J]).items()}
    assert {n.name or n.type: frozen[id(n)] for n in all_nodes([J]) if n.type == "sigmoid"} == {"sigmoid": False}
    x = next(node for node in all_nodes([J]) if node.name == "x")
    assert need_gradient_flags([J], {x: True})[x]


def recurrence():
    x = cn.input("x", 3)
    d = cn.delay(None, dim=4, name="d")
    first = cn.parameter("W", (4, 3)) @ x
    h = d.connect(cn.tanh(first + cn.parameter("R", (4, 4)) @ d, name="h"))
    return cn.softmax(h, name="out")


def test_order_with_a_loop() -> None:
    order = forward_order_with_loops([recurrence()])
    loops = [names(composite.nodes) for composite in order if composite.is_loop]
    assert loops == [["d", "times", "plus", "h"]]
    assert names(order[-1].nodes) == ["out"]
    assert {node.name: flag for node, flag in need_gradient_flags([recurrence()]).items() if node.name == "d"}["d"]


def test_a_loop_has_no_plain_order() -> None:
    with pytest.raises(NetworkError, match="loop"):
        forward_order([recurrence()])


def test_a_deep_network() -> None:
    node = cn.parameter("p", (1, 1))
    for _ in range(5000):
        node = cn.negate(node)
    assert len(forward_order([node])) == 5001
    assert len(gradient_order(node)) == 5000
    assert len(forward_order_with_loops([node])) == 5001


def recurrent_network() -> cn.Network:
    out = recurrence()
    J = cn.cross_entropy(cn.input("labels", 4), out, name="J")
    decay = cn.l1_norm(next(node for node in all_nodes([out]) if node.name == "W"), name="decay")
    return cn.Network({J: 1.0, decay: 0.1})


def test_gradient_order_of_a_recurrent_network_with_two_criteria() -> None:
    net = recurrent_network()
    order = net.order(gradient=True)
    assert order == ("J", "out", ("h", "plus1", "times2", "d"), "times1", "decay")
    assert "loop over 4 nodes, for each frame:\n  {h : tanh} <- plus1" in str(order)
    assert net.order("decay", gradient=True) == ("decay",)


def test_gradient_order_leaves_out_what_needs_no_gradient() -> None:
    net = recurrent_network()
    net.freeze("W")
    assert net.order(gradient=True) == ("J", "out", ("h", "plus1", "times2", "d"))
    net.freeze("R")
    assert net.order(gradient=True) == ()
    x = cn.input("x", 3)
    own = cn.component("PerElementOffsetComponent dim=3", cn.tanh(x), name="own")
    assert cn.Network(cn.sum_elements(own, name="J")).order(gradient=True) == ("J", "own")


def test_gradient_order_of_a_criterion_below_another() -> None:
    J = cn.l1_norm(cn.parameter("W", (2, 2)), name="J")
    assert cn.Network({J: 1.0, cn.tanh(J, name="K"): 1.0}).order(gradient=True) == ("K", "J")


@pytest.mark.parametrize("seed", range(5))
def test_gradient_order_with_loops_comes_after_all_parents(seed) -> None:
    random.seed(seed)
    x = cn.input("x", 2)
    nodes = [x, *(cn.parameter(f"p{i}", (2, 1)) for i in range(3))]
    waiting = []
    for _ in range(20):
        if random.random() < 0.2:
            waiting.append(cn.delay(None, dim=2))
            nodes.append(waiting[-1])
        nodes.append(cn.plus(cn.plus(x, random.choice(nodes)), random.choice(nodes)))
    for delay in waiting:
        delay.connect(cn.tanh(nodes[-1]))
    roots = [cn.sum_elements(nodes[-1]), cn.sum_elements(nodes[-3])]
    flags = need_gradient_flags(roots)
    order = gradient_order_with_loops(roots, flags)
    place = {node: i for i, composite in enumerate(order) for node in composite.nodes}
    assert set(place) == {node for node in all_nodes(roots) if node.operands and flags[node]}
    assert all(place[node] <= place[o] for node in place for o in node.operands if o in place)
    inside = [{node: i for i, node in enumerate(composite.nodes)} for composite in order if composite.is_loop]
    for places in inside:  # within a frame, delays apart, which look at another one
        for node in places:
            assert node.type == "delay" or all(places[node] < places[o] for o in node.operands if o in places)
