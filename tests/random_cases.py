"""Random networks with their inputs, to be compiled and run: cases that several test files look at."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

import nnet3
from tests.random_networks import RandomNetwork, computable_request, random_network


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
        return _forward_only(self.request)

    def run(self, options: nnet3.CompileOptions) -> dict[str, Tensor]:
        """Outputs, input derivatives (`deriv of NAME`), gradients (`COMPONENT.PARAMETER`) and statistics.

        These are called `statistic COMPONENT.NAME`.
        """
        assert self.request is not None
        gradient = self.nnet.gradient_copy() if self.request.need_model_derivative else None
        for name, component in gradient.components.items() if gradient else ():
            component.set_learning_rate(0.0 if name in self.request.frozen else 1.0)
        statistics = self.nnet.gradient_copy()
        for seed, nnet in enumerate((self.nnet, statistics)):
            nnet.seed_random(seed)
        computation = nnet3.compile(self.nnet, self.request, options)
        computer = nnet3.NnetComputer(
            computation, self.nnet, gradient, dtype=torch.float64, nnet_to_store_stats=statistics
        )
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
        for name, component in statistics.components.items():
            values = {key: torch.as_tensor(getattr(component, key)) for key in component.statistic_names}
            result.update({f"statistic {name}.{key}": tensor for key, tensor in values.items()})
        return result


def assert_equal(got: dict[str, Tensor], want: dict[str, Tensor], case: Case) -> None:
    assert got.keys() == want.keys()
    for key, tensor in want.items():
        equal = torch.allclose(got[key], tensor, rtol=1e-9, atol=1e-11)
        assert equal, f"{key} of {case.random}\n{got[key]}\n{tensor}"


def without_counters(results: dict[str, Tensor]) -> dict[str, Tensor]:
    """Without the counters of self-repair: a derivative that nobody uses is not computed, and not counted."""
    return {name: tensor for name, tensor in results.items() if ".num_dims_" not in name}


class ForwardCase(NamedTuple):
    """A smooth random network in test mode, what it computes, and its inputs, (rows, dimension) each."""

    random: RandomNetwork
    nnet: nnet3.Nnet
    request: nnet3.ComputationRequest
    given: dict[str, Tensor]


def forward_cases(seeds: Iterable[int]) -> Iterator[ForwardCase]:
    """Yields the networks of these seeds that can compute something, for forward passes in float32."""
    for seed in seeds:
        random = random_network(seed, smooth=True)
        nnet = random.nnet()
        nnet.set_test_mode()
        request = computable_request(nnet, random.request)
        if request is not None:
            given = {io.name: torch.randn(len(io.indexes), nnet.node_dim(io.name)) for io in request.inputs}
            yield ForwardCase(random, nnet, _forward_only(request), given)


def _forward_only(request: nnet3.ComputationRequest) -> nnet3.ComputationRequest:
    return nnet3.ComputationRequest(
        [nnet3.IoSpecification(io.name, io.indexes) for io in request.inputs],
        [nnet3.IoSpecification(io.name, io.indexes) for io in request.outputs],
    )
