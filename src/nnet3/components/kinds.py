"""Kinds of values that fields of components have: how each is read from a config line and a file, and written."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from nnet3.components.fields import read_matrix, read_number, read_vector, write_matrix, write_vector
from nnet3.kaldi_io import Reader, Writer
from nnet3.text import ConfigLine, values
from nnet3.text.values import ANY, Rule, above, at_least, within

#: What fields that stand earlier in the file gave, by name.
Values = Mapping[str, Any]


class Kind(abc.ABC):
    """Each method is given the token or key for its messages; `default` is empty or {"default": value}."""

    def parse(self, line: ConfigLine, key: str, default: dict[str, Any]) -> Any:
        """The value of a config key. Raises ConfigError. Some kinds stand in files only."""
        raise AssertionError(f"a field of kind {type(self).__name__} has no key in a config")

    @abc.abstractmethod
    def read(self, reader: Reader, what: str, values: Values) -> Any:
        """The value behind a token. Raises ModelFormatError."""

    @abc.abstractmethod
    def write(self, writer: Writer, value: Any) -> None:
        """Write the value behind its token."""


_ONE_OR_MORE = at_least(1)


@dataclass(frozen=True)
class IntegerKind(Kind):
    """An int32."""

    rule: Rule = ANY

    def parse(self, line: ConfigLine, key: str, default: dict[str, Any]) -> int:
        value: int = line.value(key, values.Integer(self.rule), **default)
        return value

    def read(self, reader: Reader, what: str, values: Values) -> int:
        return int(read_number(reader, what, self.rule, integer=True))

    def write(self, writer: Writer, value: Any) -> None:
        writer.int32(int(value))


@dataclass(frozen=True)
class Rank(IntegerKind):
    """A rank of natural gradient: in a config a negative number is the default, which the constructor sets."""

    rule: Rule = _ONE_OR_MORE

    def parse(self, line: ConfigLine, key: str, default: dict[str, Any]) -> Any:
        value = line.integer(key, -1)
        if value == 0:
            raise line.error(f"'{key}' must be positive, or negative for the default", key)
        return value if value > 0 else None


@dataclass(frozen=True)
class NumberKind(Kind):
    """A finite float; in a file, anything unless `checked`. In binary files it has 4 bytes, or 8 if `double`."""

    rule: Rule = ANY
    checked: bool = True
    double: bool = False

    def parse(self, line: ConfigLine, key: str, default: dict[str, Any]) -> float:
        value: float = line.value(key, values.Number(self.rule), **default)
        return value

    def read(self, reader: Reader, what: str, values: Values) -> float:
        return read_number(reader, what, self.rule) if self.checked else reader.real()

    def write(self, writer: Writer, value: Any) -> None:
        if self.double:
            writer.double(float(value))
        else:
            writer.real(float(value))


@dataclass(frozen=True)
class IntegersKind(Kind):
    """A tuple of int32, separated by commas in a config line."""

    def parse(self, line: ConfigLine, key: str, default: dict[str, Any]) -> tuple[int, ...]:
        return tuple(line.integers(key, **default, separators=","))

    def read(self, reader: Reader, what: str, values: Values) -> tuple[int, ...]:
        return tuple(reader.int_vector().tolist())

    def write(self, writer: Writer, value: Any) -> None:
        writer.int_vector(value)


@dataclass(frozen=True)
class BooleanKind(Kind):
    def parse(self, line: ConfigLine, key: str, default: dict[str, Any]) -> bool:
        return line.boolean(key, **default)

    def read(self, reader: Reader, what: str, values: Values) -> bool:
        return reader.boolean()

    def write(self, writer: Writer, value: Any) -> None:
        writer.boolean(bool(value))


@dataclass(frozen=True)
class Flag(BooleanKind):
    """A truth value that is its token alone in a file, for True; use it with an `absent` of False."""

    def read(self, reader: Reader, what: str, values: Values) -> bool:
        return True

    def write(self, writer: Writer, value: Any) -> None:
        pass


@dataclass(frozen=True)
class Tally(Kind):
    """A count in a tensor without axes, so that nothing waits for a device; no config key."""

    def read(self, reader: Reader, what: str, values: Values) -> torch.Tensor:
        return torch.tensor(reader.real(), dtype=torch.float64)

    def write(self, writer: Writer, value: Any) -> None:
        writer.double(float(value))


@dataclass(frozen=True)
class Vector(Kind):
    """A float vector that is not empty, of the dimension that `dim` finds from the fields before it; no config key.

    float32, or (a statistic) float64, which may be empty if `may_be_empty` and has 4 bytes an element in binary files
    unless `double`.
    """

    dim: Callable[[Values], int] | None = None
    statistic: bool = False
    may_be_empty: bool = False
    double: bool = False

    def read(self, reader: Reader, what: str, values: Values) -> torch.Tensor:
        dim = None if self.dim is None else self.dim(values)
        if not self.statistic and not self.may_be_empty:
            return read_vector(reader, what, dim)
        start = reader.position
        vector = reader.vector(np.float64 if self.statistic else np.float32)
        if dim is not None and vector.size != dim and (vector.size > 0 or not self.may_be_empty):
            wanted = f"0 or {dim}" if self.may_be_empty else str(dim)
            raise reader.error_at(start, f"{what} must have {wanted} elements, got {vector.size}")
        return torch.from_numpy(vector)

    def write(self, writer: Writer, value: Any) -> None:
        if self.double:
            writer.vector(value.cpu(), double=True)
        else:
            write_vector(writer, value)


@dataclass(frozen=True)
class MatrixKind(Kind):
    """A float matrix that is not empty, of the size that `shape` finds from the fields before it; no config key."""

    shape: Callable[[Values], tuple[int | None, int | None]] = lambda values: (None, None)
    statistic: bool = False

    def read(self, reader: Reader, what: str, values: Values) -> torch.Tensor:
        matrix = read_matrix(reader, what, *self.shape(values))
        return matrix.double() if self.statistic else matrix

    def write(self, writer: Writer, value: Any) -> None:
        write_matrix(writer, value)


SIZE, COUNT, INTEGER, RANK_OR_DEFAULT = IntegerKind(at_least(1)), IntegerKind(at_least(0)), IntegerKind(), Rank()
NUMBER, POSITIVE, FINITE, PROPORTION = (
    NumberKind(at_least(0)),
    NumberKind(above(0)),
    NumberKind(),
    NumberKind(within(0, 1)),
)
REAL, DOUBLE = NumberKind(checked=False), NumberKind(checked=False, double=True)
RATE = NumberKind(at_least(0), checked=False)
BOOLEAN, FLAG, TALLY = BooleanKind(), Flag(), Tally()
VECTOR, MATRIX = Vector(), MatrixKind()
