"""Kinds of values that stand in model files too: what a field of a component may be."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from nnet3.base.kaldi_io.load import load_matrix, load_vector
from nnet3.base.kaldi_io.reader import Reader
from nnet3.base.kaldi_io.writer import Writer
from nnet3.base.text import ConfigLine
from nnet3.base.text.values import ANY, Boolean, Integer, Integers, Number, Rule, Value, above, at_least, within
from nnet3.errors import ModelFormatError

_MOST_INPUTS = 100_000  # of one output; x-vectors have 10001
_MOST_FRAMES = 1 << 24


def too_wide(num_inputs: int, num_frames: int) -> str:
    """Returns why an output cannot look at `num_inputs` inputs within `num_frames`, "" if it can.

    Memory is taken for every input, so a damaged file must not ask for any number.
    """
    if num_inputs > _MOST_INPUTS or num_frames > _MOST_FRAMES:
        wide = f"{num_inputs} inputs over {num_frames} frames"
        return f"an output may look at {_MOST_INPUTS} inputs over {_MOST_FRAMES} frames at most, not {wide}"
    return ""


def read_number(reader: Reader, what: str, rule: Rule, *, integer: bool = False) -> float:
    """Returns a finite number, or an int32, that keeps a rule."""
    start = reader.position
    value = reader.int32() if integer else reader.real()
    if not np.isfinite(value) or not rule.holds(value):
        raise reader.error_at(start, f"{what} must be {rule.words or 'a finite number'}, got {value:g}")
    return value


def read_matrix(reader: Reader, what: str, rows: int | None = None, columns: int | None = None) -> Tensor:
    """Returns a float32 matrix that is not empty and has the given size."""
    start = reader.position
    matrix = reader.matrix()
    if matrix.size == 0 or (rows or matrix.shape[0], columns or matrix.shape[1]) != matrix.shape:
        wanted = f"{rows or 'rows'} x {columns or 'columns'}" if rows or columns else "a matrix that is not empty"
        raise reader.error_at(start, f"{what} must be {wanted}, got {matrix.shape[0]} x {matrix.shape[1]}")
    return torch.from_numpy(matrix)


def read_vector(reader: Reader, what: str, dim: int | None = None) -> Tensor:
    """Returns a float32 vector that is not empty and has the given dimension."""
    start = reader.position
    vector = reader.vector()
    if vector.size == 0 or vector.size != (dim or vector.size):
        wanted = f"{dim} elements" if dim else "at least one element"
        raise reader.error_at(start, f"{what} must have {wanted}, got {vector.size}")
    return torch.from_numpy(vector)


def write_matrix(writer: Writer, matrix: Tensor) -> None:
    writer.matrix(_float32(matrix))


def write_vector(writer: Writer, vector: Tensor) -> None:
    writer.vector(_float32(vector))


def _float32(tensor: Tensor) -> np.ndarray:
    return tensor.detach().to("cpu", torch.float32).numpy()


def load_matrix_key(line: ConfigLine, key: str) -> Tensor:
    """Returns the float32 matrix in the file that a config key names; ConfigError at the key if it cannot be had."""
    return _load_key(line, key, load_matrix)


def load_vector_key(line: ConfigLine, key: str) -> Tensor:
    """Returns the float32 vector in the file that a config key names; ConfigError at the key if it cannot be had."""
    return _load_key(line, key, load_vector)


def _load_key(line: ConfigLine, key: str, load: Callable[[str], np.ndarray]) -> Tensor:
    path = line.string(key)
    try:
        values = load(path)
    except ModelFormatError as error:
        raise line.error(f"cannot read {key}={path}: {error}", key) from error
    if values.size == 0:
        raise line.error(f"{key}={path} is empty", key)
    return torch.from_numpy(values)


#: The values of fields earlier in the file, by name.
Values = Mapping[str, Any]


@dataclass(frozen=True)
class Kind(Value):
    """A kind of values in config lines and files. Methods are given the key or token for their messages.

    `default` is empty or {"default": value}. Some kinds stand in files only.
    """

    kind: ClassVar[str] = "a value of a file"
    rule: Rule = field(default=ANY, kw_only=True)

    def parse(self, line: ConfigLine, key: str, default: dict[str, Any]) -> Any:
        """Returns the value of a config key. Raises ConfigError."""
        return line.value(key, self, **default)

    def read(self, text: str) -> Any:
        raise AssertionError(f"a field of kind {type(self).__name__} has no key in a config")

    def take(self, value: Any) -> Any:
        return value

    @abc.abstractmethod
    def load(self, reader: Reader, what: str, values: Values) -> Any:
        """Returns the value behind a token. Raises ModelFormatError."""

    @abc.abstractmethod
    def write(self, writer: Writer, value: Any) -> None:
        """Writes the value behind its token."""


_ONE_OR_MORE = at_least(1)


@dataclass(frozen=True)
class IntegerKind(Integer, Kind):
    """An int32."""

    def load(self, reader: Reader, what: str, values: Values) -> int:
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
class NumberKind(Number, Kind):
    """A finite float; in a file, anything if `loose`. In binary files it has 4 bytes, or 8 if `double`."""

    loose: bool = False
    double: bool = False

    def load(self, reader: Reader, what: str, values: Values) -> float:
        return reader.real() if self.loose else read_number(reader, what, self.rule)

    def write(self, writer: Writer, value: Any) -> None:
        if self.double:
            writer.double(float(value))
        else:
            writer.real(float(value))


@dataclass(frozen=True)
class IntegersKind(Integers, Kind):
    """A tuple of int32, separated by commas in a config line."""

    with_gaps: bool = True

    def load(self, reader: Reader, what: str, values: Values) -> tuple[int, ...]:
        return tuple(reader.int_vector().tolist())

    def write(self, writer: Writer, value: Any) -> None:
        writer.int_vector(value)


@dataclass(frozen=True)
class BooleanKind(Boolean, Kind):
    """A truth value, by its first letter."""

    def load(self, reader: Reader, what: str, values: Values) -> bool:
        return reader.boolean()

    def write(self, writer: Writer, value: Any) -> None:
        writer.boolean(bool(value))


@dataclass(frozen=True)
class Flag(BooleanKind):
    """A truth value, in a file its token alone, for True; use it with an `absent` of False."""

    def load(self, reader: Reader, what: str, values: Values) -> bool:
        return True

    def write(self, writer: Writer, value: Any) -> None:
        pass


@dataclass(frozen=True)
class Tally(Kind):
    """A count in a tensor without axes, so that nothing waits for a device; no config key."""

    def load(self, reader: Reader, what: str, values: Values) -> torch.Tensor:
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

    def load(self, reader: Reader, what: str, values: Values) -> torch.Tensor:
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
    """A float matrix, not empty, of the size computed by `shape` from earlier fields; without a config key."""

    shape: Callable[[Values], tuple[int | None, int | None]] = lambda values: (None, None)
    statistic: bool = False

    def load(self, reader: Reader, what: str, values: Values) -> torch.Tensor:
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
REAL, DOUBLE = NumberKind(loose=True), NumberKind(loose=True, double=True)
RATE = NumberKind(at_least(0), loose=True)
BOOLEAN, FLAG, TALLY = BooleanKind(), Flag(), Tally()
VECTOR, MATRIX = Vector(), MatrixKind()
