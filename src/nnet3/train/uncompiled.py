"""Functions that `torch.compile` calls as they are."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast

import torch

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
