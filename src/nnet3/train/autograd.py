"""Gradients that cannot be differentiated again, and say so."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import numpy as np
import torch
from torch import Tensor

from nnet3.errors import ArgumentError, GradientError

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


_TAKES_REASONS = "reason" in inspect.signature(torch.compiler.disable).parameters  # of PyTorch 2.4 not
_F = TypeVar("_F", bound=Callable[..., Any])


def uncompiled(reason: str) -> Callable[[_F], _F]:
    """Return a decorator: a compiled module steps out to the function and back again, `fullgraph=True` says why not.

    `torch.compiler.disable` does that too, but takes the compiler along wherever the function is defined.
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
    """The function, made invisible to the compiler at its first use there."""
    found: Callable[..., Any] | None = getattr(function, "_disabled", None)
    if found is None:
        found = torch.compiler.disable(function, **({"reason": reason} if _TAKES_REASONS else {}))
        function._disabled = found  # type: ignore[attr-defined]
    return found


def checked_lengths(lengths: Any, batch: int, frames: int) -> np.ndarray:
    """Frames of each sequence (batch,), int64, from 1 to `frames`. Raises ArgumentError for anything else."""
    given = lengths.detach().cpu().numpy() if isinstance(lengths, Tensor) else np.asarray(lengths)
    if given.shape != (batch,) or given.dtype.kind not in "iu":
        raise ArgumentError(
            f"lengths must be {batch} integers, one for each sequence, got {given.dtype} of shape {given.shape}"
        )
    if given.min() < 1 or given.max() > frames:
        raise ArgumentError(
            f"lengths must be from 1 to the {frames} frames of the batch, got {given.min()} to {given.max()}"
        )
    return given.astype(np.int64)
