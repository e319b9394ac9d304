"""Graphs of nodes that cannot be."""

from __future__ import annotations

import pytest

from nnet3 import cn
from nnet3.errors import NetworkError, ShapeError


def test_graphs_that_cannot_be() -> None:
    x = cn.input("x", 3)
    with pytest.raises(NetworkError, match="criterion or an output"):
        cn.Network()
    with pytest.raises(ShapeError, match="a criterion is 1 x 1"):
        cn.Network(cn.tanh(x))
    with pytest.raises(NetworkError, match="two nodes are called 'a'"):
        cn.Network(outputs=cn.plus(cn.tanh(x, name="a"), cn.tanh(x, name="a")))
    with pytest.raises(NetworkError, match="never connected"):
        cn.Network(outputs=cn.delay(None, dim=3))
    d = cn.delay(None, dim=3)
    d.connect(cn.tanh(cn.parameter("R", (3, 3)) @ d))
    with pytest.raises(NetworkError, match="recurrence over parameters alone"):
        cn.Network(outputs=[d.operands[0] + x])
    left, right = cn.delay(None, 1, dim=3), cn.delay(None, -1, dim=3)
    h = cn.tanh(x + left + right)
    left.connect(h), right.connect(h)
    with pytest.raises(NetworkError, match="forward and backward"):
        cn.Network(outputs=h)
    state = cn.input("state", 3)
    with pytest.raises(NetworkError, match=r"'state' is an initial state, but 'y' uses it too\n.*test_graph\.py"):
        cn.Network(outputs=[cn.delay(x, initial=state), cn.tanh(state, name="y")])
