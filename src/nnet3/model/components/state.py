"""The tensors of a component, and operations on any of them: scaling, adding, copying, converting."""

from __future__ import annotations

import copy
from typing import Any, ClassVar

import torch
from torch import Tensor
from typing_extensions import Self


class ComponentState:
    """The tensors of a component, named by a subclass."""

    parameter_names: ClassVar[tuple[str, ...]] = ()
    constant_names: ClassVar[tuple[str, ...]] = ()
    statistic_names: ClassVar[tuple[str, ...]] = ()
    #: Statistics that scaling and adding leave as they are: only `zero_stats` begins them anew.
    counter_names: ClassVar[frozenset[str]] = frozenset()

    def parameters(self) -> dict[str, Tensor]:
        """Returns the trained tensors by name (the tensors themselves, not copies)."""
        return {name: getattr(self, name) for name in self.parameter_names}

    @property
    def num_parameters(self) -> int:
        return sum(tensor.numel() for tensor in self.parameters().values())

    def scale_(self, scale: float) -> None:
        """Multiplies parameters and statistics by `scale`; scale 0 gives zeros even for NaN."""
        for tensor in self.parameters().values():
            tensor.zero_() if scale == 0 else tensor.mul_(scale)
        self.scale_stats_(scale)

    def scale_stats_(self, scale: float) -> None:
        """Multiplies the statistics alone."""
        for name in self._sum_names:
            value = getattr(self, name)
            if isinstance(value, Tensor):
                value.zero_() if scale == 0 else value.mul_(scale)
            else:
                setattr(self, name, 0.0 if scale == 0 else value * scale)

    def add_(self, alpha: float, other: ComponentState) -> None:
        """Adds alpha times the parameters and statistics of a component of the same type and size."""
        theirs = other.parameters()
        for name, tensor in self.parameters().items():
            tensor.add_(theirs[name], alpha=alpha)
        self.add_stats_(alpha, other)

    def add_stats_(self, alpha: float, other: ComponentState) -> None:
        """Adds alpha times the statistics alone."""
        for name in self._sum_names:
            self._add_statistic(name, alpha, getattr(other, name))

    def _add_statistic(self, name: str, alpha: float, value: Tensor | float) -> None:
        mine = getattr(self, name)
        if not isinstance(value, Tensor):
            setattr(self, name, mine + alpha * value)
        elif value.numel():
            if mine.numel() == 0:  # never stored before
                mine = torch.zeros_like(value)
                setattr(self, name, mine)
            mine.add_(value, alpha=alpha)

    def zero_stats(self) -> None:
        """Begins all statistics anew."""
        self.scale_stats_(0.0)
        for name in self.counter_names:
            setattr(self, name, 0.0)

    @property
    def _sum_names(self) -> list[str]:
        return [name for name in self.statistic_names if name not in self.counter_names]

    def copy(self) -> Self:
        """Returns an independent copy, natural-gradient and random state included."""
        return copy.deepcopy(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        twin = copy.copy(self)
        memo[id(self)] = twin
        for tensor in self.__dict__.values():
            if isinstance(tensor, Tensor) and _is_part(tensor):
                memo.setdefault(id(tensor), tensor.clone())  # not with the whole buffer that it is a part of
        twin.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return twin

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.items()
        return {name: v.clone() if isinstance(v, Tensor) and _is_part(v) else v for name, v in state}

    def shared_copy(self) -> Self:
        """Returns a component on the same tensors, with separate modes."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        return twin

    def gradient_copy(self) -> Self:
        """Returns a copy with parameters and statistics zero that collects plain gradients."""
        result = self.copy()
        result.scale_(0.0)
        result.set_as_gradient()
        return result

    def check_target(self, dtype: torch.dtype | None, device: str | torch.device | None) -> None:
        """Raises ComponentError for a dtype or device to which this component cannot be converted."""

    def to(self, dtype: torch.dtype | None = None, device: str | torch.device | None = None) -> Self:
        """Converts in place: parameters and constants, with their `grad`, to dtype and device; statistics stay float64.

        The tensors stay the same objects, with new memory behind them: views taken before go on showing the old memory.
        """
        for name in (*self.parameter_names, *self.constant_names):
            tensor = getattr(self, name)
            gradient, tensor.grad = tensor.grad, None
            tensor.data = tensor.data.to(dtype=dtype, device=device)
            tensor.grad = None if gradient is None else gradient.to(dtype=dtype, device=device)
        for name in self.statistic_names:
            value = getattr(self, name)
            if isinstance(value, Tensor):
                value.data = value.data.to(device=device)
        return self

    def set_as_gradient(self) -> None:
        """Sets the learning rate to 1, and collects plain gradients from now on."""


def _is_part(tensor: Tensor) -> bool:
    """Returns True if the tensor is a view of more memory than its own."""
    return tensor.untyped_storage().nbytes() > tensor.numel() * tensor.element_size()
