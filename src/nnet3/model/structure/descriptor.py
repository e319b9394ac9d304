"""Descriptor and SumDescriptor: the two upper levels of the normalised form (docs/config_language.md).

A descriptor has *slots*: its forwarding descriptors, in written order. For every index a slot refers to one
cindex, so dependencies are rectangular arrays (rows, slots). A Boolean function of the available slots
decides whether a row is computable and selects the slots to use.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from itertools import accumulate, chain
from typing import Any, ClassVar

import numpy as np

from nnet3.errors import ConfigError, Span
from nnet3.model.structure.forwarding import ALWAYS, ForwardingDescriptor, NodeReference, Written

Change = Callable[[ForwardingDescriptor], ForwardingDescriptor]


class SumDescriptor(Written):
    """A sum, with optional terms, of rows of nodes."""

    @abc.abstractmethod
    def forwards(self) -> Iterator[ForwardingDescriptor]:
        """Yields the slots, in order."""

    @property
    @abc.abstractmethod
    def needed(self) -> tuple[bool, ...]:
        """One flag a slot: False inside IfDefined, where the slot's availability does not matter."""

    @property
    def num_slots(self) -> int:
        return len(self.needed)

    @property
    def modulus(self) -> int:
        return math.lcm(1, *(forward.modulus for forward in self.forwards()))

    @property
    def constant(self) -> float:
        """The sum of the Const terms, added to every element."""
        return 0.0

    @abc.abstractmethod
    def availability(self, slots: np.ndarray) -> np.ndarray:
        """Returns the availability (rows,) from the availability of the slots (rows, slots).

        Availability is the minimum over terms of a Sum, the maximum over the two of a Failover, and True (a number:
        ALWAYS) of IfDefined and Const. From Booleans follow the computable rows. From the last available times of slots
        follows the last available time of the sum.
        """

    @abc.abstractmethod
    def used(self, available: np.ndarray) -> np.ndarray:
        """Returns the slots in use (rows, slots), Booleans as `available`; rows that are not computable use none."""

    @abc.abstractmethod
    def dim(self, node_dim: Callable[[str], int]) -> int:
        """Returns the number of columns. Raises ConfigError where two terms differ."""

    @abc.abstractmethod
    def changed(self, change: Change) -> SumDescriptor:
        """Returns the sum with every forwarding descriptor changed."""


@dataclass(frozen=True)
class Simple(SumDescriptor):
    """A forwarding descriptor alone."""

    source: ForwardingDescriptor

    needed = (True,)

    @property
    def arguments(self) -> tuple[Any, ...]:
        return self.source.arguments

    def forwards(self) -> Iterator[ForwardingDescriptor]:
        yield self.source

    def availability(self, slots: np.ndarray) -> np.ndarray:
        return slots[:, 0]

    def used(self, available: np.ndarray) -> np.ndarray:
        return available

    def dim(self, node_dim: Callable[[str], int]) -> int:
        return node_dim(next(self.source.nodes()).node)

    def changed(self, change: Change) -> Simple:
        return Simple(change(self.source))

    def plain(self) -> tuple[NodeReference, int, int] | None:
        return self.source.plain()

    def __str__(self) -> str:
        return str(self.source)


class _Several(SumDescriptor):
    """Terms of equal dimension."""

    combine: ClassVar[np.ufunc]  # of the availability of two terms
    span: Span | None

    @property
    @abc.abstractmethod
    def arguments(self) -> tuple[SumDescriptor, ...]:
        """The terms, in order."""

    def forwards(self) -> Iterator[ForwardingDescriptor]:
        for argument in self.arguments:
            yield from argument.forwards()

    @cached_property
    def needed(self) -> tuple[bool, ...]:
        return tuple(chain.from_iterable(argument.needed for argument in self.arguments))

    @cached_property
    def _slots(self) -> list[slice]:
        """The range of slots of every term."""
        return _ranges(self.arguments)

    def availability(self, slots: np.ndarray) -> np.ndarray:
        terms = zip(self.arguments, self._slots, strict=True)
        available: np.ndarray = reduce(self.combine, (term.availability(slots[:, own]) for term, own in terms))
        return available

    def dim(self, node_dim: Callable[[str], int]) -> int:
        first, *others = self.arguments
        dim = first.dim(node_dim)
        for other in others:
            if other.dim(node_dim) != dim:
                dims = f"{first} has {dim}, {other} has {other.dim(node_dim)}"
                raise ConfigError(f"{type(self).__name__} of different dimensions: {dims}", self.span)
        return dim


