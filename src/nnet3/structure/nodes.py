"""The four kinds of network node, and the config line that each prints as (docs/config_language.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

from typing_extensions import Self

from nnet3.errors import Span
from nnet3.structure.descriptor import Descriptor


@dataclass(frozen=True)
class NnetNode:
    """A named node. `span` says where it was defined, for messages."""

    name: str
    span: Span | None = field(default=None, compare=False, repr=False, kw_only=True)
    is_output: ClassVar[bool] = False
    is_hidden: ClassVar[bool] = False  # it belongs to the component node after it, whose input it is
    modulus: ClassVar[int] = 1

    def with_sources(self, names: Mapping[str, str]) -> Self:
        """The same with the nodes that it refers to renamed."""
        return self


@dataclass(frozen=True)
class InputNode(NnetNode):
    """Provided by the user: matrices with `dim` columns."""

    dim: int

    def __str__(self) -> str:
        return f"{self.name}: input, dim {self.dim}"


@dataclass(frozen=True)
class DescriptorNode(NnetNode):
    """Glue: the hidden input `NAME_input` of component node NAME, or, with an objective, an output."""

    descriptor: Descriptor
    objective: str | None = None  # "linear" or "quadratic" for an output node

    @property
    def is_output(self) -> bool:  # type: ignore[override]
        return self.objective is not None

    @property
    def is_hidden(self) -> bool:  # type: ignore[override]
        return self.objective is None

    @property
    def modulus(self) -> int:  # type: ignore[override]
        """The period in t under which what it looks at does not change."""
        return self.descriptor.modulus

    def with_sources(self, names: Mapping[str, str]) -> Self:
        return replace(self, descriptor=self.descriptor.rename(names))

    def __str__(self) -> str:
        return f"{self.name}: {'output' if self.is_output else 'descriptor'} {self.descriptor}"


@dataclass(frozen=True)
class ComponentNode(NnetNode):
    """A component applied to the descriptor node before it."""

    component: str

    @property
    def input_name(self) -> str:
        return f"{self.name}_input"

    def __str__(self) -> str:
        return f"{self.name}: component {self.component} applied to {self.input_name}"


@dataclass(frozen=True)
class DimRangeNode(NnetNode):
    """Columns [dim_offset, dim_offset + dim) of an input or component node."""

    source: str
    dim_offset: int
    dim: int

    def with_sources(self, names: Mapping[str, str]) -> Self:
        return replace(self, source=names.get(self.source, self.source))

    def __str__(self) -> str:
        return f"{self.name}: columns {self.dim_offset} to {self.dim_offset + self.dim - 1} of {self.source}"


def config_line(node: NnetNode, descriptor: Descriptor | None = None, dims: str = "") -> str:
    """Returns the config line of a node with this descriptor as its input. `dims` goes where info shows them."""
    if isinstance(node, InputNode):
        return f"input-node name={node.name} dim={node.dim}"
    if isinstance(node, DimRangeNode):
        return f"dim-range-node name={node.name} input-node={node.source} dim-offset={node.dim_offset} dim={node.dim}"
    if isinstance(node, ComponentNode):
        return f"component-node name={node.name} component={node.component} input={descriptor}{dims}"
    assert isinstance(node, DescriptorNode)
    return f"output-node name={node.name} input={descriptor}{dims} objective={node.objective}"
