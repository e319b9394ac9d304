"""Notices changes of tensors."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor

from nnet3.errors import GradientError


class Witness:
    """Notes where tensors lie, and how often they were changed in place, as PyTorch counts it."""

    def __init__(self, tensors: Iterable[Tensor]) -> None:
        self._tensors = list(tensors)
        self._seen = [_state(tensor) for tensor in self._tensors]

    def check(self, what: str) -> None:
        """Raise GradientError if one has changed since."""
        if [_state(tensor) for tensor in self._tensors] != self._seen:
            raise GradientError(f"{what} were changed between forward and backward: go backward first")


def _state(tensor: Tensor) -> tuple[int, int | None]:
    return tensor.data_ptr(), None if tensor.is_inference() else tensor._version
