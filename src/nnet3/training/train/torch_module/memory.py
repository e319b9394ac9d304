"""Memory of parameters and statistics: converted, moved, saved, watched for changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor
from torch.utils.dlpack import from_dlpack

from nnet3.engine.runtime.dtypes import DTYPES
from nnet3.errors import GradientError, NetworkError
from nnet3.model.components.base import Component


def check_conversion(fn: Callable[[Tensor], Tensor]) -> None:
    """Raises NetworkError for a conversion of modules (`to`, `half`, ...) after which nothing could be computed."""
    converted = fn(torch.empty(0, device="cpu"))
    if converted.device.type == "meta":
        raise NetworkError(
            "a TorchModule has its parameters in a network, which cannot be without memory: it cannot be on device "
            "'meta', and stays as it was"
        )
    types = [dtype for dtype in DTYPES.values() if dtype.is_floating_point]
    if converted.dtype not in types:
        known = ", ".join(map(str, types))
        raise NetworkError(f"a network computes in {known}, not in {converted.dtype}: the module stays as it was")


def convert_component(component: Component, fn: Callable[[Tensor], Tensor]) -> None:
    """Converts a component as a module of it would be converted."""
    for name in (*component.parameter_names, *component.constant_names, *component.statistic_names):
        tensor = getattr(component, name)
        if isinstance(tensor, Tensor) and not getattr(component, "parts", ()):
            tensor.data = moved(fn, tensor.data) if name in component.statistic_names else fn(tensor.data)


def with_own_storage(tensor: Tensor) -> Tensor:
    """Returns a tensor on the memory of `tensor`, but no part of a larger tensor: some writers save whole storages."""
    return from_dlpack(tensor) if tensor.device.type in ("cpu", "cuda") else tensor


def moved(fn: Callable[[Tensor], Tensor], statistics: Tensor) -> Tensor:
    """Returns statistics moved as `fn` moves tensors, without a change of type."""
    return fn(statistics.view(torch.int64)).view(torch.float64)


class Witness:
    """Remembers where tensors lie, and how often PyTorch says that they were changed in place."""

    def __init__(self, tensors: Iterable[Tensor]) -> None:
        self._tensors = list(tensors)
        self._seen = [_state(tensor) for tensor in self._tensors]

    def check(self, what: str) -> None:
        """Raises GradientError if one of the tensors has changed since."""
        if [_state(tensor) for tensor in self._tensors] != self._seen:
            raise GradientError(f"{what} were changed between forward and backward: go backward first")


def _state(tensor: Tensor) -> tuple[int, int | None]:
    return tensor.data_ptr(), None if tensor.is_inference() else tensor._version
