"""ForwardingDescriptor: maps an index to a row of a node (docs/config_language.md); Interval: times that there are.

Functions from indexes map whole index tables (rows, 3) with columns n, t, x at once.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from nnet3.base.index import T, X, shift_indexes
from nnet3.errors import Span

ALWAYS = 2**60
"""A bound that no time reaches."""


class NotIntervalsError(Exception):
    """The times available from a window of input are no interval at some node, or not for every length of window."""


@dataclass(frozen=True)
class Interval:
    """The times from `low` to `high`, for each shift of the window (shifts,). Empty: from ALWAYS to -ALWAYS."""

    low: npt.NDArray[np.int64]
    high: npt.NDArray[np.int64]

    @classmethod
    def never(cls, num_shifts: int) -> Interval:
        return cls(np.full(num_shifts, ALWAYS), np.full(num_shifts, -ALWAYS))

    @classmethod
    def between(cls, low: npt.NDArray[np.int64], high: npt.NDArray[np.int64]) -> Interval:
        """Makes the intervals from `low` to `high`; they are empty where low > high."""
        return cls(np.where(low > high, ALWAYS, low), np.where(low > high, -ALWAYS, high))

    def equals(self, other: Interval) -> bool:
        return np.array_equal(self.low, other.low) and np.array_equal(self.high, other.high)

    def shifted(self, t_offset: int, x_offset: int) -> Interval:
        """Returns the times t with t + t_offset in the interval. Raises NotIntervalsError for an offset in x."""
        if x_offset:
            raise NotIntervalsError
        if not t_offset:
            return self
        low = np.where(abs(self.low) == ALWAYS, self.low, self.low - t_offset)
        return Interval(low, np.where(abs(self.high) == ALWAYS, self.high, self.high - t_offset))

    def rounded(self, t_modulus: int) -> Interval:
        """Returns the times t with t, rounded down to a multiple of `t_modulus`, in the interval."""
        low = np.where(abs(self.low) == ALWAYS, self.low, -(-self.low // t_modulus) * t_modulus)
        past = (self.high // t_modulus + 1) * t_modulus
        return Interval.between(low, np.where(abs(self.high) == ALWAYS, self.high, past - 1))

    def replaced(self, variable: str, value: int) -> Interval:
        """Returns all times if the interval contains time `value`, else none. Raises NotIntervalsError for x not 0."""
        if variable == "t":
            inside = (self.low <= value) & (value <= self.high)
            return Interval(np.where(inside, -ALWAYS, ALWAYS), np.where(inside, ALWAYS, -ALWAYS))
        if value:
            raise NotIntervalsError
        return self


ALL_TIMES = Interval(np.array([-ALWAYS]), np.array([ALWAYS]))


class Written(abc.ABC):
    """Base of descriptors, printed as written."""

    @property
    @abc.abstractmethod
    def arguments(self) -> tuple[Any, ...]:
        """The arguments, as written in parentheses."""

    def plain(self) -> tuple[NodeReference, int, int] | None:
        """Returns node, t and x offset if this is `NODE` or `Offset(NODE, ...)`, else None."""
        return None

    def __str__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(str, self.arguments))})"


class ForwardingDescriptor(Written):
    """Refers to exactly one cindex for every index."""

    @property
    @abc.abstractmethod
    def modulus(self) -> int:
        """The period in t under which the structure does not change."""

    @property
    def period(self) -> int:
        """The period in frames of the references; `modulus`, as in Kaldi, overlooks the source inside a Round."""
        inner = (each.period for each in self.arguments if isinstance(each, ForwardingDescriptor))
        return math.lcm(self.modulus, *inner)

    @abc.abstractmethod
    def map_to_input(self, indexes: np.ndarray, node_number: Mapping[str, int]) -> tuple[np.ndarray, np.ndarray]:
        """Returns node numbers (rows,) and indexes (rows, 3) to which the given indexes refer."""

    @abc.abstractmethod
    def preimage(self, times_of: Callable[[str], Interval]) -> Interval:
        """Returns the times that refer to available times; `times_of(node)` are the available times of a node.

        Raises NotIntervalsError for times that are no interval.
        """

    @abc.abstractmethod
    def nodes(self) -> Iterator[NodeReference]:
        """Yields all references to nodes, in written order."""

    @abc.abstractmethod
    def rename(self, names: Mapping[str, str]) -> ForwardingDescriptor:
        """Returns the descriptor with nodes renamed."""

    def moved(self, t_offset: int, x_offset: int) -> ForwardingDescriptor:
        """Returns Offset(self, t_offset, x_offset), with neighbouring offsets made one."""
        return Offset(self, t_offset, x_offset) if t_offset or x_offset else self


@dataclass(frozen=True)
class NodeReference(ForwardingDescriptor):
    """`NODE`, or `Scale(scale, NODE)`: the value of the node at the index itself."""

    node: str
    scale: float = 1.0
    span: Span | None = field(default=None, compare=False, repr=False)

    modulus = 1

    @property
    def arguments(self) -> tuple[Any, ...]:
        return (self.node,) if self.scale == 1.0 else (self.scale, self.node)

    def map_to_input(self, indexes: np.ndarray, node_number: Mapping[str, int]) -> tuple[np.ndarray, np.ndarray]:
        return np.full(len(indexes), node_number[self.node], np.int32), indexes

    def preimage(self, times_of: Callable[[str], Interval]) -> Interval:
        return times_of(self.node)

    def nodes(self) -> Iterator[NodeReference]:
        yield self

    def rename(self, names: Mapping[str, str]) -> NodeReference:
        return replace(self, node=names.get(self.node, self.node))

    def plain(self) -> tuple[NodeReference, int, int]:
        return self, 0, 0

    def __str__(self) -> str:
        return self.node if self.scale == 1.0 else f"Scale({self.scale:g}, {self.node})"


@dataclass(frozen=True)
class _Operator(ForwardingDescriptor):
    """Changes the index, then looks at the source."""

    source: ForwardingDescriptor

    def nodes(self) -> Iterator[NodeReference]:
        return self.source.nodes()

    def rename(self, names: Mapping[str, str]) -> ForwardingDescriptor:
        return replace(self, source=self.source.rename(names))


@dataclass(frozen=True)
class Offset(_Operator):
    """(n, t, x) refers to (n, t + t_offset, x + x_offset) of the source."""

    t_offset: int
    x_offset: int = 0

    @property
    def arguments(self) -> tuple[Any, ...]:
        return self.source, self.t_offset, *([self.x_offset] if self.x_offset else [])

    @property
    def modulus(self) -> int:
        return self.source.modulus

    def map_to_input(self, indexes: np.ndarray, node_number: Mapping[str, int]) -> tuple[np.ndarray, np.ndarray]:
        return self.source.map_to_input(shift_indexes(indexes, self.t_offset, self.x_offset), node_number)

    def preimage(self, times_of: Callable[[str], Interval]) -> Interval:
        return self.source.preimage(times_of).shifted(self.t_offset, self.x_offset)

    def moved(self, t_offset: int, x_offset: int) -> ForwardingDescriptor:
        return self.source.moved(self.t_offset + t_offset, self.x_offset + x_offset)

    def plain(self) -> tuple[NodeReference, int, int] | None:
        inner = self.source.plain()
        return inner and (inner[0], inner[1] + self.t_offset, inner[2] + self.x_offset)


@dataclass(frozen=True)
class Switch(ForwardingDescriptor):
    """Source number t mod (number of sources), non-negative also for negative t."""

    sources: tuple[ForwardingDescriptor, ...]

    @property
    def arguments(self) -> tuple[ForwardingDescriptor, ...]:
        return self.sources

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

    def preimage(self, times_of: Callable[[str], Interval]) -> Interval:
        first, *others = (source.preimage(times_of) for source in self.sources)
        if not all(map(first.equals, others)):
            raise NotIntervalsError
        return first

    def nodes(self) -> Iterator[NodeReference]:
        for source in self.sources:
            yield from source.nodes()

    def rename(self, names: Mapping[str, str]) -> Switch:
        return Switch(tuple(source.rename(names) for source in self.sources))


@dataclass(frozen=True)
class Round(_Operator):
    """t is rounded down to a multiple of t_modulus (towards minus infinity)."""

    t_modulus: int

    @property
    def arguments(self) -> tuple[Any, ...]:
        return self.source, self.t_modulus

    @property
    def modulus(self) -> int:
        return self.t_modulus

    def map_to_input(self, indexes: np.ndarray, node_number: Mapping[str, int]) -> tuple[np.ndarray, np.ndarray]:
        mapped = indexes.copy()
        mapped[:, T] -= indexes[:, T] % self.t_modulus
        return self.source.map_to_input(mapped, node_number)

    def preimage(self, times_of: Callable[[str], Interval]) -> Interval:
        return self.source.preimage(times_of).rounded(self.t_modulus)


@dataclass(frozen=True)
class ReplaceIndex(_Operator):
    """t (or x) is replaced by a constant."""

    variable: str  # "t" or "x"
    value: int

    modulus = 1

    @property
    def arguments(self) -> tuple[Any, ...]:
        return self.source, self.variable, self.value

    def map_to_input(self, indexes: np.ndarray, node_number: Mapping[str, int]) -> tuple[np.ndarray, np.ndarray]:
        mapped = indexes.copy()
        mapped[:, T if self.variable == "t" else X] = self.value
        return self.source.map_to_input(mapped, node_number)

    def preimage(self, times_of: Callable[[str], Interval]) -> Interval:
        return self.source.preimage(times_of).replaced(self.variable, self.value)
