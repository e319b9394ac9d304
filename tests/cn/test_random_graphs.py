"""1,000 random networks: values and gradients equal autograd's, with and without the optimizer."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import assume, given, settings
from random_graphs import networks
from reference import columns, compare

from nnet3 import cn
from nnet3.cn.registry import OPERATIONS
from nnet3.errors import NetworkError


@settings(max_examples=1000)
@given(networks())
def test_values_and_gradients(made) -> None:
    criterion, last, inputs = made
    try:
        network = cn.Network(criterion, {"last": last}, dtype=torch.float64)
    except NetworkError:
        assume(False)
    compare(network, {node.name: inputs[node.name] for node in network.inputs})


@settings(max_examples=100)
@given(networks())
def test_the_optimizer_changes_nothing(made) -> None:
    criterion, last, inputs = made
    try:
        network = cn.Network(criterion, {"last": last}, dtype=torch.float64)
    except NetworkError:
        assume(False)
    inputs = {node.name: inputs[node.name] for node in network.inputs}
    found = []
    for optimize in (True, False):
        network.optimize = optimize
        network.to()  # programs are made anew
        found.append((network.evaluate("last", inputs), network.gradients(inputs, wrt=["x"] if "x" in inputs else [])))
    np.testing.assert_allclose(columns(found[0][0]), columns(found[1][0]), rtol=1e-9, atol=1e-12)
    for name, gradient in found[0][1].items():
        np.testing.assert_allclose(columns(gradient), columns(found[1][1][name]), rtol=1e-8, atol=1e-10)


def test_random_networks_are_various() -> None:
    types: set[str] = set()

    @settings(max_examples=200, database=None)
    @given(networks())
    def look(made) -> None:
        try:
            types.update(node.type for node in cn.Network(made[0]).nodes)
        except NetworkError:
            assume(False)

    look()
    absent = {"dropout", "classification_error", "mean", "inv_std_dev", "per_dim_mean_var_norm", "component", "relu"}
    assert set(OPERATIONS) - absent <= types
