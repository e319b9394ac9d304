"""Every component type inside a small network: derivatives by float64 central differences, inputs and parameters."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

import nnet3
from nnet3.components import COMPONENT_TYPES
from tests.networks.network_of_type import SAMPLES, network_of_type, request_of_type

STEP = 1e-5


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
    nnet, request = network_of_type(type_name), request_of_type(type_name)
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
