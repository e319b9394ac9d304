"""Cycles that never move in time are found, and named with a way out; cycles that move are let be."""

from __future__ import annotations

import pytest

from nnet3.errors import ConfigError
from nnet3.model.nnet import Nnet

HEAD = "input-node name=input dim=2\ncomponent name=k type=NoOpComponent dim=2\n"


def _network(*nodes: str) -> Nnet:
    lines = [f"component-node name={name} component=k input={text}" for name, text in (n.split("=", 1) for n in nodes)]
    return Nnet.from_config(HEAD + "\n".join([*lines, f"output-node name=output input={nodes[0].split('=')[0]}"]))


@pytest.mark.parametrize(
    "nodes",
    [
        ["a=Sum(input, IfDefined(Offset(a, -1)))"],
        ["a=Sum(input, IfDefined(Offset(a, 3)))"],
        ["a=Sum(input, IfDefined(b))", "b=Offset(a, -2)"],
        ["a=Sum(IfDefined(Offset(b, 2)), IfDefined(Offset(b, 1)))", "b=Sum(input, IfDefined(Offset(a, -3, 1)))"],
        ["a=Sum(input, IfDefined(Offset(a, 0, 1)))"],
        ["a=Sum(input, b)", "b=Offset(input, 1)"],
    ],
)
def test_cycles_that_move(nodes: list[str]) -> None:
    assert _network(*nodes).node(nodes[0].split("=")[0]).name == nodes[0].split("=")[0]


@pytest.mark.parametrize(
    ("nodes", "cycle"),
    [
        (["a=Sum(input, IfDefined(a))"], "a <- a"),
        (["a=Sum(input, IfDefined(b))", "b=Scale(0.5, a)"], "b <- a <- b"),
        (["a=Sum(input, IfDefined(Offset(a, 0)))"], "a <- a"),
    ],
)
def test_a_cycle_that_stands_still(nodes: list[str], cycle: str) -> None:
    with pytest.raises(ConfigError, match=f"a cycle that never moves in time: {cycle}") as caught:
        _network(*nodes)
    assert "give one reference on it an Offset" in caught.value.hint
    assert caught.value.span is not None


def test_offsets_that_cancel_are_named() -> None:
    with pytest.raises(ConfigError, match="a cycle that never moves in time") as caught:
        _network("a=Sum(input, IfDefined(Offset(b, -1)))", "b=Offset(a, 1)")
    hint = caught.value.hint
    assert "its offsets cancel" in hint
    assert "'a' takes 'b' at t-1" in hint
    assert "'b' takes 'a' at t+1" in hint


def test_one_node_that_goes_both_ways() -> None:
    with pytest.raises(ConfigError, match="a cycle that never moves in time: a <- a"):
        _network("a=Sum(input, IfDefined(Offset(a, -2)), IfDefined(Offset(a, 3)))")
