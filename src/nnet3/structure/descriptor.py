"""Descriptor and SumDescriptor: the two upper levels of the normalised form (docs/config_language.md).

A descriptor has *slots*: its forwarding descriptors in the order they are written, each of which refers to one
cindex for every index. So dependencies are rectangular arrays (rows, slots), and whether a row is computable,
and which slots it uses, is a Boolean function of which of its slots are available.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate

import numpy as np

from nnet3.errors import ConfigError, Span
from nnet3.structure.forwarding import ForwardingDescriptor, NodeReference


class SumDescriptor(abc.ABC):
    """A sum, with optional terms, of rows of nodes."""

    @abc.abstractmethod
    def forwards(self) -> Iterator[ForwardingDescriptor]:
        """The slots, in order."""

    @property
    def num_slots(self) -> int:
        return sum(1 for _ in self.forwards())

    @property
    def modulus(self) -> int:
        return math.lcm(1, *(forward.modulus for forward in self.forwards()))

    @property
    def constant(self) -> float:
        """What Const terms add to every element."""
        return 0.0

    @abc.abstractmethod
    def is_computable(self, available: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """From the availability of its slots (rows, slots): computable (rows,), slots used (rows, slots)."""

    @abc.abstractmethod
    def dim(self, node_dim: Callable[[str], int]) -> int:
        """The number of columns. Raises ConfigError where two terms differ."""

    @abc.abstractmethod
    def rename(self, names: Mapping[str, str]) -> SumDescriptor:
        """The same with nodes renamed."""


@dataclass(frozen=True)
class Simple(SumDescriptor):
    """One forwarding descriptor."""

    source: ForwardingDescriptor

    def forwards(self) -> Iterator[ForwardingDescriptor]:
        yield self.source

    def is_computable(self, available: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return available[:, 0], available

    def dim(self, node_dim: Callable[[str], int]) -> int:
        return node_dim(next(self.source.nodes()).node)

    def rename(self, names: Mapping[str, str]) -> Simple:
        return Simple(self.source.rename(names))

    def __str__(self) -> str:
        return str(self.source)


class _Several(SumDescriptor):
    """Terms of equal dimension."""

    word = ""
    span: Span | None

    @property
    @abc.abstractmethod
    def arguments(self) -> tuple[SumDescriptor, ...]:
        """The terms, in order."""

    def forwards(self) -> Iterator[ForwardingDescriptor]:
        for argument in self.arguments:
            yield from argument.forwards()

    @cached_property
    def _slots(self) -> list[slice]:
        """The range of slots of each term."""
        ends = list(accumulate(argument.num_slots for argument in self.arguments))
        return [slice(start, end) for start, end in zip([0, *ends], ends, strict=False)]

    def _parts(self, available: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """What each term says of its own slots."""
        pairs = zip(self.arguments, self._slots, strict=True)
        return [argument.is_computable(available[:, slots]) for argument, slots in pairs]

    def dim(self, node_dim: Callable[[str], int]) -> int:
        first, *others = self.arguments
        dim = first.dim(node_dim)
        for other in others:
            if other.dim(node_dim) != dim:
                dims = f"{first} has {dim}, {other} has {other.dim(node_dim)}"
                raise ConfigError(f"{self.word} of different dimensions: {dims}", self.span)
        return dim


@dataclass(frozen=True)
class Sum(_Several):
    """The sum of two or more terms; all must be computable.

    A last term that is a Sum is one of several terms instead, so that a sum of thousands is not nested: what prints
    as `Sum(a, Sum(b, c))` has the terms a, b and c.
    """

    terms: tuple[SumDescriptor, ...]
    span: Span | None = field(default=None, compare=False, repr=False)

    word = "Sum"

    @property
    def arguments(self) -> tuple[SumDescriptor, ...]:
        return self.terms

    @property
    def constant(self) -> float:
        return sum(term.constant for term in self.terms)

    def is_computable(self, available: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        parts = self._parts(available)
        every = np.logical_and.reduce([computable for computable, _ in parts])
        return every, np.hstack([used for _, used in parts]) & every[:, np.newaxis]

    def rename(self, names: Mapping[str, str]) -> Sum:
        return Sum(tuple(term.rename(names) for term in self.terms), self.span)

    def __str__(self) -> str:
        *others, last = map(str, self.terms)
        return "".join(f"Sum({term}, " for term in others) + last + ")" * len(others)


@dataclass(frozen=True)
class Failover(_Several):
    """left where it is computable, else right."""

    left: SumDescriptor
    right: SumDescriptor
    span: Span | None = field(default=None, compare=False, repr=False)

    word = "Failover"

    @property
    def arguments(self) -> tuple[SumDescriptor, ...]:
        return self.left, self.right

    @property
    def constant(self) -> float:
        return self.left.constant  # equal on both sides, which normalisation has checked

    def is_computable(self, available: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        (left, left_used), (right, right_used) = self._parts(available)
        used = np.hstack([left_used & left[:, np.newaxis], right_used & (right & ~left)[:, np.newaxis]])
        return left | right, used

    def rename(self, names: Mapping[str, str]) -> Failover:
        return Failover(self.left.rename(names), self.right.rename(names), self.span)

    def __str__(self) -> str:
        return f"Failover({self.left}, {self.right})"


@dataclass(frozen=True)
class IfDefined(SumDescriptor):
    """The source where it is computable, else zero."""

    source: SumDescriptor

    def forwards(self) -> Iterator[ForwardingDescriptor]:
        return self.source.forwards()

    def is_computable(self, available: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        computable, used = self.source.is_computable(available)
        return np.ones(len(available), bool), used & computable[:, np.newaxis]

    def dim(self, node_dim: Callable[[str], int]) -> int:
        return self.source.dim(node_dim)

    def rename(self, names: Mapping[str, str]) -> IfDefined:
        return IfDefined(self.source.rename(names))

    def __str__(self) -> str:
        return f"IfDefined({self.source})"


@dataclass(frozen=True)
class Const(SumDescriptor):
    """A constant in every one of `size` dimensions."""

    value: float
    size: int

    def forwards(self) -> Iterator[ForwardingDescriptor]:
        return iter(())

    @property
    def constant(self) -> float:
        return self.value

    def is_computable(self, available: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.ones(len(available), bool), available

    def dim(self, node_dim: Callable[[str], int]) -> int:
        return self.size

    def rename(self, names: Mapping[str, str]) -> Const:
        return self

    def __str__(self) -> str:
        return f"Const({self.value:g}, {self.size})"


@dataclass(frozen=True)
class Descriptor:
    """The concatenation of its parts."""

    parts: tuple[SumDescriptor, ...]

    def slots(self) -> list[ForwardingDescriptor]:
        """All forwarding descriptors, part by part."""
        return self._slots

    @cached_property
    def _slots(self) -> list[ForwardingDescriptor]:
        return [forward for part in self.parts for forward in part.forwards()]

    @cached_property
    def _all_simple(self) -> bool:
        return all(isinstance(part, Simple) for part in self.parts)

    def part_slots(self) -> list[slice]:
        """The range of slots of each part."""
        return self._part_slots

    @cached_property
    def _part_slots(self) -> list[slice]:
        ends = np.cumsum([part.num_slots for part in self.parts]).tolist()
        return [slice(start, end) for start, end in zip([0, *ends], ends, strict=False)]

    def node_references(self) -> list[NodeReference]:
        return [reference for forward in self.slots() for reference in forward.nodes()]

    def node_names(self) -> set[str]:
        """The nodes it refers to."""
        return {reference.node for forward in self.slots() for reference in forward.nodes()}

    @property
    def modulus(self) -> int:
        return math.lcm(1, *(part.modulus for part in self.parts))

    def get_dependencies(self, indexes: np.ndarray, node_number: Mapping[str, int]) -> tuple[np.ndarray, np.ndarray]:
        """All cindexes that may be involved: node numbers (rows, slots) and indexes (rows, slots, 3)."""
        slots = self.slots()
        nodes = np.empty((len(indexes), len(slots)), np.int32)
        mapped = np.empty((len(indexes), len(slots), 3), np.int32)
        for number, forward in enumerate(slots):
            nodes[:, number], mapped[:, number] = forward.map_to_input(indexes, node_number)
        return nodes, mapped

    def is_computable(self, available: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """From available slots (rows, slots): rows that are computable (rows,), slots they use (rows, slots)."""
        if self._all_simple:
            computable = available[:, 0]
            for slot in range(1, available.shape[1]):
                computable = computable & available[:, slot]
            return computable, available & computable[:, np.newaxis]
        results = [
            part.is_computable(available[:, slots]) for part, slots in zip(self.parts, self.part_slots(), strict=True)
        ]
        computable = np.logical_and.reduce([result[0] for result in results])
        return computable, np.hstack([result[1] for result in results]) & computable[:, np.newaxis]

    def dim(self, node_dim: Callable[[str], int]) -> int:
        """The number of columns: the sum over the parts."""
        return sum(part.dim(node_dim) for part in self.parts)

    def part_dims(self, node_dim: Callable[[str], int]) -> list[int]:
        return [part.dim(node_dim) for part in self.parts]

    def rename(self, names: Mapping[str, str]) -> Descriptor:
        """The same with nodes renamed."""
        return Descriptor(tuple(part.rename(names) for part in self.parts))

    def __str__(self) -> str:
        if len(self.parts) == 1:
            return str(self.parts[0])
        return f"Append({', '.join(map(str, self.parts))})"
