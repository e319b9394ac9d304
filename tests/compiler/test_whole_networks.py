"""Random networks, compiled and run: values row by row, derivatives by central differences, passes change nothing."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

import nnet3
from random_networks import LAYERS, RandomNetwork, computable_request, random_network
from slow_graph import SlowGraph, SlowNet
from slow_network import SlowNetwork

PLAIN = nnet3.CompileOptions(optimize=False, check=True)
OPTIMIZED = nnet3.CompileOptions(check=True)
STEP = 1e-4
RECURRENT = [layer for layer in LAYERS if layer.endswith("rnn")] + ["clockwork", "lstm"]


class Case:
    """A random network in float64 with its inputs and output derivatives; `request` is None if it is out of reach."""

    def __init__(self, random: RandomNetwork):
        self.random = random
        self.nnet = random.nnet().to(dtype=torch.float64)
        self.request = computable_request(self.nnet, random.request)
        self.rng = np.random.default_rng(random.seed)
        if self.request is None:
            return
        self.inputs = {io.name: self._matrix(io) for io in self.request.inputs}
        self.derivs = {io.name: self._matrix(io) for io in self.request.outputs}

    def _matrix(self, io: nnet3.IoSpecification) -> np.ndarray:
        return self.rng.standard_normal((len(io.indexes), self.nnet.node_dim(io.name)))

    def forward_request(self) -> nnet3.ComputationRequest:
        assert self.request is not None
        return nnet3.ComputationRequest(
            [nnet3.IoSpecification(io.name, io.indexes) for io in self.request.inputs],
            [nnet3.IoSpecification(io.name, io.indexes) for io in self.request.outputs],
        )

    def run(self, options: nnet3.CompileOptions) -> dict[str, Tensor]:
        """Outputs, input derivatives (`deriv of NAME`) and gradients (`COMPONENT.PARAMETER`)."""
        assert self.request is not None
        gradient = self.nnet.gradient_copy() if self.request.need_model_derivative else None
        computation = nnet3.compile(self.nnet, self.request, options)
        computer = nnet3.NnetComputer(computation, self.nnet, gradient, dtype=torch.float64)
        for name, matrix in self.inputs.items():
            computer.accept_input(name, matrix)
        computer.run()
        result = {io.name: computer.get_output(io.name).clone() for io in self.request.outputs}
        if self.request.needs_backward:
            for io in self.request.outputs:
                if io.has_deriv:
                    computer.accept_input(io.name, self.derivs[io.name])
            computer.run()
        for io in self.request.inputs:
            if io.has_deriv:
                result[f"deriv of {io.name}"] = computer.get_output(io.name)
        for name, component in gradient.components.items() if gradient else ():
            result.update({f"{name}.{key}": tensor for key, tensor in component.parameters().items()})
        return result


def assert_equal(got: dict[str, Tensor], want: dict[str, Tensor], case: Case) -> None:
    assert got.keys() == want.keys()
    for key, tensor in want.items():
        equal = torch.allclose(got[key], tensor, rtol=1e-9, atol=1e-11)
        assert equal, f"{key} of {case.random}\n{got[key]}\n{tensor}"


@pytest.mark.parametrize("block", range(10))
def test_outputs_equal_those_of_the_slow_network(block: int) -> None:
    for seed in range(1000 + 12 * block, 1012 + 12 * block):
        case = Case(random_network(seed))
        if case.request is None:
            continue
        graph = SlowGraph(SlowNet.from_config(case.random.config), case.request)
        slow = SlowNetwork(case.nnet, graph, case.inputs, case.request)
        want = {io.name: torch.from_numpy(slow.output(io)) for io in case.request.outputs}
        plain, optimized = case.run(PLAIN), case.run(OPTIMIZED)
        assert_equal({name: plain[name] for name in want}, want, case)
        assert_equal(optimized, plain, case)
