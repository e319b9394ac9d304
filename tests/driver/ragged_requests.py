"""Requests for sequences of several lengths, and comparisons of their programs with those compiled for the lengths."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from hypothesis import strategies as st

import nnet3
from nnet3.engine.ir.checker import check_computation
from nnet3.engine.ir.computation import NnetComputation
from tests.families.networks import compiled, results_of

LENGTHS = st.lists(st.integers(1, 60), min_size=2, max_size=7).filter(lambda lengths: len(set(lengths)) > 1)


def ragged_request(
    nnet: nnet3.Nnet,
    lengths: Sequence[int],
    step: int = 1,
    margin: int = 20,
    *,
    train: bool = False,
    by_time: bool = False,
    input_deriv: bool = False,
) -> nnet3.ComputationRequest:
    """Outputs at times 0, step, ... of each sequence and all the input that they could use."""

    def rows(times: Sequence[np.ndarray]) -> np.ndarray:
        table = np.concatenate([np.stack([np.full(len(t), n), t, 0 * t], axis=1) for n, t in enumerate(times)])
        return table[np.lexsort((table[:, 0], table[:, 1]))] if by_time else table

    all_input = rows([np.arange(-margin, (length - 1) * step + margin + 1) for length in lengths])
    once = rows([np.zeros(1, int) for _ in lengths])
    inputs = [
        nnet3.IoSpecification(name, once if name == "ivector" else all_input, input_deriv) for name in nnet.input_names
    ]
    wanted = rows([np.arange(length) * step for length in lengths])
    outputs = [nnet3.IoSpecification(name, wanted, train or input_deriv) for name in nnet.output_names]
    return nnet3.ComputationRequest(inputs, outputs, train, train)


def updated(nnet: nnet3.Nnet, request: nnet3.ComputationRequest, program: NnetComputation) -> list[torch.Tensor]:
    """The parameters after a step with natural gradient."""
    generator = torch.Generator().manual_seed(3)
    nnet = nnet.copy()
    nnet.to(dtype=torch.float64)
    delta = nnet.copy()
    delta.set_learning_rate(0.01)
    computer = nnet3.NnetComputer(program, nnet, delta)
    for ios in (request.inputs, request.outputs):
        for io in ios:
            rows = torch.randn(len(io.indexes), nnet.node_dim(io.name), generator=generator, dtype=torch.float64)
            computer.accept_input(io.name, rows)
        computer.run()
    return [value for each in delta.components.values() for value in each.parameters().values()]


def compare(nnet: nnet3.Nnet, request: nnet3.ComputationRequest, cache: nnet3.ComputationCache) -> NnetComputation:
    program, expected = cache.compile(nnet, request), compiled(nnet, request)
    check_computation(program)
    for mine, other in zip(results_of(nnet, request, program), results_of(nnet, request, expected), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-9, atol=1e-9)
    if request.need_model_derivative:
        for mine, other in zip(updated(nnet, request, program), updated(nnet, request, expected), strict=True):
            torch.testing.assert_close(mine, other, rtol=1e-7, atol=1e-7)
    return program
