"""Gradients that cannot be differentiated again, and say so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from nnet3.errors import GradientError


def only_once(gradients: Sequence[Tensor | None], what: str) -> tuple[Tensor | None, ...]:
    """The same gradients. If a graph of them is made (create_graph=True), a backward through it is a GradientError.

    To be called at the end of the `backward` of a `torch.autograd.Function`, whose results would be constants without
    it: a gradient penalty would be left out without a word. `what` the gradients are of.
    """
    if not torch.is_grad_enabled():
        return tuple(gradients)
    given = [value for value in gradients if value is not None]
    guarded = iter(_Once.apply(what, torch.zeros((), requires_grad=True), *given))
    return tuple(None if value is None else next(guarded) for value in gradients)


class _Once(torch.autograd.Function):
    """The identity, whose derivative nobody can have."""

    @staticmethod
    def forward(ctx: Any, what: str, anchor: Tensor, *values: Tensor) -> tuple[Tensor, ...]:
        ctx.what = what
        return tuple(value.view_as(value) for value in values)

    @staticmethod
    def backward(ctx: Any, *derivs: Tensor) -> tuple[Tensor, ...]:
        raise GradientError(
            f"the gradients of {ctx.what} cannot be differentiated again: it has first derivatives only. Leave out "
            "what needs second ones (a gradient penalty, create_graph=True followed by another backward)"
        )
