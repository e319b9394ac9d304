"""States of networks: copies to the last bit, for the network that they are of."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import nnet3
from nnet3.errors import TrainingError
from nnet3.runs.network_state import load_network_state, network_state
from nnet3.runs.packing import same

CONFIG = """
input-node name=input dim=3
component name=affine type=AffineComponent input-dim=3 output-dim=2
component name=norm type=BatchNormComponent dim=2
component-node name=affine component=affine input=input
component-node name=norm component=norm input=affine
output-node name=output input=norm
"""


def _network(seed: int) -> nnet3.Nnet:
    """With statistics."""
    nnet = nnet3.Nnet.from_config(CONFIG, seed=seed)
    norm: Any = nnet.components["norm"]
    x = torch.randn(20, 2, generator=torch.Generator().manual_seed(seed)) * (seed + 2)
    y, memo = norm.propagate(x)
    norm.store_stats(x, y, memo)
    return nnet


def _tested(nnet: nnet3.Nnet) -> torch.Tensor:
    return nnet.compute(torch.arange(12.0).reshape(4, 3))


def test_all_comes_back_and_is_a_copy() -> None:
    first, second = _network(1), _network(2)
    expected, parameters = _tested(first), second.flat_parameters()[0]
    assert not torch.equal(_tested(second), expected)
    state = network_state(first)
    kept = network_state(first)
    load_network_state(second, state)
    assert torch.equal(_tested(second), expected)
    assert second.flat_parameters()[0] is parameters
    assert same(network_state(second), state)
    second.scale_(0.5)
    second.zero_stats()
    assert same(network_state(first), kept)
    assert same(state, kept)


@pytest.mark.parametrize(
    ("config", "what"),
    [
        (CONFIG.replace("affine", "affine2"), "affine"),
        (CONFIG.replace("output-dim=2", "output-dim=4").replace("dim=2", "dim=4"), "affine.bias_params"),
    ],
)
def test_another_network_is_refused_and_stays_as_it_was(config: str, what: str) -> None:
    other = nnet3.Nnet.from_config(config)
    before = network_state(other)
    with pytest.raises(TrainingError, match=f"of another network: it differs in parameters '{what}"):
        load_network_state(other, network_state(_network(1)))
    assert same(network_state(other), before)


def test_other_statistics_are_refused() -> None:
    config = CONFIG.replace("type=BatchNormComponent", "type=NoOpComponent")
    with pytest.raises(TrainingError, match="of another network: it differs in statistics"):
        load_network_state(nnet3.Nnet.from_config(config), network_state(_network(1)))
