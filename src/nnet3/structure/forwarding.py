"""ForwardingDescriptor: which row of which node an index refers to (docs/config_language.md).

Every function maps whole index tables (rows, 3) with columns n, t, x at once.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from nnet3.errors import Span
from nnet3.index import T, X, shift_indexes


class ForwardingDescriptor(abc.ABC):
    """Refers to exactly one cindex for each index."""

    @property
    @abc.abstractmethod
    def modulus(self) -> int:
        """The period in t under which the structure does not change."""

    @abc.abstractmethod
    def map_to_input(self, indexes: np.ndarray, node_number: Mapping[str, int]) -> tuple[np.ndarray, np.ndarray]:
        """Node numbers (rows,) and indexes (rows, 3) that the given indexes refer to."""

    @abc.abstractmethod
    def nodes(self) -> Iterator[NodeReference]:
        """All references to nodes, in the order they are written."""

    @abc.abstractmethod
    def rename(self, names: Mapping[str, str]) -> ForwardingDescriptor:
        """The same with nodes renamed."""


@dataclass(frozen=True)
class NodeReference(ForwardingDescriptor):
    """`NODE`, or `Scale(scale, NODE)`: the value of the node at the index itself."""

    node: str
    scale: float = 1.0
    span: Span | None = field(default=None, compare=False, repr=False)

    modulus = 1

    def map_to_input(self, indexes: np.ndarray, node_number: Mapping[str, int]) -> tuple[np.ndarray, np.ndarray]:
        return np.full(len(indexes), node_number[self.node], np.int32), indexes

    def nodes(self) -> Iterator[NodeReference]:
        yield self

    def rename(self, names: Mapping[str, str]) -> NodeReference:
        return NodeReference(names.get(self.node, self.node), self.scale, self.span)

    def __str__(self) -> str:
        return self.node if self.scale == 1.0 else f"Scale({self.scale:g}, {self.node})"


@dataclass(frozen=True)
class Offset(ForwardingDescriptor):
    """(n, t, x) refers to (n, t + t_offset, x + x_offset) of the source."""

    source: ForwardingDescriptor
    t_offset: int
    x_offset: int = 0

    @property
    def modulus(self) -> int:
        return self.source.modulus

    def map_to_input(self, indexes: np.ndarray, node_number: Mapping[str, int]) -> tuple[np.ndarray, np.ndarray]:
        return self.source.map_to_input(shift_indexes(indexes, self.t_offset, self.x_offset), node_number)

    def nodes(self) -> Iterator[NodeReference]:
        return self.source.nodes()

    def rename(self, names: Mapping[str, str]) -> Offset:
        return Offset(self.source.rename(names), self.t_offset, self.x_offset)

    def __str__(self) -> str:
        x = f", {self.x_offset}" if self.x_offset else ""
        return f"Offset({self.source}, {self.t_offset}{x})"


@dataclass(frozen=True)
class Switch(ForwardingDescriptor):
    """Source number t mod (number of sources), non-negative also for negative t."""

    sources: tuple[ForwardingDescriptor, ...]

    @property
    def modulus(self) -> int:
        return math.lcm(len(self.sources), *(source.modulus for source in self.sources))

    def map_to_input(self, indexes: np.ndarray, node_number: Mapping[str, int]) -> tuple[np.ndarray, np.ndarray]:
        chosen = indexes[:, T] % len(self.sources)
        nodes = np.empty(len(indexes), np.int32)
        mapped = np.empty_like(indexes)
        for number, source in enumerate(self.sources):
            rows = chosen == number
            nodes[rows], mapped[rows] = source.map_to_input(indexes[rows], node_number)
        return nodes, mapped

    def nodes(self) -> Iterator[NodeReference]:
        for source in self.sources:
            yield from source.nodes()

    def rename(self, names: Mapping[str, str]) -> Switch:
        return Switch(tuple(source.rename(names) for source in self.sources))

    def __str__(self) -> str:
        return f"Switch({', '.join(map(str, self.sources))})"


@dataclass(frozen=True)
class Round(ForwardingDescriptor):
    """t is rounded down to a multiple of t_modulus (towards minus infinity)."""

    source: ForwardingDescriptor
    t_modulus: int

    @property
    def modulus(self) -> int:
        return self.t_modulus

    def map_to_input(self, indexes: np.ndarray, node_number: Mapping[str, int]) -> tuple[np.ndarray, np.ndarray]:
        mapped = indexes.copy()
        mapped[:, T] -= indexes[:, T] % self.t_modulus
        return self.source.map_to_input(mapped, node_number)

    def nodes(self) -> Iterator[NodeReference]:
        return self.source.nodes()

    def rename(self, names: Mapping[str, str]) -> Round:
        return Round(self.source.rename(names), self.t_modulus)

    def __str__(self) -> str:
        return f"Round({self.source}, {self.t_modulus})"


@dataclass(frozen=True)
class ReplaceIndex(ForwardingDescriptor):
    """t (or x) is replaced by a constant."""

    source: ForwardingDescriptor
    variable: str  # "t" or "x"
    value: int

    modulus = 1

    def map_to_input(self, indexes: np.ndarray, node_number: Mapping[str, int]) -> tuple[np.ndarray, np.ndarray]:
        mapped = indexes.copy()
        mapped[:, T if self.variable == "t" else X] = self.value
        return self.source.map_to_input(mapped, node_number)

    def nodes(self) -> Iterator[NodeReference]:
        return self.source.nodes()

    def rename(self, names: Mapping[str, str]) -> ReplaceIndex:
        return ReplaceIndex(self.source.rename(names), self.variable, self.value)

    def __str__(self) -> str:
        return f"ReplaceIndex({self.source}, {self.variable}, {self.value})"
