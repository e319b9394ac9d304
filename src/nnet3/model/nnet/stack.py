"""Stack: the components and config lines of a network that grows by one layer of another system after the other."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from nnet3.model.components.base import Component
from nnet3.model.components.component_types import COMPONENT_TYPES, create
from nnet3.model.components.random_source import RandomSource
from nnet3.model.structure.config_reader import apply_config
from nnet3.model.structure.parts import NetworkParts


@dataclass
class Stack:
    """The network so far: the node `here`, of `dim` columns, has a row for every `step` frames of the input.

    With `ivector_dim` there is an input `ivector` besides.
    """

    dim: int
    dtype: torch.dtype
    here: str = "input"
    step: int = 1
    lines: list[str] = field(default_factory=list)
    components: dict[str, Component] = field(default_factory=dict)
    ivector_dim: int = 0

    def __post_init__(self) -> None:
        self.lines.append(f"input-node name=input dim={self.dim}")
        if self.ivector_dim:
            self.lines.append(f"input-node name=ivector dim={self.ivector_dim}")

    def values(self, parameter: Tensor) -> Tensor:
        """Returns a copy of a parameter on the CPU, in the dtype of the network."""
        return parameter.detach().to("cpu", self.dtype, copy=True).contiguous()

    def node(self, name: str, type_name: str, descriptor: str, **values: Any) -> str:
        """Adds a component with these values of its fields, parameters copied, and its node; returns their name."""
        copied = {key: self.values(each) if isinstance(each, Tensor) else each for key, each in values.items()}
        return self._add(name, COMPONENT_TYPES[type_name].from_values(copied), descriptor)

    def configured(self, name: str, type_name: str, descriptor: str, config: str) -> str:
        """Adds a component of a config's keys, and its node."""
        return self._add(name, create(type_name, config), descriptor)

    def _add(self, name: str, component: Component, descriptor: str) -> str:
        self.components[name] = component
        self.lines.append(f"component-node name={name} component={name} input={descriptor}")
        return name

    def columns(self, name: str, source: str, first: int, dim: int) -> str:
        """Adds a node for some columns of a component's node, and returns its name."""
        self.lines.append(f"dim-range-node name={name} input-node={source} dim-offset={first} dim={dim}")
        return name

    def affine(self, name: str, weight: Tensor, bias: Tensor | None, descriptor: str) -> str:
        """Adds y = W x + b, without b if it is None."""
        if bias is None:
            return self.node(name, "LinearComponent", descriptor, params=weight)
        return self.node(name, "NaturalGradientAffineComponent", descriptor, linear_params=weight, bias_params=bias)

    def plain(self, name: str, type_name: str, dim: int, descriptor: str) -> str:
        """Adds a component that a dimension is enough for."""
        return self.configured(name, type_name, descriptor, f"dim={dim}")

    def product(self, name: str, dim: int, first: str, second: str) -> str:
        """Adds the product of two nodes' elements."""
        config = f"input-dim={2 * dim} output-dim={dim}"
        return self.configured(name, "ElementwiseProductComponent", f"Append({first}, {second})", config)

    def same(self, name: str, dim: int, descriptor: str) -> str:
        """Adds a node for a descriptor, so that other nodes may look at it at other times."""
        return self.plain(name, "NoOpComponent", dim, descriptor)

    def node_here(self, name: str) -> str:
        """Returns the node that is here, made if a descriptor is here: other times of a node can be looked at."""
        if "(" in self.here:
            self.here = self.same(f"{name}.input", self.dim, self.here)
        return self.here

    def goes_on(self, node: str, dim: int) -> None:
        """Makes a node what the next module sees."""
        self.here, self.dim = node, dim

    def at(self, node: str, offset: int) -> str:
        """Returns the descriptor of a node `offset` of its rows later."""
        return f"Offset({node}, {offset * self.step})" if offset else node

    def parts(self) -> NetworkParts:
        """Returns nodes and components, with what is here as the output."""
        config = "\n".join([*self.lines, f"output-node name=output input={self.here}"])
        return apply_config(NetworkParts((), self.components), config, "<layers>", RandomSource(0))[0]
