"""Calls modules in place of components; autograd differentiates them.

A program calls a module, in place of the kernel, where the module computes something else than its component: where
another module was put in its place, or the module has hooks, parametrizations, or parameters given for one call.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from nnet3.errors import NetworkError
from nnet3.model.components.base import Component, Deriv, Properties
from nnet3.training.train.torch_module.component_function import Rows, within_a_program
from nnet3.training.train.torch_module.component_module import ComponentModule
from nnet3.training.train.torch_module.views import shared_copy_as

_C = TypeVar("_C", bound=Component)
_ONE_CALL = threading.RLock()  # parameters are put into a module for the time of a call


@dataclass(frozen=True)
class Replacement:
    """A module in the place of a component. `leaves`: its parameters by name, with numbers among all parameters."""

    module: nn.Module
    leaves: tuple[tuple[str, int], ...]

    def check(self, name: str, component: Component) -> None:
        """Raises NetworkError if the module cannot stand for the component."""
        is_own = isinstance(self.module, ComponentModule) and self.module.component is component
        if not is_own and not component.properties & Properties.SIMPLE:
            raise NetworkError(
                f"{type(self.module).__name__} cannot take the place of component '{name}' ({component.type_name}), "
                "which reads rows of several times: only what maps each row by itself can be replaced"
            )


class ReplacementCall:
    """Calls a replacement in the runs of one computer."""

    def __init__(self, name: str, replacement: Replacement, wanted: Mapping[int, int], with_backward: bool) -> None:
        """`wanted`: numbers of the parameters whose gradients are collected, with their places among the
        wanted parameters.
        """
        self.name, self.module, self._leaves, self._wanted = name, replacement.module, replacement.leaves, wanted
        self._with_backward = with_backward
        self.takes_statistics = True
        self.tensors: Sequence[Tensor] = ()  # of all parameters, for the next forward run

    @property
    def learns(self) -> bool:
        return any(number in self._wanted for _, number in self._leaves)

    def forward(self, x: Tensor, y: Tensor, indexes: Any) -> Any:
        leaves = {name: self.tensors[number].detach() for name, number in self._leaves}
        if self._with_backward:
            x = x.clone().requires_grad_()
            for name, number in self._leaves:
                leaves[name].requires_grad_(number in self._wanted)
        else:
            x = x.clone()
        rows = Rows(self.name, indexes, len(y), self.takes_statistics)
        with _ONE_CALL, torch.set_grad_enabled(self._with_backward), within_a_program(rows):
            output = torch.func.functional_call(self.module, leaves, (x,))
        if not isinstance(output, Tensor) or output.shape != y.shape:
            got = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
            raise NetworkError(
                f"the module in the place of component '{self.name}' ({type(self.module).__name__}) gave {got} for "
                f"{tuple(x.shape)}, but the network goes on with {tuple(y.shape)}: edit the network and make a new "
                "TorchModule of it if it is to have other sizes"
            )
        y.copy_(output.detach())
        return (x, output, leaves) if self._with_backward else None

    def backward(
        self, memo: Any, y_deriv: Tensor, gradients: ReplacementGradients | None, x_deriv: Tensor | None
    ) -> None:
        x, output, leaves = memo
        inputs = [x] if x_deriv is not None else []
        wanted_indexes = (
            [] if gradients is None else [(self._wanted[n], leaves[k]) for k, n in self._leaves if n in self._wanted]
        )
        found: list[Tensor | None] = [None] * (len(inputs) + len(wanted_indexes))
        if output.requires_grad and found:
            wanted = [*inputs, *(leaf for _, leaf in wanted_indexes)]
            found = list(torch.autograd.grad(output, wanted, y_deriv.to(output.dtype), allow_unused=True))
        if x_deriv is not None:
            of_x = found.pop(0)
            x_deriv.zero_() if of_x is None else x_deriv.copy_(of_x)
        for (wanted_index, _), gradient in zip(wanted_indexes, found, strict=True):
            assert gradients is not None
            gradients.add(wanted_index, gradient)


class ReplacementGradients:
    """Collects gradients of replacements' parameters; stands for a component to update."""

    def __init__(self) -> None:
        self.sums: Sequence[Tensor] = ()  # of all wanted parameters
        self.reached: set[int] = set()

    def add(self, wanted_index: int, gradient: Tensor | None) -> None:
        if gradient is not None:
            self.sums[wanted_index].add_(gradient)
            self.reached.add(wanted_index)


def replaced(view: Component, call: ReplacementCall) -> Component:
    """Returns a component that computes what a module does, with the rules of indexes of a view."""
    return shared_copy_as(_replacement_type(type(view)), view, _call=call)


@cache
def _replacement_type(kind: type[_C]) -> type[_C]:
    class ReplacementComponent(kind):  # type: ignore[valid-type, misc]
        _call: ReplacementCall
        has_slices = False

        @property
        def properties(self) -> Properties:
            own: Properties | None = self.__dict__.get("properties")
            properties: Properties = super().properties if own is None else own
            kept = properties & (Properties.SIMPLE | Properties.REORDERS_INDEXES)
            return kept | Properties.USES_MEMO | (Properties.UPDATABLE if self._call.learns else Properties.NONE)

        def forward(self, x: Tensor, y: Tensor, indexes: Any = None) -> Any:
            return self._call.forward(x, y, indexes)

        def backward(
            self, x: Tensor, y: Tensor, y_deriv: Tensor, memo: Any, to_update: Any, x_deriv: Deriv, indexes: Any = None
        ) -> None:
            self._call.backward(memo, y_deriv, to_update, x_deriv)

    return ReplacementComponent