@dataclass(frozen=True)
class Sum(_Several):
    """The sum of two or more terms; all must be computable.

    A last term that is a Sum counts as several terms, so that a sum of thousands is not nested: the sum printed
    as `Sum(a, Sum(b, c))` has the terms a, b and c.
    """

    terms: tuple[SumDescriptor, ...]
    span: Span | None = field(default=None, compare=False, repr=False)

    combine = np.minimum

    @property
    def arguments(self) -> tuple[SumDescriptor, ...]:
        return self.terms

    @property
    def constant(self) -> float:
        return sum(term.constant for term in self.terms)

    def used(self, available: np.ndarray) -> np.ndarray:
        terms = zip(self.terms, self._slots, strict=True)
        used = np.hstack([term.used(available[:, slots]) for term, slots in terms])
        return used & self.availability(available)[:, np.newaxis]

    def changed(self, change: Change) -> Sum:
        return replace(self, terms=tuple(term.changed(change) for term in self.terms))

    def __str__(self) -> str:
        *others, last = map(str, self.terms)
        return "".join(f"Sum({term}, " for term in others) + last + ")" * len(others)


@dataclass(frozen=True)
class Failover(_Several):
    """left where computable, else right."""

    left: SumDescriptor
    right: SumDescriptor
    span: Span | None = field(default=None, compare=False, repr=False)

    combine = np.maximum

    @property
    def arguments(self) -> tuple[SumDescriptor, ...]:
        return self.left, self.right

    @property
    def constant(self) -> float:
        return self.left.constant  # equal on both sides, which normalisation has checked

    def used(self, available: np.ndarray) -> np.ndarray:
        left, right = (available[:, slots] for slots in self._slots)
        right_chosen = ~self.left.availability(left)[:, np.newaxis]
        return np.hstack([self.left.used(left), self.right.used(right) & right_chosen])

    def changed(self, change: Change) -> Failover:
        return replace(self, left=self.left.changed(change), right=self.right.changed(change))


@dataclass(frozen=True)
class IfDefined(SumDescriptor):
    """The source where computable, else zero."""

    source: SumDescriptor

    @property
    def arguments(self) -> tuple[Any, ...]:
        return (self.source,)

    def forwards(self) -> Iterator[ForwardingDescriptor]:
        return self.source.forwards()

    @property
    def needed(self) -> tuple[bool, ...]:
        return (False,) * self.source.num_slots

    def availability(self, slots: np.ndarray) -> np.ndarray:
        return _always(slots)

    def used(self, available: np.ndarray) -> np.ndarray:
        return self.source.used(available)

    def dim(self, node_dim: Callable[[str], int]) -> int:
        return self.source.dim(node_dim)

    def changed(self, change: Change) -> IfDefined:
        return IfDefined(self.source.changed(change))


@dataclass(frozen=True)
class Const(SumDescriptor):
    """A constant in all `size` dimensions."""

    value: float
    size: int

    needed = ()

    @property
    def arguments(self) -> tuple[Any, ...]:
        return self.value, self.size

    def forwards(self) -> Iterator[ForwardingDescriptor]:
        return iter(())

    @property
    def constant(self) -> float:
        return self.value

    def availability(self, slots: np.ndarray) -> np.ndarray:
        return _always(slots)

    def used(self, available: np.ndarray) -> np.ndarray:
        return available

    def dim(self, node_dim: Callable[[str], int]) -> int:
        return self.size

    def changed(self, change: Change) -> Const:
        return self

    def __str__(self) -> str:
        return f"Const({self.value:g}, {self.size})"


def _always(slots: np.ndarray) -> np.ndarray:
    return np.full(len(slots), ALWAYS, slots.dtype)


