"""Memory for the gradients of backward runs: new for every run, so that autograd may keep the memory without a copy."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from nnet3.model.components.base import Component, Properties
from nnet3.training.train.torch_module.replacements import ReplacementGradients
from nnet3.training.train.torch_module.survey import TensorKind
from nnet3.training.train.torch_module.views import ComponentView, NetworkView, as_gradient


class ForwardStatistics:
    """Stands for a component to update, and takes statistics of the forward pass alone, while it is on.

    Batch-norm thus keeps its running statistics. Statistics of other types, for self-repair and reports, are dropped.
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
    """Stands for the network that a computer updates: `components` by name, None for components that learn nothing.

    The collector takes the gradients of `wanted` parameters; for a component with wanted and unwanted parameters, all
    are computed. `wanted_indexes` gives the position among the wanted parameters by the id of a component's tensor.
    Replacements have wanted_indexes of their own."""

    _learned: list[bool]  # of each wanted one: see `expect`

    def __init__(
        self,
        view: NetworkView,
        wanted: Sequence[TensorKind],
        wanted_indexes: Mapping[int, int],
        replacements: Container[str],
    ) -> None:
        self._wanted = wanted
        self._positions: list[tuple[Component, str, int]] = []  # the last: which of the wanted ones, -1 for none
        self._statistics: list[ForwardStatistics] = []
        self._wanted_indexes, self._view, self._of_replacements = wanted_indexes, view, ReplacementGradients()
        self.components: dict[str, Any] = {
            name: self._of_replacements if name in replacements else self._target(c)
            for name, c in view.components.items()
        }
        self._gradients: list[Tensor] = []

    def expect(self, names: Container[str]) -> None:
        """Says which components are updated, by name: parameters of others get no gradients."""
        learned = {
            self._wanted_indexes.get(id(tensor))
            for name, component in self._view.components.items()
            if name in names and self.components[name] is not self._of_replacements
            for tensor in component.original.parameters().values()
        }
        self._learned = [wanted_index in learned for wanted_index in range(len(self._wanted))]

    def _target(self, component: ComponentView) -> Any:
        original, properties = component.original, component.view.properties
        tensors = original.parameters()
        if properties & Properties.UPDATABLE and any(id(tensor) in self._wanted_indexes for tensor in tensors.values()):
            return self._gradient_of(component)
        if properties & Properties.STORES_STATS:
            self._statistics.append(ForwardStatistics(original))
            return self._statistics[-1]
        return None

    def _gradient_of(self, component: ComponentView) -> Component:
        target = as_gradient(component.view)
        if component.parts:
            target.__dict__["parts"] = [self._target(part) for part in component.parts]
            return target
        for name, tensor in component.original.parameters().items():
            self._positions.append((target, name, self._wanted_indexes.get(id(tensor), -1)))
        return target

    def begin(self) -> None:
        """Sets all gradients to new zeros."""
        self._gradients = _zeros(self._wanted)
        self._of_replacements.sums = self._gradients
        self._of_replacements.reached.clear()
        for component, name, wanted_index in self._positions:
            if wanted_index >= 0:
                setattr(component, name, self._gradients[wanted_index])
            else:
                setattr(component, name, torch.zeros_like(getattr(component, name)))

    def take(self) -> list[Tensor | None]:
        """Returns the gradients and forgets them; None for parameters that the outputs do not depend on."""
        reached = self._of_replacements.reached
        gradients = [
            gradient if self._learned[wanted_index] or wanted_index in reached else None
            for wanted_index, gradient in enumerate(self._gradients)
        ]
        self._gradients, self._of_replacements.sums = [], ()
        for component, name, wanted_index in self._positions:
            if wanted_index >= 0:
                setattr(component, name, None)
        return gradients

    def take_statistics(self, wanted: bool) -> None:
        """Lets forward runs change running statistics from now on, or not."""
        for statistics in self._statistics:
            statistics.is_on = wanted


def _zeros(kinds: Sequence[TensorKind]) -> list[Tensor]:
    """Returns zeros as views of buffers, a buffer for a dtype and device."""
    flat: dict[tuple[torch.dtype, torch.device], list[int]] = {}
    for number, kind in enumerate(kinds):
        flat.setdefault((kind.dtype, kind.device), []).append(number)
    found: dict[int, Tensor] = {}
    for (dtype, device), numbers in flat.items():
        sizes = [kinds[number].shape.numel() for number in numbers]
        pieces = torch.zeros(sum(sizes), dtype=dtype, device=device).split(sizes)
        found |= {number: piece.view(kinds[number].shape) for number, piece in zip(numbers, pieces, strict=True)}
    return [found[number] for number in range(len(kinds))]
