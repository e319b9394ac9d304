"""Layers that are recognised in networks, and what is none."""

from __future__ import annotations

import pytest

import nnet3
from tests.random_networks import random_network
from tests.xconfig.round_trip import described


def test_the_matrix_of_an_idct_is_known() -> None:
    text = "input name=input dim=13\nidct-layer name=idct dim=13 affine-transform-file=idct.mat\noutput name=output\n"
    assert nnet3.Nnet.from_xconfig(text).to_xconfig() == text


def test_further_settings_of_components() -> None:
    text = (
        "input name=input dim=13\n"
        'relu-layer name=a dim=13 ng-affine-options="rank-in=3 update-period=2"\n'
        'lstm-layer name=b cell-dim=6 delay=2 ng-affine-options="max-change=0.5"\n'
        "output-layer name=output dim=3 max-change=0.5\n"
    )
    assert described(nnet3.Nnet.from_xconfig(text)).lines == text.splitlines()


def test_inputs_that_are_constants() -> None:
    text = (
        "input name=input dim=3\n"
        "relu-layer name=a input=Const(1.0, 12) dim=8\n"
        "fast-lstm-layer name=b input=Const(1.0, 2) cell-dim=4\n"
        "output-layer name=output input=Append(a, b, input) dim=3\n"
    )
    found = described(nnet3.Nnet.from_xconfig(text))
    assert [layer.type.name for layer in found.layers] == ["input", "relu-layer", "fast-lstm-layer", "output-layer"]


def test_parts_that_others_read() -> None:
    """A layer is not one if something else reads what it does not give."""
    nnet = nnet3.Nnet.from_xconfig("input name=input dim=3\nrelu-batchnorm-layer name=a dim=4\noutput name=output\n")
    nnet.apply_config("output-node name=output-1 input=a.affine")
    found = described(nnet)
    assert [layer.type.name for layer in found.layers] == [
        *("input", "affine-component", "batchnorm-component", "output", "output")
    ]
    assert found.unrecognised[-1] == "component-node name=a.relu component=a.relu input=a.affine"


@pytest.mark.parametrize("seed", range(25))
def test_networks_that_are_no_layers(seed: int) -> None:
    described(nnet3.Nnet.from_config(random_network(seed).config))


def test_a_long_sum() -> None:
    terms = ", ".join(f"Offset(input, {time})" for time in range(40))
    config = "input-node name=input dim=2\ncomponent name=a type=NoOpComponent dim=2\n"
    config += f"component-node name=a component=a input=Sum({terms})\noutput-node name=output input=a\n"
    assert [layer.type.name for layer in described(nnet3.Nnet.from_config(config)).layers] == [
        *("input", "no-op-component", "output")
    ]
