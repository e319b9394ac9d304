"""The table of emitters: for each component type the nodes for the forward pass of the type in test mode."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx_ir as ir
from torch import Tensor

from nnet3.components import Component
from nnet3.errors import ExportError
from nnet3.export.extent import Extent, extent
from nnet3.export.family_program import growing_patterns
from nnet3.export.graph import GraphBuilder, OnnxValue
from nnet3.export.program import Arrays, TablePattern, row_patterns
from nnet3.ir.kernel import named_part


@dataclass(frozen=True)
class Emission:
    """One use of a component: the graph for its nodes, a name, the number of output rows, precomputed arrays.

    `members` has the arrays for one length, or for the first three lengths where the length is free.
    """

    graph: GraphBuilder
    name: str
    rows: Extent
    members: Sequence[Arrays] = ()

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
        """Returns a constant made of the component's tensors; names tell them apart."""
        return self.graph.weight(f"{self.name}.{name}", lambda: as_array(array()))

    def row(self, name: str, columns: int, vector: Callable[[], Tensor]) -> OnnxValue:
        """Returns rows that are all equal to a vector of the component."""
        return self.graph.row(f"{self.name}.{name}", lambda: as_array(vector()), self.rows, columns)

    def number(self, value: float) -> ir.Value:
        return self.graph.constant(np.array(value, np.float32))

    def blocks(self, x: ir.Value, *sizes: int) -> ir.Value:
        """Returns (batch, rows, *sizes), with one size -1 at most."""
        return self.graph.op("Reshape", x, self.graph.integers(0, 0, *sizes))

    def joined(self, x: ir.Value) -> ir.Value:
        """Returns (batch, rows, columns) of more axes."""
        return self.blocks(x, -1)


def as_array(tensor: np.ndarray | Tensor) -> np.ndarray:
    """Returns a copy as float32."""
    array = tensor.detach().cpu().float().numpy() if isinstance(tensor, Tensor) else tensor
    return np.array(array, np.float32)


#: A kernel's nodes, from the values of its inputs to that of its output.
Emitted = Callable[[Emission, Sequence[OnnxValue]], OnnxValue]
Emitter = Callable[[Emission, Any, OnnxValue], OnnxValue]
RowEmitter = Callable[[Emission, Any, ir.Value], ir.Value]

EMITTERS: dict[str, Emitter] = {}


def emitter(*type_names: str) -> Callable[[Emitter], Emitter]:
    """Registers a function from the input of a component to its output."""

    def register(function: Emitter) -> Emitter:
        EMITTERS.update(dict.fromkeys(type_names, function))
        return function

    return register


def row_emitter(*type_names: str) -> Callable[[RowEmitter], RowEmitter]:
    """Registers a function of tensors (batch, rows, columns) that treats all rows alike."""

    def register(function: RowEmitter) -> RowEmitter:
        def emit_rows(about: Emission, component: Any, x: OnnxValue) -> OnnxValue:
            x = about.graph.compact(x)
            y = function(about, component, x.parts[0])
            return replace(x, parts=(y,), widths=(component.output_dim,))

        EMITTERS.update(dict.fromkeys(type_names, emit_rows))
        return function

    return register


class EmittedKernels(dict[str, Emitted]):
    """The kernels of a network, by name, and parts of them (see `nnet3.ir.kernel.part_name`)."""

    def __init__(self, components: Mapping[str, Component]) -> None:
        super().__init__({name: _emitted(component) for name, component in components.items()})
        self._components = components

    def __missing__(self, name: str) -> Emitted:
        part = named_part(name)
        if part is None:
            raise KeyError(name)
        component: Any = self._components[part[0]]
        return _emitted(component.part(*part[1:]))


def _emitted(component: Any) -> Emitted:
    def emit_inputs(about: Emission, inputs: Sequence[OnnxValue]) -> OnnxValue:
        x, *addends = inputs or [about.graph.filled(0.0, about.rows, component.input_dim)]
        y = emit(component, about, x)
        return about.graph.combine("Add", addends[0], y) if addends else y

    return emit_inputs


def emit(component: Component, about: Emission, x: OnnxValue) -> OnnxValue:
    """Returns the output of a component. Raises ExportError, with its name, if it has no form in ONNX."""
    rule = EMITTERS.get(component.type_name)
    if rule is None:
        raise ExportError(f"component '{about.name}': {component.type_name} has no form in ONNX")
    try:
        return rule(about, component, x)
    except ExportError as error:
        raise ExportError(f"component '{about.name}' of type {component.type_name}: {error}") from None
