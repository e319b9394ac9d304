"""Layers of every type: they make networks, which compile and run forward and backward."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import nnet3
from nnet3.xconfig import LAYER_TYPES, expand_xconfig
from nnet3.xconfig.line import read_xconfig_lines
from tests.shared_data import GOLDEN, needs_shared
from tests.xconfig.layer_examples import ALL, examples, xconfig_of


def run(nnet: nnet3.Nnet, name: str) -> tuple[torch.Tensor, torch.Tensor, nnet3.Nnet]:
    """The output at some times, the derivative of the input and the updated network."""
    given = np.array([[n, t, 0] for n in range(2) for t in range(-110, 120)])
    wanted = np.array([[n, t, 0] for n in range(2) for t in range(0, 9)])
    request = nnet3.ComputationRequest(
        [nnet3.IoSpecification(name, given, has_deriv=True)],
        [nnet3.IoSpecification("output", wanted, has_deriv=True)],
        need_model_derivative=True,
    )
    updated = nnet.copy()
    computer = nnet3.NnetComputer(nnet3.compile(nnet, request), nnet, updated)
    rng = np.random.default_rng(3)
    computer.accept_input(name, rng.standard_normal((len(given), nnet.node_dim(name))).astype(np.float32))
    computer.run()
    output = computer.get_output("output").clone()
    computer.accept_input("output", rng.standard_normal(tuple(output.shape)).astype(np.float32))
    computer.run()
    return output, computer.get_output(name), updated


@pytest.mark.parametrize(("layer_type", "values"), ALL, ids=lambda value: value[:60] or "-")
def test_layers_run(layer_type: str, values: str) -> None:
    nnet = nnet3.Nnet.from_xconfig(xconfig_of(layer_type, values), seed=5)
    assert [warning for warning in nnet.warnings if "identity" not in warning] == []
    nnet.set_learning_rate(0.01)
    output, derivative, updated = run(nnet, nnet.input_names[0])
    assert torch.isfinite(output).all()
    assert torch.isfinite(derivative).all()
    assert output.std() > 0
    assert derivative.abs().max() > 0
    parameters = [(n, key, p) for n, c in nnet.components.items() for key, p in c.parameters().items() if p.numel()]
    still = {n for n, key, p in parameters if torch.equal(p, updated.components[n].parameters()[key])}
    assert still == set()


def expected_lines() -> dict[str, list[str]]:
    """Of the types that no golden file has: the lines of a layer, by its type, keys and values."""
    sections = (Path(__file__).parent / "layers.config").read_text().split("# ")[1:]
    return {first: lines for first, *lines in (section.splitlines() for section in sections)}


@pytest.mark.parametrize(("layer", "lines"), expected_lines().items(), ids=lambda value: str(value)[:60])
def test_lines(layer: str, lines: list[str]) -> None:
    layer_type, _, values = layer.partition(" ")
    name = "output" if layer_type.startswith("output") else "layer"
    expanded = expand_xconfig(xconfig_of(layer_type, values))
    (expansion,) = (e.expansion for e in expanded.layers if e.layer.name == name)
    assert expansion.lines() == [line for line in lines if line]


@needs_shared
def test_every_type_has_lines_here_or_in_the_golden_data() -> None:
    paths = [*GOLDEN.glob("xconfig/*/network.xconfig"), *GOLDEN.glob("bench/*/network.xconfig")]
    here = {layer.split()[0] for layer in expected_lines()}
    golden = {line.type for path in paths for line in read_xconfig_lines(path.read_text())}
    assert here | golden == set(LAYER_TYPES)
    assert not here & golden


@pytest.mark.parametrize("layer_type", LAYER_TYPES)
def test_dimensions_are_what_the_network_has(layer_type: str) -> None:
    for values in examples(layer_type):
        text = xconfig_of(layer_type, values)
        nnet = nnet3.Nnet.from_xconfig(text)
        for expanded in expand_xconfig(text).layers:
            for output in (expanded.expansion.output, *expanded.expansion.auxiliary.values()):
                if output is None:
                    continue
                dims = {nnet.node_dim(name) for name in output.term.names()}
                assert dims == {output.dim}, expanded.layer.name


@pytest.mark.parametrize("layer_type", LAYER_TYPES)
def test_declarations_are_whole(layer_type: str) -> None:
    kind = LAYER_TYPES[layer_type]
    assert kind.name == layer_type
    assert kind.summary.endswith(".")
    assert len({key.name for key in kind.keys}) == len(kind.keys)
    for key in kind.keys:
        assert key.meaning.endswith(".")
        assert key.name not in ("name", "input")
        assert key.required or key.rule is None or key.rule.holds(key.default)
