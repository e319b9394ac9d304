"""Rules for everything that PyTorch differentiates or compiles around nnet3: first derivatives only, never compiled."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import numpy as np
import torch
from torch import Tensor

from nnet3.base.index.given_numbers import whole_numbers
from nnet3.errors import ArgumentError, GradientError

Gradients = tuple["Tensor | None", ...]
_TAKES_REASONS = "reason" in inspect.signature(torch.compiler.disable).parameters  # of PyTorch 2.4 not
_F = TypeVar("_F", bound=Callable[..., Any])


def only_once(
    compute: Callable[[Sequence[Tensor | None]], Gradients], what: str, tensors: Sequence[Tensor | None]
) -> Gradients:
    """Returns `compute(tensors)` as an operation of autograd that cannot be differentiated again: where PyTorch
    makes a graph of the operation (create_graph=True), a backward through the graph raises GradientError.

    Call `only_once` at the end of the `backward` of a `torch.autograd.Function`. Otherwise the results would be
    constants, and a gradient penalty would be left out without a word. `tensors` are all tensors on which the gradients
    depend; `what` names the differentiated operation for the message.
    """
    gradients: Gradients = _Once.apply(compute, what, *tensors)
    return gradients


class BackwardOnly:
    """A mixin for `torch.autograd.Function`: vmap and forward-mode derivatives raise errors with advice."""

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
    """A computation that cannot be differentiated."""

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


def uncompiled(reason: str) -> Callable[[_F], _F]:
    """Returns a decorator: a compiled module leaves the compiler for the call of the function and comes back after it;
    with `fullgraph=True` PyTorch gives the reason.

    `torch.compiler.disable` does that too, but imports the compiler wherever the function is defined.
    """

    def decorate(function: _F) -> _F:
        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            if not torch.compiler.is_compiling():
                return function(*args, **kwargs)
            return _disabled(function, reason)(*args, **kwargs)

        return cast("_F", run)

    return decorate


def _disabled(function: Callable[..., Any], reason: str) -> Callable[..., Any]:
    """Returns the function hidden from the compiler; it is made when a compiled module first calls it."""
    found: Callable[..., Any] | None = getattr(function, "_disabled", None)
    if found is None:
        found = torch.compiler.disable(function, **({"reason": reason} if _TAKES_REASONS else {}))
        function._disabled = found  # type: ignore[attr-defined]
    return found


def checked_lengths(lengths: Any, batch: int, frames: int) -> np.ndarray:
    """Returns the frames of each sequence of a padded batch, (batch,) int64, from 1 to `frames`. Raises ArgumentError
    for anything else.
    """
    refusal = f"lengths must be {batch} integers, one for each sequence"
    given = whole_numbers(lengths, refusal)
    if given.shape != (batch,):
        raise ArgumentError(f"{refusal}, got an array of shape {given.shape}")
    if given.min() < 1 or given.max() > frames:
        raise ArgumentError(
            f"lengths must be from 1 to the {frames} frames of the batch, got {given.min()} to {given.max()}"
        )
    return given
