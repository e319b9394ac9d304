"""Any loss of PyTorch as an objective."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from nnet3.components import RandomSource
from nnet3.errors import TrainingError
from nnet3.train.minibatch import MatrixTarget, Target
from nnet3.train.objectives.matrix_target import matrix_target
from nnet3.train.objectives.protocol import ObjectiveStats, OutputResult


class TorchLoss:
    """F = -loss(output, target), where `loss` gives a scalar that PyTorch can differentiate by the output.

    The loss sees the output (rows, columns) and what a `MatrixTarget` holds as a dense tensor, any other target as it
    is. Learning rates here are those of sums over rows, so use losses with `reduction="sum"`. The weight is the number
    of rows.
    """

    def __init__(self, loss: Callable[[Tensor, Any], Tensor]) -> None:
        self.loss = loss

    def outputs(self, target: Target) -> tuple[str, ...]:
        return (target.name,)

    def evaluate(
        self, target: Target, outputs: Sequence[Tensor], *, rng: RandomSource, with_derivs: bool
    ) -> Sequence[OutputResult]:
        (y,) = outputs
        is_matrix = isinstance(target, MatrixTarget)
        with torch.inference_mode(False), torch.set_grad_enabled(with_derivs):
            variable = y.detach().clone().requires_grad_(with_derivs)
            wanted: Any = matrix_target(target, y).dense().to(y).clone() if is_matrix else target
            value = self.loss(variable, wanted)
            if value.numel() != 1:
                raise TrainingError(f"the loss of output '{target.name}' must be one number, got {tuple(value.shape)}")
            deriv = None
            if with_derivs:
                (deriv,) = torch.autograd.grad(-value.reshape(()), variable)
        return [OutputResult(target.name, ObjectiveStats(-float(value.detach()), weight=float(len(y))), deriv)]
