"""Views of a network as the module runs it: shared tensors, with other modes, no self-repair."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any, TypeVar

import torch
from torch import Tensor

from nnet3.model.components.base import Component
from nnet3.model.components.random_source import RandomSource
from nnet3.model.components.row_sums import RowReduction, summed_by
from nnet3.model.nnet import Nnet

_C = TypeVar("_C", bound=Component)
_ABSENT = object()


class TorchRandomSource(RandomSource):
    """Draws all numbers from PyTorch's generator of the CPU: `torch.manual_seed` decides the numbers of dropout."""

    def __init__(self) -> None:
        super().__init__(0)

    def uniform(self) -> float:
        return float(torch.rand(()))

    def integer(self, low: int, high: int) -> int:
        return int(torch.randint(low, high + 1, ()))

    def uniform_tensor(self, *shape: int, like: Tensor) -> Tensor:
        return torch.rand(*shape, dtype=torch.float32).to(like)

    def normal_tensor(self, *shape: int) -> Tensor:
        return torch.randn(*shape)

    def __deepcopy__(self, memo: dict[int, object]) -> TorchRandomSource:
        return self


_RANDOM = TorchRandomSource()


class ComponentView:
    """A component on the tensors and settings of another component, except for settings of its own."""

    def __init__(
        self,
        original: Component,
        *,
        training: Mapping[int, bool],
        reductions: Mapping[int, RowReduction] | None = None,
    ) -> None:
        """`training` by the id of the component; components without an entry have one mode only. `reductions`, also
        by id: the processes over whose rows a component sums.
        """
        self.original = original
        self.parts = [
            ComponentView(part, training=training, reductions=reductions) for part in getattr(original, "parts", ())
        ]
        self._own = _overrides(original, training.get(id(original)))
        if self.parts:
            self._own["parts"] = [part.view for part in self.parts]
        self.view: Component = original.shared_copy()
        reduction = (reductions or {}).get(id(original))
        if reduction is not None:
            self.view = shared_copy_as(_summing_type(type(original)), original, _reduction=reduction)
        self._seen: dict[str, Any] = {}

    def follow(self) -> bool:
        """Takes over what has changed in the original; returns true if programs may depend on that."""
        changed, seen = False, self._seen
        for name, value in self.original.__dict__.items():
            if seen.get(name, _ABSENT) is not value:
                seen[name] = value
                self.view.__dict__[name] = self._own.get(name, value)
                changed |= not (isinstance(value, float) or name.startswith("_"))
        for part in self.parts:
            changed |= part.follow()
        return changed


def shared_copy_as(kind: type[_C], component: Component, **settings: Any) -> _C:
    """Returns a component of another type on the tensors and settings of a component, and with further settings."""
    twin = object.__new__(kind)
    twin.__dict__.update(component.shared_copy().__dict__, **settings)
    return twin


def as_gradient(view: Component) -> Component:
    """Returns a component that collects plain gradients of a view, once its memory is given."""
    target = view.shared_copy()
    target.set_as_gradient()
    for name in target.statistic_names:
        value = getattr(target, name)
        setattr(target, name, torch.zeros_like(value) if isinstance(value, Tensor) else 0.0)
    return target


def _overrides(original: Component, training: bool | None) -> dict[str, Any]:
    """Returns settings that are the view's own."""
    own: dict[str, Any] = {"rng": _RANDOM}
    if training is not None:
        own["test_mode"] = not training
    if "self_repair_scale" in original.__dict__:
        own["self_repair_scale"] = 0.0
    if "self_repair_config" in original.__dict__:
        own["self_repair_config"] = torch.zeros(10)
    return own


@cache
def _summing_type(kind: type[_C]) -> type[_C]:
    """Returns the same type, whose sums over rows are sums over all processes."""

    class Summing(kind):  # type: ignore[valid-type, misc]
        _reduction: RowReduction

        def forward(self, x: Tensor, y: Tensor, indexes: Any = None) -> Any:
            with summed_by(self._reduction):
                return super().forward(x, y, indexes)

        def backward(self, *arguments: Any) -> None:
            with summed_by(self._reduction):
                super().backward(*arguments)

    return Summing


class NetworkView:
    """A network on the tensors of another network. `follow` before each use of `nnet`."""

    def __init__(
        self,
        original: Nnet,
        *,
        training: Mapping[int, bool],
        reductions: Mapping[int, RowReduction],
    ) -> None:
        self.components = {
            name: ComponentView(component, training=training, reductions=reductions)
            for name, component in original.components.items()
        }
        self.follow()
        self.nnet = copy.copy(original)
        views = {name: component.view for name, component in self.components.items()}
        self.nnet.replace_parts(replace(original.parts, components=views))

    def exchange(self, name: str, view: Component) -> None:
        """Lets another component compute in the place of the view of this name."""
        self.components[name].view = view
        self.nnet.replace_parts(replace(self.nnet.parts, components={**self.nnet.components, name: view}))

    def follow(self) -> bool:
        """Takes over the settings that have changed in the original's components.

        Returns true if programs for the network as it was before may be wrong now.
        """
        changed = [component.follow() for component in self.components.values()]
        return any(changed)
