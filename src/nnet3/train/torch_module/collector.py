"""Where a backward run puts gradients: new memory each time, which autograd may keep without copying it."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from nnet3.components import Component, Properties
from nnet3.train.torch_module.views import ComponentView, NetworkView


class ForwardStatistics:
    """In the place of a component to update: takes the statistics of the forward pass alone, and only while it is on.

    Batch-norm keeps its running statistics; other types' are for self-repair and for reports, which go without.
    """

    is_on: bool  # said anew for each forward run

    def __init__(self, component: Component) -> None:
        self._component = component

    def store_stats(self, x: Tensor, y: Tensor, memo: Any) -> None:
        if self.is_on and self._component.has_running_statistics:
            self._component.store_stats(x, y, memo)

    def run_stats(self, inputs: Sequence[Tensor], output: Tensor, memo: Any) -> None:
        self.store_stats(inputs[0], output, memo)


class GradientCollector:
    """What a computer updates: `components` by name, None for those that learn nothing.

    `wanted` are the parameters whose gradients are collected, by the id of the tensor; the others of a component that
    has some are computed in vain.
    """

    _learned: list[bool]  # of each wanted one: see `expect`

    def __init__(self, view: NetworkView, wanted: Sequence[Tensor]) -> None:
        self._shapes = [tensor.shape for tensor in wanted]
        self._sizes = [tensor.numel() for tensor in wanted]
        self._like = wanted[0] if wanted else torch.empty(0)
        self._slots: list[tuple[Component, str, int]] = []  # the last: which of the wanted ones, -1 for none
        self._statistics: list[ForwardStatistics] = []
        self._numbers = {id(tensor): number for number, tensor in enumerate(wanted)}
        self._view = view
        self.components = {name: self._target(c, self._numbers) for name, c in view.components.items()}
        self._gradients: list[Tensor] = []

    def expect(self, names: Container[str]) -> None:
        """Only the components of these names are updated: parameters of others get no gradients."""
        updated = [c.original for name, c in self._view.components.items() if name in names]
        learned = {id(tensor) for component in updated for tensor in component.parameters().values()}
        self._learned = [identity in learned for identity in self._numbers]

    def _target(self, component: ComponentView, numbers: Mapping[int, int]) -> Any:
        original, properties = component.original, component.view.properties
        tensors = original.parameters()
        if properties & Properties.UPDATABLE and any(id(tensor) in numbers for tensor in tensors.values()):
            return self._gradient_of(component, numbers)
        if properties & Properties.STORES_STATS:
            self._statistics.append(ForwardStatistics(original))
            return self._statistics[-1]
        return None

    def _gradient_of(self, component: ComponentView, numbers: Mapping[int, int]) -> Component:
        target = component.view.shared_copy()
        target.set_as_gradient()
        for name in target.statistic_names:
            value = getattr(target, name)
            setattr(target, name, torch.zeros_like(value) if isinstance(value, Tensor) else 0.0)
        if component.parts:
            target.__dict__["parts"] = [self._target(part, numbers) for part in component.parts]
            return target
        for name, tensor in component.original.parameters().items():
            self._slots.append((target, name, numbers.get(id(tensor), -1)))
        return target

    def begin(self) -> None:
        """New zeros for all gradients."""
        flat = torch.zeros(sum(self._sizes), dtype=self._like.dtype, device=self._like.device)
        pieces = flat.split(self._sizes) if self._sizes else ()
        self._gradients = [piece.view(shape) for piece, shape in zip(pieces, self._shapes, strict=True)]
        for component, name, number in self._slots:
            if number >= 0:
                setattr(component, name, self._gradients[number])
            else:
                setattr(component, name, torch.zeros_like(getattr(component, name)))

    def take(self) -> list[Tensor | None]:
        """The gradients, which are forgotten here; None for parameters that the outputs do not depend on."""
        pairs = zip(self._gradients, self._learned, strict=True)
        gradients = [gradient if learned else None for gradient, learned in pairs]
        self._gradients = []
        for component, name, number in self._slots:
            if number >= 0:
                setattr(component, name, None)
        return gradients

    def take_statistics(self, wanted: bool) -> None:
        """Whether forward runs change running statistics from now on."""
        for statistics in self._statistics:
            statistics.is_on = wanted
