"""Tests of what every type of layer keeps to: `layer_contract` makes them for the types of one file."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

import nnet3
from nnet3.xconfig import LAYER_TYPES, expand_xconfig
from tests.effort import EFFORT
from tests.xconfig.layer_examples import examples, xconfig_of

LAYERS = Path(__file__).parent / "layers"


def layer_contract(module: ModuleType) -> type:
    """Returns a class of tests of the layer types that a file declares; pytest finds it as `Test...`.

    Their networks run forward and backward, and every parameter learns; each layer of the `.config` file beside the
    test expands to the lines that stand there; dimensions are those of the network; declarations are whole.
    """
    types = [name for name, kind in LAYER_TYPES.items() if module_of(kind.expand) == module.__name__]
    assert types, f"{module.__name__} declares no layer type"
    few = slice(None, None, 1 if EFFORT > 1 else 3)  # what others expand to is tested by test_lines
    layers = [(name, values) for name in types for values in examples(name)[few]]
    lines = expected_lines(LAYERS / f"{module.__name__.rsplit('.', 1)[1]}.config")

    def test_layers_run(self: object, layer_type: str, values: str) -> None:
        nnet = nnet3.Nnet.from_xconfig(xconfig_of(layer_type, values), seed=5)
        assert [warning for warning in nnet.warnings if "identity" not in warning] == []
        nnet.set_learning_rate(0.01)
        output, derivative, updated = _run(nnet, nnet.input_names[0])
        assert torch.isfinite(output).all()
        assert torch.isfinite(derivative).all()
        assert output.std() > 0
        assert derivative.abs().max() > 0
        parameters = [(n, key, p) for n, c in nnet.components.items() for key, p in c.parameters().items() if p.numel()]
        still = {n for n, key, p in parameters if torch.equal(p, updated.components[n].parameters()[key])}
        assert still == set()

    def test_lines(self: object, layer: str, lines: list[str]) -> None:
        layer_type, _, values = layer.partition(" ")
        name = "output" if layer_type.startswith("output") else "layer"
        expanded = expand_xconfig(xconfig_of(layer_type, values))
        (expansion,) = (e.expansion for e in expanded.layers if e.layer.name == name)
        assert expansion.lines() == [line for line in lines if line]

    def test_dimensions_are_what_the_network_has(self: object, layer_type: str) -> None:
        for values in examples(layer_type):
            text = xconfig_of(layer_type, values)
            nnet = nnet3.Nnet.from_xconfig(text)
            for expanded in expand_xconfig(text).layers:
                for output in (expanded.expansion.output, *expanded.expansion.auxiliary.values()):
                    if output is None:
                        continue
                    dims = {nnet.node_dim(name) for name in output.term.names()}
                    assert dims == {output.dim}, expanded.layer.name

    def test_declarations_are_whole(self: object, layer_type: str) -> None:
        kind = LAYER_TYPES[layer_type]
        assert kind.name == layer_type
        assert kind.summary.endswith(".")
        assert len({key.name for key in kind.keys}) == len(kind.keys)
        for key in kind.keys:
            assert key.help.endswith(".")
            assert key.name not in ("name", "input")
            assert key.required or not key.fault(key.default)

    each_type = pytest.mark.parametrize("layer_type", types)
    each_layer = pytest.mark.parametrize(("layer_type", "values"), layers, ids=lambda value: value[:60] or "-")
    tests: dict[str, Any] = {
        "test_layers_run": each_layer(test_layers_run),
        "test_dimensions_are_what_the_network_has": each_type(test_dimensions_are_what_the_network_has),
        "test_declarations_are_whole": each_type(test_declarations_are_whole),
    }
    if lines:
        each_line = pytest.mark.parametrize(("layer", "lines"), lines.items(), ids=lambda value: str(value)[:60])
        tests["test_lines"] = each_line(test_lines)
    return type("TestLayers", (), tests)


def expected_lines(path: Path) -> dict[str, list[str]]:
    """Returns the config lines of layers by their type, keys and values; golden data have those of other types."""
    sections = f"\n{path.read_text()}".split("\n# ")[1:] if path.exists() else []
    return {first: lines for first, *lines in (section.splitlines() for section in sections)}


def module_of(expand: Any) -> str:
    while isinstance(expand, partial):
        expand = expand.func
    return str(expand.__module__)


def _run(nnet: nnet3.Nnet, name: str) -> tuple[torch.Tensor, torch.Tensor, nnet3.Nnet]:
    """Returns the output at some times, the derivative of the input and the updated network."""
    left, right = (nnet.left_context, nnet.right_context) if nnet.is_simple else (1, 1)
    outputs = 9 if EFFORT > 1 else 4
    times = range(-left - 8, outputs + right + 8)  # recurrences look farther than that
    given = np.array([[n, t, 0] for n in range(2) for t in times])
    wanted = np.array([[n, t, 0] for n in range(2) for t in range(outputs)])
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
