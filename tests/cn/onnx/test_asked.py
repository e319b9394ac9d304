"""What a file is asked for: which lengths there are programs for, and where what follows makes no difference."""

from __future__ import annotations

import pytest

from nnet3 import cn
from nnet3.cn.node import Node
from nnet3.cn.onnx.asked import Asked

X = cn.input("x", 4)


def asked(node: Node) -> Asked:
    return Asked(cn.Network(outputs={"out": node}), {"out": node})


def loop(lag: int) -> Node:
    d = cn.delay(None, lag, dim=4)
    return d.connect(cn.tanh(X + d))


@pytest.mark.parametrize(
    ("node", "may_be_padded"),
    [
        (cn.tanh(X), True),
        (cn.delay(X, 2), True),
        (loop(1), True),
        (cn.delay(X, -1), False),
        (loop(-2), False),
        (cn.scale(cn.l2_norm(X), X), False),
        (cn.scale(cn.l2_norm(cn.parameter("P", (2, 2))), X), True),
        (cn.per_dim_mean_var_norm(X, cn.mean(X), cn.inv_std_dev(X)), True),
        (cn.component("TdnnComponent input-dim=4 output-dim=2 time-offsets=-2,0", X), True),
        (cn.component("TdnnComponent input-dim=4 output-dim=2 time-offsets=-2,1", X), False),
    ],
)
def test_whether_sequences_may_be_padded(node: Node, may_be_padded: bool) -> None:
    assert asked(node).may_be_padded == may_be_padded


def test_lengths_from_which_on_programs_go_on_alike() -> None:
    assert next(asked(X).lengths()) == 2
    assert next(asked(cn.delay(X, 10)).lengths()) > 10
    assert asked(loop(3)).step == 3


def test_what_looks_farther_than_short_programs_tell_has_none() -> None:
    assert list(asked(cn.delay(X, 100)).lengths()) == []
