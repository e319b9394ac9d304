"""How delays are made and connected; what they compute is tested with whole networks."""

from __future__ import annotations

import pytest

from nnet3 import cn
from nnet3.errors import NetworkError, ShapeError

x = cn.input("x", 3)


def test_of_a_node() -> None:
    node = cn.delay(x, lag=-2, default=0.5)
    assert node.operands == (x,)
    assert str(node.shape) == "3 x S"


def test_a_delay_may_be_connected_later_and_once() -> None:
    d = cn.delay(None, dim=3, name="d")
    h = cn.tanh(x + d)
    assert d.connect(h) is h
    assert d.operands == (h,)
    assert h.formula == "tanh(plus(x, d))"
    with pytest.raises(NetworkError, match="'d' is connected to 'tanh"):
        d.connect(x)


def test_a_loop_of_nodes_without_names_can_be_printed() -> None:
    d = cn.delay(None, dim=3)
    d.connect(cn.tanh(x + d))
    assert "delay(lag=1)" in repr(d.operands[0])


def test_what_does_not_fit() -> None:
    d = cn.delay(None, dim=4)
    with pytest.raises(ShapeError, match="4 x S"):
        d.connect(x)
    with pytest.raises(ShapeError, match="needs operands with samples"):
        cn.delay(cn.parameter("W", (3, 3)))
    with pytest.raises(NetworkError, match="other than 0"):
        cn.delay(x, lag=0)
    with pytest.raises(NetworkError, match="give dim"):
        cn.delay(None)
    with pytest.raises(NetworkError, match="must be an input"):
        cn.delay(x, initial=cn.tanh(x))
    with pytest.raises(ShapeError, match="3 x S"):
        cn.delay(x, initial=cn.input("state", 4))
