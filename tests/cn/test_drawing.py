"""Pictures: every node, every operand, loops, shared parameters."""

from __future__ import annotations

import pytest

from nnet3 import cn
from nnet3.errors import DrawingError, NetworkError


def network() -> cn.Network:
    x = cn.input("x", 3)
    W = cn.parameter("W", (3, 3))
    d = cn.delay(None, lag=2, dim=3, name="d")
    h = d.connect(cn.tanh(W @ x + W @ d, name="h"))
    return cn.Network(cn.l2_norm(h, name="J"), {"h": h})


def test_boxes_and_arcs() -> None:
    graph = network().draw().graph
    boxes = {box.id: box for box in graph.nodes}
    assert boxes["W"].lines == ("{W : parameter}", "3 x 3", "shared by 2")
    assert boxes["h"].lines == ("{h : tanh}", "3 x S")
    assert {box.kind for box in graph.nodes} == {"input", "trained", "memory", "function", "output"}
    arcs = {(arc.a, arc.b): arc for arc in graph.arcs}
    assert len(graph.arcs) == sum(len(node.operands) for node in network().nodes)
    assert arcs["h", "d"].is_delay
    assert arcs["h", "d"].label == "-2 frames"
    assert not arcs["x", "times1"].is_delay


def test_what_colours_mean() -> None:
    net = network()
    net.freeze("W")
    x = net.find("x")
    m = cn.mean(x, name="m")
    both = cn.Network(net.find("J"), {"m": m, "c": cn.constant(1.0) + x})
    kinds = {box.id: box.kind for box in both.draw().graph.nodes}
    assert kinds == {
        **{"x": "input", "W": "glue", "parameter1": "glue", "d": "memory", "m": "memory", "J": "output"},
        **dict.fromkeys(("times1", "times2", "plus1", "plus2", "h"), "function"),
    }


def test_labels_titles_and_tooltips() -> None:
    x = cn.input("x", 3)
    ahead = cn.delay(x, -1, name="ahead")
    W, b = cn.parameter("W", (3, 3)), cn.parameter("b", (3, 1))
    graph = cn.Network(outputs={"o": W @ ahead + W @ x + b}).draw(title="three parameters").graph
    assert graph.title == "three parameters"
    labels = {(arc.a, arc.b): (arc.label, arc.is_delay) for arc in graph.arcs}
    assert labels.pop(("x", "ahead")) == ("+1 frames", True)
    assert set(labels.values()) == {("", False)}
    boxes = {box.id: box for box in graph.nodes}
    assert boxes["W"].lines[2:] == ("shared by 2",)
    assert boxes["b"].lines == ("{b : parameter}", "3 x 1")
    assert boxes["x"].lines == ("{x : input}", "3 x S")  # an input has users, too
    assert boxes["ahead"].tooltip == 'ahead = cn.delay(x, -1, name="ahead")'


def test_pictures_go_to_files_by_their_ending(tmp_path) -> None:
    net = network()
    net.draw(tmp_path / "net.svg")
    assert "{W : parameter}" in (tmp_path / "net.svg").read_text()
    net.draw(tmp_path / "net.dot")
    assert "digraph" in (tmp_path / "net.dot").read_text()
    with pytest.raises(DrawingError, match="svg, png, dot"):
        net.draw(tmp_path / "net.txt")


def test_highlighted_nodes_have_another_colour() -> None:
    boxes = {box.id: box.kind for box in network().draw(highlight=["W"]).graph.nodes}
    assert boxes["W"] == "output"
    h = (net := network()).find("h")
    kinds = {box.id: box.kind for box in net.draw(highlight=[h]).graph.nodes}
    assert [name for name, kind in kinds.items() if kind == "output"] == ["h", "J"]
    with pytest.raises(NetworkError, match="there is no node 'V'"):
        network().draw(highlight=["V"])
