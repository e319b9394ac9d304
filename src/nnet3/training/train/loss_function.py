"""Losses that compute derivatives by outputs beside their value, as operations of autograd."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from nnet3.training.train.autograd import BackwardOnly, Gradients, only_once


class LossCall(ABC):
    """The arguments of a loss of an output and perhaps a second output, for cross-entropy.

    `what` names the loss in messages. `loss` leaves in `derivs` the derivatives of minus the loss by both outputs;
    `factors` multiply them. `deriv_weights` (rows,): of the gradient's rows; None: all ones.
    """

    what: ClassVar[str]
    deriv_weights: Tensor | None
    derivs: tuple[Tensor | None, Tensor | None]

    @abstractmethod
    def loss(self, output: Tensor, xent_output: Tensor | None) -> Tensor:
        """Returns the value, ()."""

    @property
    def factors(self) -> tuple[float, float]:
        return 1.0, 1.0

    def applied(self, output: Tensor, xent_output: Tensor | None) -> Tensor:
        """Returns the loss of outputs (rows, pdfs) as a tensor that has a gradient."""
        loss: Tensor = _Loss.apply(self, output, xent_output)
        return loss

    def weighted(self, deriv: Tensor | None) -> Tensor | None:
        """Returns a derivative (rows, pdfs) times the weights of its rows."""
        if deriv is None or self.deriv_weights is None:
            return deriv
        return deriv * self.deriv_weights.to(deriv).unsqueeze(1)


class _Loss(BackwardOnly, torch.autograd.Function):
    @staticmethod
    def forward(call: LossCall, output: Tensor, xent_output: Tensor | None) -> Tensor:
        return call.loss(output, xent_output)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.call, *outputs = inputs
        ctx.save_for_backward(*outputs)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> Gradients:
        call, needed = ctx.call, ctx.needs_input_grad[1:]

        def compute(given: Sequence[Any]) -> Gradients:
            upstream, *outputs = given
            return tuple(
                (deriv * (-factor * upstream)).to(output.dtype) if deriv is not None and is_needed else None
                for deriv, factor, output, is_needed in zip(call.derivs, call.factors, outputs, needed, strict=True)
            )

        return None, *only_once(compute, call.what, (upstream, *ctx.saved_tensors))
