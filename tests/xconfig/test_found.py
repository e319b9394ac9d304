"""A network seen as a place of layers: members by name, who reads whom, inputs from outside."""

from __future__ import annotations

import pytest

from nnet3.model.nnet import Nnet
from nnet3.model.structure.normalize import parse_descriptor
from nnet3.model.xconfig.found import Found, SearchedNetwork, descriptor_term, normal_text

CONFIG = """
input-node name=input dim=4
component name=l.affine type=AffineComponent input-dim=8 output-dim=6 max-change=0.75
component name=shared type=NoOpComponent dim=6
component-node name=l.affine component=l.affine input=Append(input, Offset(input, 1))
component-node name=l.k component=shared input=Sum(l.affine, IfDefined(Offset(l.k, -1)))
dim-range-node name=l.half input-node=l.k dim-offset=0 dim=3
component-node name=m component=shared input=l.k
output-node name=output input=m
"""


@pytest.fixture
def network() -> SearchedNetwork:
    return SearchedNetwork(Nnet.from_config(CONFIG).parts)


def test_nodes_belong_to_the_names_that_theirs_begin_with(network: SearchedNetwork) -> None:
    assert network.members("l") == ["l.affine", "l.k", "l.half"]
    assert network.members("m") == ["m"]
    assert network.members("none") == []
    assert {"l", "m", "output", "input", "l.k"} <= set(network.layer_names())


def test_who_reads_whom(network: SearchedNetwork) -> None:
    assert network.sources("l.k") == {"l.affine", "l.k"}
    assert network.sources("l.half") == {"l.k"}
    assert network.sources("input") == set()
    assert network.readers["l.k"] == {"l.k", "l.half", "m"}
    assert network.position["l.affine"] < network.position["m"]


def test_what_is_found_under_a_name(network: SearchedNetwork) -> None:
    found = Found(network, "l")
    assert found.components == ["l.affine", "shared"]
    assert found.get("affine", "max-change") == 0.75
    assert found.settings("none") == {}
    assert found.first("output-dim") == 6
    assert found.first("none") is None
    assert found.node("none") is None
    assert str(found.term("affine")) == "Append(input, Offset(input, 1))"
    assert found.term("half") is None
    assert len(list(found.terms())) == 2


def test_the_input_is_what_does_not_come_from_the_layer(network: SearchedNetwork) -> None:
    assert str(Found(network, "l").input) == "Append(input, Offset(input, 1))"
    assert str(Found(network, "m").input) == "l.k"
    assert Found(network, "input").input is None


def test_what_others_read(network: SearchedNetwork) -> None:
    found = Found(network, "l")
    assert found.is_read_outside("k")
    assert not found.is_read_outside("affine")


@pytest.mark.parametrize(
    "text",
    [
        "a",
        "Append(a, Offset(b, -1))",
        "Sum(a, Failover(b, Const(0, 3)))",
        "IfDefined(Switch(a, Round(b, 3)))",
        "ReplaceIndex(Offset(a, 1, 2), t, 0)",
    ],
)
def test_descriptors_are_terms(text: str) -> None:
    again = str(descriptor_term(parse_descriptor(text)))
    assert normal_text(again) == normal_text(text)
