"""Gradients that cannot be differentiated again, and say so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from nnet3.errors import GradientError

Gradients = tuple["Tensor | None", ...]


def only_once(
    compute: Callable[[Sequence[Tensor | None]], Gradients], what: str, tensors: Sequence[Tensor | None]
) -> Gradients:
    """`compute(tensors)`, as one operation. Where a graph of it is made (create_graph=True), a backward through it is a
    GradientError.

    To be called at the end of the `backward` of a `torch.autograd.Function`, whose results would be constants without
    it: a gradient penalty would be left out without a word. `tensors` are all that gradients depend on, `what` they are
    the gradients of.
    """
    gradients: Gradients = _Once.apply(compute, what, *tensors)
    return gradients


class BackwardOnly:
    """To inherit beside `torch.autograd.Function`: other transformations are errors that say what to do."""

    @staticmethod
    def vmap(info: Any, in_dims: Any, *inputs: Any) -> Any:
        raise GradientError(
            "torch.vmap cannot run what nnet3 computes (a TorchModule, chain_loss, or their gradients): these take "
            "whole batches themselves. Call them without vmap, once for each thing that vmap would go over"
        )

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        raise GradientError(
            "nnet3 has no forward-mode derivatives (torch.func.jvp, jacfwd) of what it computes: take backward ones "
            "(torch.func.vjp, torch.autograd)"
        )


class _Once(BackwardOnly, torch.autograd.Function):
    """A computation whose derivative nobody can have."""

    @staticmethod
    def forward(compute: Any, what: str, *tensors: Tensor | None) -> Gradients:
        gradients: Gradients = compute(tensors)
        return gradients

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Gradients) -> None:
        ctx.what = inputs[1]

    @staticmethod
    def backward(ctx: Any, *derivs: Tensor) -> tuple[Tensor, ...]:
        raise GradientError(
            f"the gradients of {ctx.what} cannot be differentiated again: it has first derivatives only. Leave out "
            "what needs second ones (a gradient penalty, create_graph=True followed by another backward)"
        )
