"""Every component type inside a small network: derivatives by float64 central differences, inputs and parameters."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import nnet3
from nnet3.components import COMPONENT_TYPES, create

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
from component_samples import SAMPLES

STEP = 1e-5
# A pooling component reads counts, which have no derivative: it gets them from an extraction component.
POOLING = """
component name=extract type=StatisticsExtractionComponent input-dim=3 input-period=1 output-period=2
component name=tested type=StatisticsPoolingComponent input-dim=7 input-period=2 left-context=2 right-context=2
component-node name=extract component=extract input=input
component-node name=tested component=tested input=extract
"""


def _config(type_name: str) -> str:
    """The sample; where self-repair is on by default it is off, since it is no derivative."""
    return SAMPLES[type_name] + (" self-repair-scale=0" if "Lstm" in type_name or "Gru" in type_name else "")


def _network(type_name: str) -> nnet3.Nnet:
    component = create(type_name, _config(type_name))
    dim = 3 if type_name == "StatisticsPoolingComponent" else component.input_dim
    body = POOLING
    if type_name != "StatisticsPoolingComponent":
        body = f"""component name=tested type={type_name} {_config(type_name)}
            component-node name=tested component=tested input=input"""
    nnet = nnet3.Nnet.from_config(f"input-node name=input dim={dim}\n{body}\noutput-node name=output input=tested")
    for name, part in nnet.components.items():
        if name == "tested" and type_name != "BatchNormComponent":
            part.set_test_mode(True)
    return nnet.to(dtype=torch.float64)


def _request(type_name: str) -> nnet3.ComputationRequest:
    times = {"StatisticsExtractionComponent": (0, 2), "StatisticsPoolingComponent": (2, 4)}.get(type_name, (2, 3, 4))
    x_values = range(2) if type_name == "DistributeComponent" else range(1)
    inputs = [(n, t, 0) for t in range(8) for n in range(2)]
    outputs = [(n, t, x) for t in times for x in x_values for n in range(2)]
    return nnet3.ComputationRequest(
        [nnet3.IoSpecification("input", inputs, has_deriv=True)],
        [nnet3.IoSpecification("output", outputs, has_deriv=True)],
        need_model_derivative=True,
    )


def _slope(objective: Callable[[], float], tensor: Tensor, direction: Tensor) -> float:
    """Central difference of the objective along a direction of a tensor, which is left as it was."""
    tensor.add_(direction, alpha=STEP)
    above = objective()
    tensor.add_(direction, alpha=-2 * STEP)
    below = objective()
    tensor.add_(direction, alpha=STEP)
    return (above - below) / (2 * STEP)


def test_there_is_a_sample_of_each_of_the_46_types() -> None:
    assert set(SAMPLES) == set(COMPONENT_TYPES)
    assert len(SAMPLES) == 46


@pytest.mark.parametrize("type_name", sorted(SAMPLES))
def test_derivatives_by_central_differences(type_name: str) -> None:
    nnet, request = _network(type_name), _request(type_name)
    generator = torch.Generator().manual_seed(1)
    computation = nnet3.compile(nnet, request, nnet3.CompileOptions(check=True))
    gradient = nnet.gradient_copy()
    computer = nnet3.NnetComputer(computation, nnet, gradient, dtype=torch.float64)
    x = torch.randn(len(request.inputs[0].indexes), nnet.node_dim("input"), generator=generator, dtype=torch.float64)
    y_shape = len(request.outputs[0].indexes), nnet.node_dim("output")
    weight = 0.1 * torch.randn(*y_shape, generator=generator, dtype=torch.float64)

    def objective() -> float:
        computer.reset()
        computer.accept_input("input", x)
        computer.run()
        return float((computer.get_output("output") * weight).sum())

    objective()
    computer.accept_input("output", weight)
    computer.run()
    pairs = {"input": (x, computer.get_output("input"))}
    for name, component in nnet.components.items():
        for key, tensor in component.parameters().items():
            pairs[f"{name} {key}"] = tensor, gradient.components[name].parameters()[key]
    for name, (tensor, derivative) in pairs.items():
        direction = torch.randn(tensor.shape, generator=generator, dtype=torch.float64)
        expected = _slope(objective, tensor, direction)
        got = float((derivative * direction).sum())
        scale = float(np.linalg.norm(derivative) * np.linalg.norm(direction))
        assert got == pytest.approx(expected, rel=1e-6, abs=1e-6 * scale + 1e-9), name
