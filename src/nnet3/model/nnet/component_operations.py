"""What is done to all components of a network at once: sums, scales, rates, modes, seeds."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import TYPE_CHECKING

from nnet3.errors import NetworkError
from nnet3.model.components.base import Component
from nnet3.model.components.random_source import SharedNumbers
from nnet3.model.nnet.conversion import check_number
from nnet3.model.nnet.flat_parameters import FlatParameters, flatten

if TYPE_CHECKING:
    import torch
    from typing_extensions import Self


class ComponentOperations(abc.ABC):
    """Components by name, as one vector of parameters and statistics."""

    _flat_parameters: FlatParameters

    @property
    @abc.abstractmethod
    def components(self) -> dict[str, Component]:
        """The components by name, in order of definition."""

    def set_learning_rate(self, rate: float) -> None:
        """Sets the underlying learning rate, which a component multiplies by its factor.

        Raises ArgumentError unless the rate is a finite number >= 0.
        """
        rate = check_number("a learning rate", rate, minimum=0.0)
        for component in self.components.values():
            if component.updatable is not None:  # a Constant may have no parameter, and a Composite no such part
                component.set_learning_rate(rate)

    @property
    def frozen(self) -> frozenset[str]:
        """The components with parameters and learning rate 0: a request's `frozen` saves their gradients."""
        return frozenset(name for name, each in self.components.items() if each.updatable and each.is_frozen)

    def scale_(self, scale: float) -> None:
        """Multiplies all parameters and statistics. Raises ArgumentError unless `scale` is a finite number."""
        scale = check_number("a scale", scale)
        for buffer in self.flat_parameters():
            buffer.zero_() if scale == 0 else buffer.mul_(scale)
        for component in self.components.values():
            component.scale_stats_(scale)

    def add_(self, alpha: float, other: Self) -> None:
        """Adds alpha times another network of the same components, statistics included."""
        self.add_scaled_(other, dict.fromkeys(self.components, alpha))

    def add_scaled_(self, other: Self, factors: Mapping[str, float]) -> None:
        """Adds another network with equal components, statistics included; `factors` by component.

        Neighbours with equal factors are added in one call. Raises NetworkError if the networks differ in components
        or in sizes of parameters.
        """
        if list(other.components) != list(self.components):
            raise NetworkError("networks to be added must have the same components in the same order")
        self._flat().add_(other._flat(), factors)
        for name, component in self.components.items():
            component.add_stats_(factors[name], other.components[name])

    def flat_parameters(self) -> list[torch.Tensor]:
        """Returns all parameters as tensors (elements,), a tensor for each dtype and device: usually a list of one.

        The parameters of the components are consecutive parts of a tensor, in order, so changes to the tensor change
        the parameters. Their memory moves into a buffer at the first call, and again after components, dtypes or
        devices have changed. The tensor objects are kept, but views taken before the move show the old memory.
        """
        return self._flat().buffers

    def squared_norms(self) -> dict[str, float]:
        """Returns the sum of squares of the parameters of each component with parameters, added up in float64."""
        return self._flat().squared_norms()

    def _flat(self) -> FlatParameters:
        self._flat_parameters = flatten(self.components, self._flat_parameters)
        return self._flat_parameters

    def zero_stats(self) -> None:
        """Zeros the statistics of all components."""
        for component in self.components.values():
            component.zero_stats()

    def set_test_mode(self, test_mode: bool = True) -> None:
        """Puts batch-norm and dropout components in test mode (or back in training mode)."""
        for component in self.components.values():
            component.set_test_mode(test_mode)

    def freeze_natural_gradient(self, frozen: bool) -> None:
        for component in self.components.values():
            component.freeze_natural_gradient(frozen)

    def seed_random(self, seed: int, scalars: SharedNumbers | None = None) -> None:
        """Makes all later random draws (dropout, self-repair, statistics) a function of `seed`.

        With `scalars`, all components take single numbers from there, in the order of their work.
        """
        for number, component in enumerate(self.components.values()):
            component.seed_random(seed * 1_000_003 + number, scalars)