def _ranges(terms: tuple[SumDescriptor, ...]) -> list[slice]:
    """Returns the range of slots of every term."""
    ends = list(accumulate(term.num_slots for term in terms))
    return [slice(start, end) for start, end in zip([0, *ends], ends, strict=False)]


@dataclass(frozen=True)
class Descriptor:
    """The concatenation of parts."""

    parts: tuple[SumDescriptor, ...]

    def slots(self) -> list[ForwardingDescriptor]:
        """Returns all forwarding descriptors, part by part."""
        return self._slots

    @cached_property
    def _slots(self) -> list[ForwardingDescriptor]:
        return [forward for part in self.parts for forward in part.forwards()]

    @cached_property
    def needed(self) -> tuple[bool, ...]:
        """One flag a slot: False inside IfDefined, where the slot's availability does not matter."""
        return tuple(chain.from_iterable(part.needed for part in self.parts))

    def needed_slots(self) -> list[ForwardingDescriptor]:
        return [forward for forward, needed in zip(self.slots(), self.needed, strict=True) if needed]

    @cached_property
    def _all_simple(self) -> bool:
        return all(isinstance(part, Simple) for part in self.parts)

    @cached_property
    def part_slots(self) -> list[slice]:
        """The range of slots of every part."""
        return _ranges(self.parts)

    def node_references(self) -> list[NodeReference]:
        return [reference for forward in self.slots() for reference in forward.nodes()]

    def node_names(self) -> set[str]:
        """Returns the names of the nodes in the descriptor."""
        return {reference.node for forward in self.slots() for reference in forward.nodes()}

    @property
    def modulus(self) -> int:
        return math.lcm(1, *(part.modulus for part in self.parts))

    def get_dependencies(self, indexes: np.ndarray, node_number: Mapping[str, int]) -> tuple[np.ndarray, np.ndarray]:
        """Returns all cindexes that may be involved: node numbers (rows, slots) and indexes (rows, slots, 3)."""
        slots = self.slots()
        nodes = np.empty((len(indexes), len(slots)), np.int32)
        mapped = np.empty((len(indexes), len(slots), 3), np.int32)
        for number, forward in enumerate(slots):
            nodes[:, number], mapped[:, number] = forward.map_to_input(indexes, node_number)
        return nodes, mapped

    def availability(self, slots: np.ndarray) -> np.ndarray:
        """Returns the availability of rows (rows,), from that of slots (rows, slots); see `SumDescriptor`."""
        if self._all_simple:
            available: np.ndarray = reduce(np.minimum, slots.T)
        else:
            parts = zip(self.parts, self.part_slots, strict=True)
            available = reduce(np.minimum, (part.availability(slots[:, own]) for part, own in parts))
        return available

    def is_computable(self, available: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the computable rows (rows,) and the slots they use (rows, slots).

        `available`: the available slots, (rows, slots).
        """
        computable = self.availability(available)
        if self._all_simple:
            used = available
        else:
            parts = zip(self.parts, self.part_slots, strict=True)
            used = np.hstack([part.used(available[:, slots]) for part, slots in parts])
        return computable, used & computable[:, np.newaxis]

    def dim(self, node_dim: Callable[[str], int]) -> int:
        """Returns the number of columns: the sum over the parts."""
        return sum(part.dim(node_dim) for part in self.parts)

    def part_dims(self, node_dim: Callable[[str], int]) -> list[int]:
        return [part.dim(node_dim) for part in self.parts]

    def rename(self, names: Mapping[str, str]) -> Descriptor:
        """Returns the descriptor with nodes renamed."""
        return Descriptor(tuple(part.changed(lambda forward: forward.rename(names)) for part in self.parts))

    def plain(self) -> NodeReference | None:
        """Returns the node if the descriptor is `NODE` or `Scale(scale, NODE)`, else None."""
        plain = self.parts[0].plain() if len(self.parts) == 1 else None
        return plain[0] if plain and plain[1:] == (0, 0) else None

    def __str__(self) -> str:
        if len(self.parts) == 1:
            return str(self.parts[0])
        return f"Append({', '.join(map(str, self.parts))})"
