"""Surveys a tree of modules: which components compute themselves, which modules are called in place of a component."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from nnet3.errors import NetworkError
from nnet3.model.components.base import Component, Properties
from nnet3.model.components.row_sums import RowReduction
from nnet3.training.train.torch_module.batch_norm_module import BatchNormModule
from nnet3.training.train.torch_module.component_module import ComponentModule, component_modules, is_just
from nnet3.training.train.torch_module.replacements import Replacement
from nnet3.training.train.torch_module.tree import ModulePath, module_at


class TensorKind(NamedTuple):
    """Shape, dtype and device of a parameter and its gradient."""

    shape: torch.Size
    dtype: torch.dtype
    device: torch.device


def kind_of(tensor: Tensor) -> TensorKind:
    return TensorKind(tensor.shape, tensor.dtype, tensor.device)


@dataclass(frozen=True)
class Survey:
    """The modules that compute a network: `native` modules, computed by kernels of components (parts of composites
    too), and `replacements`, by name of component.

    `parameters`: the parameters of all modules without repetition, all that outputs may depend on. `own` has pairs of a
    component's tensor and the number of its parameter.
    """

    native: list[ComponentModule]
    replacements: dict[str, Replacement]
    parameters: list[Tensor]
    own: list[tuple[Tensor, int]]

    @property
    def key(self) -> tuple[Any, ...]:
        """A key for programs of the network: changes with all that changes the program."""
        modes = tuple(module.training for module in self.native if module.has_modes)
        own = tuple((id(tensor), number) for tensor, number in self.own)
        of_replacements = tuple(
            kind_of(self.parameters[n]) for replacement in self.replacements.values() for _, n in replacement.leaves
        )
        return tuple(self.replacements.items()), of_replacements, modes, own, tuple(self.reductions.values())

    def kinds(self) -> list[TensorKind]:
        """Returns shape, dtype and device of all parameters."""
        return [kind_of(parameter) for parameter in self.parameters]

    @property
    def training(self) -> dict[int, bool]:
        """Modes by the id of the component."""
        return {id(module.component): module.training for module in self.native if module.has_modes}

    @cached_property
    def reductions(self) -> dict[int, RowReduction]:
        """The processes over which a component sums, by the component's id."""
        normalizing = [module for module in self.native if isinstance(module, BatchNormModule) and module.training]
        return {id(m.component): m.reduction for m in normalizing if m.reduction is not None}

    @property
    def is_random(self) -> bool:
        """True if a forward may draw random numbers."""
        return bool(self.replacements) or any(
            module.training and bool(module.component.properties & Properties.RANDOM)
            for module in self.native
            if module.component is not None
        )

    def with_running_statistics(self) -> list[ComponentModule]:
        """Returns the modules that add to running statistics: those of batch-norm in training mode."""
        return [module for module in self.all_modules() if module.stores_statistics]

    def all_modules(self) -> list[ComponentModule]:
        """Returns the modules of components, those inside replacements too."""
        inside = [
            module for replacement in self.replacements.values() for module in component_modules(replacement.module)
        ]
        return list(dict.fromkeys((*self.native, *inside)))

    def constants(self) -> list[Tensor]:
        """Returns the buffers on which outputs depend, except buffers that a forward changes."""
        return [tensor for module in self.native for tensor in module.fixed_buffers()]


def survey(root: nn.Module, components: Mapping[str, Component], paths: Mapping[str, ModulePath]) -> Survey:
    """Returns a survey of the paths of the components. Raises NetworkError for modules that cannot be there."""
    native: list[ComponentModule] = []
    replacements: dict[str, nn.Module] = {}
    for name, component in components.items():
        module = module_at(root, paths[name])
        if is_just(module, component):
            native += _with_parts(module)
        else:
            replacements[name] = module
    numbers: dict[int, int] = {}
    parameters: list[Tensor] = []

    def number_of(parameter: Tensor) -> int:
        number = numbers.setdefault(id(parameter), len(parameters))
        if number == len(parameters):
            parameters.append(parameter)
        return number

    own: list[tuple[Tensor, int]] = []
    tensors: dict[int, Tensor] = {}  # by the number of the parameter
    for module in native:
        for parameter, tensor in list(module.tensors()):
            number = number_of(parameter)
            if tensors.setdefault(number, tensor) is not tensor:
                module.tie(parameter, tensors[number])
            own.append((tensors[number], number))
    found = {}
    for name, replacement in replacements.items():
        found[name] = Replacement(
            replacement, tuple((leaf, number_of(p)) for leaf, p in replacement.named_parameters())
        )
        found[name].check(name, components[name])
    return Survey(native, found, parameters, own)


def _with_parts(module: nn.Module) -> list[ComponentModule]:
    assert isinstance(module, ComponentModule)
    return [module, *(each for part in module.parts() for each in _with_parts(part))]


def write_back(module: nn.Module, name: str, component: Component) -> None:
    """Gives a component the present parameters of the module in its place.

    Raises NetworkError if no parameters make the component compute like the module.
    """
    if isinstance(module, ComponentModule) and module.component is component:
        module.write_back()
        for number, part in enumerate(module.parts()):
            write_back(part, f"{name}.{module.part_names[number]}", component.parts[number])  # type: ignore[attr-defined]
        return
    own = component.parameters()
    plain = module if component.is_affine and type(module) is nn.Linear else None
    if plain is None or plain.weight.shape != own["linear_params"].shape:
        raise NetworkError(
            f"the network has component '{name}' ({component.type_name}), but in its place the module computes with "
            f"{type(module).__name__}, which no network has: put the component's own module back, with parameters that "
            "do the same, or edit the network. What the module was made of is as it was"
        )
    with torch.no_grad():
        own["linear_params"].copy_(plain.weight)
        own["bias_params"].zero_() if plain.bias is None else own["bias_params"].copy_(plain.bias)
