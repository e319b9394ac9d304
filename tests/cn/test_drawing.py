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


def test_files(tmp_path) -> None:
    net = network()
    net.draw(tmp_path / "net.svg")
    assert "{W : parameter}" in (tmp_path / "net.svg").read_text()
    net.draw(tmp_path / "net.dot")
    assert "digraph" in (tmp_path / "net.dot").read_text()
    with pytest.raises(DrawingError, match="svg, png, dot"):
        net.draw(tmp_path / "net.txt")


def test_highlighted_nodes() -> None:
    boxes = {box.id: box.kind for box in network().draw(highlight=["W"]).graph.nodes}
    assert boxes["W"] == "output"
    with pytest.raises(NetworkError, match="there is no node 'V'"):
        network().draw(highlight=["V"])
