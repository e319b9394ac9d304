"""How networks and orders are printed."""

from __future__ import annotations

from xml.etree import ElementTree

import torch

from nnet3 import cn


def network() -> cn.Network:
    x = cn.input("x", 3)
    d = cn.delay(None, dim=4, name="d")
    h = d.connect(cn.tanh(cn.plus(cn.parameter("W", (4, 3)) @ x, cn.parameter("R", (4, 4)) @ d), name="h"))
    error = cn.square_error(cn.parameter("V", (2, 4)) @ h, cn.input("y", 2), name="error")
    net = cn.Network({error: 1.0, cn.l2_norm(h, name="size"): 0.25}, {"hidden": h, "d": d})
    net.freeze("R")
    return net


def test_a_network_prints_as_a_table_of_nodes() -> None:
    assert str(network()).splitlines() == [
        "x       : input                         3 x S",
        "y       : input                         2 x S",
        "V       : parameter                     2 x 4",
        "W       : parameter                     4 x 3",
        "R       : parameter                     4 x 4  frozen",
        "times1  : times         W, x            4 x S",
        "d       : delay         h               4 x S",
        "times2  : times         R, d            4 x S",
        "plus1   : plus          times1, times2  4 x S",
        "h       : tanh          plus1           4 x S",
        "times3  : times         V, h            2 x S",
        "error   : square_error  times3, y       1 x 1",
        "size    : l2_norm       h               1 x 1",
        "criterion error",
        "criterion size x 0.25",
        "output hidden: h",
        "output d: d",
    ]


def test_in_a_line() -> None:
    net = network()
    assert repr(net) == "<Network: 13 nodes, 20 trainable numbers>"
    net.unfreeze("R")
    assert repr(net) == "<Network: 13 nodes, 36 trainable numbers>"


def test_an_order_with_a_loop() -> None:
    order = network().order("error")
    loop = ("d", "times2", "plus1", "h")
    assert order == ("V", "W", "x", "times1", "R", loop, "times3", "y", "error")
    assert str(order).splitlines()[4:-2] == [
        "{R : parameter}    4 x 4",
        "loop over 4 nodes, for each frame:",
        "  {d : delay} <- h    4 x S",
        "  {times2 : times} <- R, d    4 x S",
        "  {plus1 : plus} <- times1, times2    4 x S",
        "  {h : tanh} <- plus1    4 x S",
        "{times3 : times} <- V, h    2 x S",
    ]


def test_pictures_in_notebooks_of_odd_networks() -> None:
    """Well-formed, and what looks like HTML in a name is text."""
    x = cn.input("x", 3)
    d = cn.delay(None, dim=3)
    h = d.connect(cn.tanh(x + d))
    long = x
    for _ in range(100):
        long = cn.tanh(long)
    networks = {
        "without parameters": cn.Network(outputs=[cn.tanh(x)]),
        "an input": cn.Network(outputs=[x]),
        "a constant": cn.Network(outputs=[cn.constant(3.0)]),
        "a name": cn.Network(outputs={"<script>alert(1)</script>": cn.tanh(x), "a & b": x}),
        "a loop": cn.Network(cn.squared_norm(h)),
        "stages": cn.Network(cn.squared_norm(cn.sequence.mean(h))),
        "a function": cn.Network(outputs=[cn.torch_function(torch.tanh, x, shape=3)]),
        "sparse": cn.Network(outputs=[cn.parameter("W", (2, 3)) @ cn.input("bag", 3, sparse=True)]),
        "many": cn.Network(outputs=[long]),
    }
    for name, network in networks.items():
        shown = network._repr_html_()
        ElementTree.fromstring(f"<div>{shown}</div>")
        assert "<script" not in shown, name
        assert ("<svg" in shown) == (name != "many"), name
