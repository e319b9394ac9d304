"""The second output of a chain network."""

from __future__ import annotations

import pytest

import nnet3
from nnet3.chain import ChainObjective, ChainOptions, Denominator
from nnet3.chain.second_output import with_second_output
from tests.chain.chain_data import TARGET, small_graph

_NODES = "input-node name=input dim=3\noutput-node name=output input=input\n"


@pytest.mark.parametrize("name", ["output-xent", "other-xent"])
def test_it_is_looked_at_where_the_network_has_it(name: str) -> None:
    nnet = nnet3.Nnet.from_config(f"{_NODES}output-node name={name} input=input\n")
    objective = ChainObjective(Denominator(small_graph(), 0.1), ChainOptions(xent_regularize=0.0))
    made = with_second_output(objective, nnet)
    assert made.outputs(TARGET) == (("output", "output-xent") if name == "output-xent" else ("output",))
    assert made.denominator is objective.denominator
