"""The table of emitters: for each type of component or node the ONNX nodes that compute its value in test mode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import onnx_ir as ir
from torch import Tensor

from nnet3.errors import ExportError
from nnet3.export.extent import Extent, extent
from nnet3.export.family_program import growing_patterns
from nnet3.export.graph import GraphBuilder, OnnxValue
from nnet3.export.program import Arrays, TablePattern, row_patterns


@dataclass(frozen=True)
class Emission:
    """One use of a kernel: the graph for its nodes, a name, the rows and columns of the output, precomputed arrays.

    `members` has the arrays for one length, or for the first three lengths where the length is free.
    """

    graph: GraphBuilder
    name: str
    rows: Extent
    columns: int
    members: Sequence[Arrays] = ()

    def op(self, op_type: str, *inputs: ir.Value, **attributes: Any) -> ir.Value:
        return self.graph.op(op_type, *inputs, **attributes)

    def number(self, value: float) -> ir.Value:
        return self.graph.scalar(value)

    def extents(self, name: str) -> list[Any]:
        """Returns an array as nested lists, whose numbers may depend on the length."""
        first, *others = (arrays[name] for arrays in self.members)
        if not others or all(first.shape == other.shape and (first == other).all() for other in others):
            return first.tolist()
        if any(first.shape != other.shape for other in others):
            raise ExportError("how many rows it tells apart depends on the length: export a fixed chunk")
        pairs = zip(first.ravel().tolist(), others[0].ravel().tolist(), strict=True)
        grown = np.empty(first.size, object)
        grown[:] = [extent(short, long - short) for short, long in pairs]
        return grown.reshape(first.shape).tolist()

    def table(self, rows: Callable[[Arrays], np.ndarray]) -> list[TablePattern]:
        """Returns the rows that a function of the arrays names, -1 for none."""
        tables = list(map(rows, self.members))
        return row_patterns(tables[0]) if len(tables) == 1 else growing_patterns(tables)

    def weight(self, name: str, array: Callable[[], np.ndarray | Tensor]) -> ir.Value:
        """Returns a constant made of the kernel's tensors; names tell them apart."""
        return self.graph.weight(f"{self.name}.{name}", lambda: as_array(array()))

    def row(self, name: str, columns: int, vector: Callable[[], np.ndarray | Tensor]) -> OnnxValue:
        """Returns rows that are all equal to a vector of the kernel."""
        return self.graph.row(f"{self.name}.{name}", lambda: as_array(vector()), self.rows, columns)

    def blocks(self, x: ir.Value, *sizes: int) -> ir.Value:
        """Returns (batch, rows, *sizes), with one size -1 at most."""
        return self.op("Reshape", x, self.graph.integers(0, 0, *sizes))

    def joined(self, x: ir.Value) -> ir.Value:
        """Returns (batch, rows, columns) of more axes."""
        return self.blocks(x, -1)


def as_array(tensor: np.ndarray | Tensor) -> np.ndarray:
    """Returns a copy as float32."""
    array = tensor.detach().cpu().float().numpy() if isinstance(tensor, Tensor) else tensor
    return np.array(array, np.float32)


#: Adds the nodes of the kernel named in an Emission, from the values of the inputs to the value of the output.
Emitted = Callable[[Emission, Sequence[OnnxValue]], OnnxValue]
Emitter = Callable[..., OnnxValue]
TensorEmitter = Callable[..., ir.Value]

#: The emitter of each type, by the name of the type.
EMITTERS: dict[str, Emitter] = {}


def emitter(*types: str) -> Callable[[Emitter], Emitter]:
    """Registers the emitter of types: a function of an Emission, a component or node, and a value for each operand."""

    def register(function: Emitter) -> Emitter:
        EMITTERS.update(dict.fromkeys(types, function))
        return function

    return register


def row_emitter(*types: str) -> Callable[[TensorEmitter], TensorEmitter]:
    """Registers the emitter of types that treat all rows alike: a function of one tensor (batch, rows, columns)."""

    def emit_rows(function: TensorEmitter, about: Emission, kernel: Any, x: OnnxValue) -> OnnxValue:
        x = about.graph.compact(x)
        return replace(x, parts=(function(about, kernel, x.parts[0]),), widths=(about.columns,))

    return _registers(types, emit_rows)


def tensor_emitter(*types: str) -> Callable[[TensorEmitter], TensorEmitter]:
    """Registers the emitter of types: a function of a tensor (batch, rows, columns) for each operand."""

    def emit_tensors(function: TensorEmitter, about: Emission, kernel: Any, *values: OnnxValue) -> OnnxValue:
        y = function(about, kernel, *map(about.graph.whole, values))
        return about.graph.value(y, about.rows, about.columns)

    return _registers(types, emit_tensors)


def _registers(types: Sequence[str], emit: Emitter) -> Callable[[TensorEmitter], TensorEmitter]:
    def register(function: TensorEmitter) -> TensorEmitter:
        emitter(*types)(partial(emit, function))
        return function

    return register
