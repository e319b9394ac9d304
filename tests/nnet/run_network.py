"""Outputs of a small network on random inputs, for comparing a network before and after a change."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

import nnet3


def frames(start: int, end: int, step: int = 1, sequences: int = 1) -> np.ndarray:
    """Indexes (n, t, 0) for t in range(start, end, step)."""
    return np.array([[n, t, 0] for n in range(sequences) for t in range(start, end, step)], np.int32)


def run_network(
    nnet: nnet3.Nnet,
    inputs: Mapping[str, np.ndarray],
    outputs: Mapping[str, np.ndarray],
    dtype: torch.dtype | None = None,
) -> dict[str, Tensor]:
    """Each output at its indexes, given standard normal inputs that depend on their names alone."""
    request = nnet3.ComputationRequest(
        [nnet3.IoSpecification(name, indexes) for name, indexes in inputs.items()],
        [nnet3.IoSpecification(name, indexes) for name, indexes in outputs.items()],
    )
    computer = nnet3.NnetComputer(nnet3.compile(nnet, request), nnet, dtype=dtype)
    for name, indexes in inputs.items():
        rng = np.random.default_rng([*name.encode()])
        computer.accept_input(name, rng.standard_normal((len(indexes), nnet.node_dim(name))).astype(np.float32))
    computer.run()
    return {name: computer.get_output(name) for name in outputs}


def simple_output(nnet: nnet3.Nnet, dtype: torch.dtype | None = None) -> Tensor:
    """Rows of node `output` for t = 0 .. 7 of two sequences, with all the context they may need."""
    given = frames(-30, 38, sequences=2)
    return run_network(nnet, dict.fromkeys(nnet.input_names, given), {"output": frames(0, 8, sequences=2)}, dtype)[
        "output"
    ]


def relative_error(got: Tensor, want: Tensor) -> float:
    return float((got.double() - want.double()).norm() / want.double().norm())
