"""GraphBuilder: nodes, constants and weights of an ONNX graph; OnnxValue: what a matrix of a program is in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx_ir as ir

from nnet3.export.extent import Extent, base_and_slope

TO_END = 2**63 - 1


@dataclass(frozen=True)
class OnnxValue:
    """Rows of all sequences, (batch, rows, columns), as parts side by side.

    `repeats`: a part has one row only, for all rows; perhaps also one row for all sequences.
    """

    parts: tuple[ir.Value, ...]
    widths: tuple[int, ...]
    repeats: tuple[bool, ...]
    rows: Extent

    @property
    def columns(self) -> int:
        return sum(self.widths)

    @property
    def is_repeated(self) -> bool:
        return all(self.repeats)

    def selected(self, numbers: Sequence[int]) -> OnnxValue:
        """Returns some of the parts."""
        return OnnxValue(
            tuple(self.parts[i] for i in numbers),
            tuple(self.widths[i] for i in numbers),
            tuple(self.repeats[i] for i in numbers),
            self.rows,
        )


class GraphBuilder:
    """Collects nodes. Nodes with equal inputs and attributes are one node.

    `batch` is the number of sequences as a tensor (1,); `periods` likewise the k of extents, where extents depend on k.

    The body of a loop, or a branch, has a builder with a `parent`; all nodes that do not depend on the body's `inputs`
    go to the `parent`.
    """

    def __init__(self, parent: GraphBuilder | None = None, inputs: Sequence[ir.Value] = ()) -> None:
        self.tape = ir.tape.Tape()
        self._nodes: dict[Any, ir.Value] = {}
        self._constants: dict[Any, ir.Value] = {}
        self._names: set[str] = set()
        self._parent, self._own = parent, set(map(id, inputs))
        self.batch: ir.Value | None = None if parent is None else parent.batch
        self.periods: ir.Value | None = None if parent is None else parent.periods

    # ---- nodes and constants ----

    def op(self, op_type: str, *inputs: ir.Value | None, **attributes: Any) -> ir.Value:
        """Returns the only output of a node."""
        if self._parent is not None and self._own.isdisjoint(map(id, inputs)):
            return self._parent.op(op_type, *inputs, **attributes)
        key = (op_type, tuple(map(id, inputs)), repr(sorted(attributes.items())))
        if key not in self._nodes:
            value = self.tape.op(op_type, inputs, attributes)
            value.name = self.new_name(op_type.lower())
            self._nodes[key] = value
            self._own.add(id(value))
        return self._nodes[key]

    def several(
        self, op_type: str, inputs: Sequence[ir.Value | None], attributes: Mapping[str, Any], num_outputs: int
    ) -> list[ir.Value]:
        """Returns the outputs of a node with bodies."""
        values = list(self.tape.op_multi_out(op_type, inputs, attributes, num_outputs=num_outputs))
        for value in values:
            value.name = self.new_name(op_type.lower())
        self._own |= set(map(id, values))
        return values

    def integers(self, *numbers: int) -> ir.Value:
        """Returns a constant (len(numbers),)."""
        return self.constant(np.array(numbers, np.int64))

    def divided(self, number: ir.Value, by: int) -> ir.Value:
        return number if by == 1 else self.op("Div", number, self.integers(by))

    def cut(self, tensor: ir.Value, axis: int, first: int, end: int = TO_END) -> ir.Value:
        """Returns the positions [first, end) of an axis; negative positions count from the end."""
        return self.op("Slice", tensor, self.integers(first), self.integers(end), self.integers(axis))

    def scalar(self, number: float) -> ir.Value:
        """Returns a float32 constant ()."""
        return self.constant(np.array(number, np.float32))

    def constant(self, array: np.ndarray) -> ir.Value:
        """Returns a constant, held once in the graph for all uses."""
        return self._held((array.dtype.str, array.shape, array.tobytes()), lambda: array, "constant")

    def weight(self, name: str, make: Callable[[], np.ndarray]) -> ir.Value:
        """Returns the float32 constant of a name, made at the first request."""
        return self._held(name, lambda: np.ascontiguousarray(make(), np.float32), name)

    def _held(self, key: Any, make: Callable[[], np.ndarray], name: str) -> ir.Value:
        if self._parent is not None:
            return self._parent._held(key, make, name)
        if key not in self._constants:
            self._constants[key] = self.tape.initializer(ir.tensor(make()), self.new_name(name))
        return self._constants[key]

    def tensor(self, name: str, shape: Sequence[str | int], dtype: ir.DataType = ir.DataType.FLOAT) -> ir.Value:
        """Returns a new input or output of the graph; the name gets a number at the end if it is taken."""
        return ir.Value(name=self.new_name(name), type=ir.TensorType(dtype), shape=ir.Shape(shape))

    def result(self, tensor: ir.Value) -> ir.Value:
        """Returns a tensor as an output of the body of a loop or of a branch: a node of its own."""
        output = self.tape.op("Identity", [tensor])
        output.name = self.new_name("result")
        return output

    def new_name(self, name: str) -> str:
        """Returns an unused name, with a number at the end if the wanted name is taken."""
        if self._parent is not None:
            return self._parent.new_name(name)
        number, wanted = 0, name
        while name in self._names:
            number += 1
            name = f"{wanted}_{number}"
        self._names.add(name)
        return name

    def number(self, extent: Extent) -> ir.Value:
        """Returns an extent as a tensor (1,)."""
        base, slope = base_and_slope(extent)
        if slope == 0:
            return self.integers(base)
        assert self.periods is not None
        grown = self.periods if slope == 1 else self.op("Mul", self.periods, self.integers(slope))
        return grown if base == 0 else self.op("Add", grown, self.integers(base))

    # ---- sequences of any length ----

    def set_periods(self, number: ir.Value, first: int, step: int) -> None:
        """Makes `periods` the steps, at least 0, by which a number (1,) is beyond a first one."""
        beyond = self.op("Sub", number, self.integers(first))
        self.periods = self.op("Max", self.divided(beyond, step), self.integers(0))

    def last_row(self, tensor: ir.Value, times: ir.Value) -> ir.Value:
        """Returns the last row of each sequence in (batch, rows, columns), repeated `times` (1,) times."""
        one = self.integers(1)
        return self.op("Expand", self.cut(tensor, 1, -1), self.op("Concat", one, times, one, axis=0))

    # ---- values ----

    def value(self, tensor: ir.Value, rows: Extent, columns: int, repeats: bool = False) -> OnnxValue:
        return OnnxValue((tensor,), (columns,), (repeats,), rows)

    def row(self, name: str, make: Callable[[], np.ndarray], rows: Extent, columns: int) -> OnnxValue:
        """Returns rows that are all equal to a constant vector (columns,)."""
        weight = self.weight(name, lambda: make().reshape(1, 1, columns))
        return self.value(weight, rows, columns, repeats=True)

    def filled(self, number: float, rows: Extent, columns: int) -> OnnxValue:
        constant = self.constant(np.full((1, 1, columns), number, np.float32))
        return self.value(constant, rows, columns, repeats=True)

    def whole(self, value: OnnxValue) -> ir.Value:
        """Returns a value as one tensor (batch, rows, columns)."""
        assert self.batch is not None
        parts = [
            self.op("Expand", part, self._shape(value.rows, columns)) if repeats else part
            for part, columns, repeats in zip(value.parts, value.widths, value.repeats, strict=True)
        ]
        return parts[0] if len(parts) == 1 else self.op("Concat", *parts, axis=2)

    def compact(self, value: OnnxValue) -> OnnxValue:
        """Returns a value of one part; the part is repeated if all parts of the value are."""
        if len(value.parts) == 1:
            return value
        if value.is_repeated:
            one_row = self.whole(replace(value, rows=1))
            return self.value(one_row, value.rows, value.columns, repeats=True)
        return self.value(self.whole(value), value.rows, value.columns)

    def _shape(self, rows: Extent, columns: int) -> ir.Value:
        return self.op("Concat", self.batch, self.number(rows), self.integers(columns), axis=0)

    def side_by_side(self, values: Sequence[OnnxValue]) -> OnnxValue:
        """Returns values of equally many rows as one value, joined only where joined parts are needed."""
        return OnnxValue(
            tuple(part for value in values for part in value.parts),
            tuple(width for value in values for width in value.widths),
            tuple(repeats for value in values for repeats in value.repeats),
            values[0].rows,
        )

    def below_each_other(self, values: Sequence[OnnxValue]) -> OnnxValue:
        if len(values) == 1:
            return values[0]
        rows = sum((value.rows for value in values[1:]), values[0].rows)
        if all(value.is_repeated and value.parts == values[0].parts for value in values):
            return replace(values[0], rows=rows)
        return self.value(self.op("Concat", *map(self.whole, values), axis=1), rows, values[0].columns)

    def columns_of(self, value: OnnxValue, first: int, count: int) -> OnnxValue:
        """Returns the columns [first, first + count)."""
        found, start = [], 0
        for part, width, repeats in zip(value.parts, value.widths, value.repeats, strict=True):
            low, high = max(first - start, 0), min(first + count - start, width)
            if low < high:
                cut = part if high - low == width else self._slice(part, 2, low, high, width)
                found.append(self.value(cut, value.rows, high - low, repeats))
            start += width
        return self.side_by_side(found)

    def rows_of(self, value: OnnxValue, first: Extent, count: Extent, step: int = 1) -> OnnxValue:
        """Returns the rows first, first + step, ..., `count` of them; the step may be negative."""
        if first == 0 and count == value.rows and step == 1:
            return value
        stop = first + (count - 1) * step + (1 if step > 0 else -1)
        parts = tuple(
            part if repeats else self._slice(part, 1, first, stop, value.rows, step)
            for part, repeats in zip(value.parts, value.repeats, strict=True)
        )
        return replace(value, parts=parts, rows=count)

    def _slice(self, tensor: ir.Value, axis: int, first: Extent, stop: Extent, size: Extent, step: int = 1) -> ir.Value:
        """Returns a slice; what grows is said from the end where that is a plain number."""
        if step > 0:
            end = self.integers(TO_END) if stop == size else self._position(stop, size)
        else:
            end = self.integers(-TO_END) if stop == -1 else self._position(stop, size)
        return self.op("Slice", tensor, self._position(first, size), end, self.integers(axis), self.integers(step))

    def _position(self, row: Extent, size: Extent) -> ir.Value:
        from_end = 0 if isinstance(row, int) else row - size
        return self.integers(from_end) if isinstance(from_end, int) and from_end < 0 else self.number(row)

    # ---- arithmetic ----

    def combine(self, op_type: str, one: OnnxValue, other: OnnxValue) -> OnnxValue:
        """Returns an elementwise operation of two values of one shape; two repeated rows give a repeated row."""
        one, other = self.compact(one), self.compact(other)
        tensor = self.op(op_type, one.parts[0], other.parts[0])
        return self.value(tensor, one.rows, one.columns, one.is_repeated and other.is_repeated)

    def scaled(self, value: OnnxValue, factor: float) -> OnnxValue:
        if factor == 1.0:
            return value
        value = self.compact(value)
        return replace(value, parts=(self.op("Mul", value.parts[0], self.scalar(factor)),))
