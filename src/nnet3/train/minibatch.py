"""What one step of training sees: named matrices with the indexes of their rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from nnet3.compiler import ComputationRequest, IoSpecification


@dataclass(frozen=True, eq=False)
class NamedMatrix:
    """The rows of an input, or the supervision of an output: indexes (rows, 3) n, t, x and matrix (rows, columns)."""

    name: str
    indexes: np.ndarray
    matrix: Tensor


@dataclass(frozen=True, eq=False)
class Minibatch:
    """Inputs, and for each output a supervision matrix (for a linear objective: the labels' probabilities)."""

    inputs: Sequence[NamedMatrix]
    supervisions: Sequence[NamedMatrix]

    @property
    def num_sequences(self) -> int:
        """The sequence number n of the last row, plus one."""
        return int(self.inputs[0].indexes[-1, 0]) + 1

    def request(self, *, train: bool) -> ComputationRequest:
        """What to compile: with derivatives and statistics for training, outputs alone for evaluation."""
        return ComputationRequest(
            [IoSpecification(io.name, io.indexes) for io in self.inputs],
            [IoSpecification(io.name, io.indexes, has_deriv=train) for io in self.supervisions],
            need_model_derivative=train,
            store_component_stats=train,
        )


def one_hot(labels: np.ndarray, num_classes: int) -> Tensor:
    """Supervision (rows, num_classes) for integer labels (rows,)."""
    result = torch.zeros(len(labels), num_classes)
    result[torch.arange(len(labels)), torch.as_tensor(labels)] = 1.0
    return result


def grid(num_sequences: int, times: Sequence[int]) -> np.ndarray:
    """Indexes (num_sequences * len(times), 3) of all sequences at all times, sequence by sequence."""
    n, t = np.meshgrid(np.arange(num_sequences), np.asarray(times), indexing="ij")
    return np.stack([n.ravel(), t.ravel(), np.zeros(n.size, int)], axis=1).astype(np.int32)
