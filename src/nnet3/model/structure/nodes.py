"""The four kinds of network node, and their config lines (docs/config_language.md)."""

from __future__ import annotations

import abc
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

from typing_extensions import Self

from nnet3.errors import Span
from nnet3.model.structure.descriptor import Descriptor


@dataclass(frozen=True)
class NnetNode(abc.ABC):
    """A named node. `span` says where it was defined, for messages."""

    name: str
    span: Span | None = field(default=None, compare=False, repr=False, kw_only=True)
    is_output: ClassVar[bool] = False
    is_hidden: ClassVar[bool] = False  # it belongs to the component node after it, whose input it is
    modulus: ClassVar[int] = 1

    def source_names(self) -> Collection[str]:
        """Returns the names of the node's sources; a component node's is its hidden input."""
        return ()

    @abc.abstractmethod
    def config_line(self, descriptor: Descriptor | None = None, dims: str = "") -> str:
        """Returns the node's config line with `descriptor` as its input. `dims` goes where info shows dimensions."""

    def with_sources(self, names: Mapping[str, str]) -> Self:
        """Returns the node with renamed sources."""
        return self


@dataclass(frozen=True)
class InputNode(NnetNode):
    """Provided by the user: matrices with `dim` columns."""

    dim: int

    def config_line(self, descriptor: Descriptor | None = None, dims: str = "") -> str:
        return f"input-node name={self.name} dim={self.dim}"

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
        """The period in t: moved by it, the node looks at the same places, moved alike."""
        return self.descriptor.modulus

    def source_names(self) -> Collection[str]:
        return self.descriptor.node_names()

    def config_line(self, descriptor: Descriptor | None = None, dims: str = "") -> str:
        return f"output-node name={self.name} input={descriptor}{dims} objective={self.objective}"

    def with_sources(self, names: Mapping[str, str]) -> Self:
        return replace(self, descriptor=self.descriptor.rename(names))

    def __str__(self) -> str:
        return f"{self.name}: {'output' if self.is_output else 'descriptor'} {self.descriptor}"


@dataclass(frozen=True)
class ComponentNode(NnetNode):
    """A component applied to the preceding descriptor node."""

    component: str

    @property
    def input_name(self) -> str:
        return f"{self.name}_input"

    def source_names(self) -> Collection[str]:
        return (self.input_name,)

    def config_line(self, descriptor: Descriptor | None = None, dims: str = "") -> str:
        return f"component-node name={self.name} component={self.component} input={descriptor}{dims}"

    def __str__(self) -> str:
        return f"{self.name}: component {self.component} applied to {self.input_name}"


@dataclass(frozen=True)
class DimRangeNode(NnetNode):
    """Columns [dim_offset, dim_offset + dim) of an input or component node."""

    source: str
    dim_offset: int
    dim: int

    @property
    def columns(self) -> str:
        """The columns, in words."""
        return f"columns {self.dim_offset} to {self.dim_offset + self.dim - 1}"

    def source_names(self) -> Collection[str]:
        return (self.source,)

    def config_line(self, descriptor: Descriptor | None = None, dims: str = "") -> str:
        offset = f"dim-offset={self.dim_offset} dim={self.dim}"
        return f"dim-range-node name={self.name} input-node={self.source} {offset}"

    def with_sources(self, names: Mapping[str, str]) -> Self:
        return replace(self, source=names.get(self.source, self.source))

    def __str__(self) -> str:
        return f"{self.name}: {self.columns} of {self.source}"
