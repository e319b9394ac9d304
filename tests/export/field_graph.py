"""Graphs over a finite field: an exported program computes what its program does, but for the nodes of kernels.

A kernel is one node here, which has no operator in ONNX: the random function that it is in proofs of programs
(`nnet3.engine.ir.proof`). All other nodes copy, join, scale and add elements of the field, so that nothing rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from nnet3.components import Component
from nnet3.engine.ir.commands import Propagate
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.kernel import whole_kernel
from nnet3.engine.ir.proof import field
from nnet3.engine.ir.proof.columns import Columns, ColumnSpan
from nnet3.engine.ir.proof.field import Elements
from nnet3.engine.ir.proof.program_machine import ProgramMachine
from nnet3.engine.ir.proof.randoms import Randoms
from nnet3.export.emitter_table import Emission, Emitted
from nnet3.export.graph import GraphBuilder, OnnxValue
from nnet3.export.program import ExportProgram
from nnet3.export.translate import translate

#: An element as one entry of an array, so that what moves numbers in NumPy moves elements.
ELEMENT = np.dtype([("one", np.uint64), ("other", np.uint64)])

_PROGRAM, _CALLS = 0, 1


def kernel_nodes(components: Mapping[str, Component]) -> Emitted:
    """Emits each kernel as one node."""

    def emit(about: Emission, inputs: Sequence[OnnxValue]) -> OnnxValue:
        graph, columns = about.graph, components[whole_kernel(about.name, components)].output_dim
        given = graph.number(about.rows), *map(graph.whole, inputs)
        return graph.value(graph.op("Kernel", *given, name=about.name, columns=columns), about.rows, columns)

    return emit


class EveryColumn(Columns):
    """Columns of some programs that are all cut from each other: programs are small, and graphs may cut anywhere."""

    def __init__(self, *programs: NnetComputation) -> None:
        super().__init__()
        self._programs = programs

    def num_blocks(self, space: Any) -> int:
        return self._programs[space[0]].matrices[space[1]].num_cols

    def blocks(self, span: ColumnSpan) -> slice:
        return slice(span.first, span.first + span.width)

    def first_columns(self, span: ColumnSpan) -> list[int]:
        return list(range(span.first, span.first + span.width))


def different_outputs(
    computation: NnetComputation, program: ExportProgram, components: Mapping[str, Component], periods: int = 0
) -> list[str]:
    """Returns the outputs that the graph of a program computes in another way than a computation.

    `periods`: those beyond the shortest length of which the computation is, if the program is for all lengths.
    """
    graph, given = GraphBuilder(), dict[str, OnnxValue]()
    for info in computation.inputs:
        block = program.block(info.value)
        tensor = graph.tensor(info.name, ["batch", "rows", block.columns])
        given[info.name] = graph.value(tensor, block.rows, block.columns)
        graph.batch = graph.batch or graph.op("Shape", tensor, start=0, end=1)
    graph.periods = graph.integers(periods)
    outputs = translate(graph, program, kernel_nodes(components), given)
    wanted = {name: graph.whole(value) for name, value in outputs.items()}
    evaluation = Evaluation(computation)
    for info in computation.inputs:
        whole = computation.submatrices[info.value]
        rows, columns = np.arange(whole.num_rows)[:, None], np.arange(whole.num_cols)
        drawn = field.drawn(evaluation.randoms.key("accepted", info.name, 0), rows, columns)
        evaluation.values[given[info.name].parts[0]] = _entries(drawn)[None]
    with np.errstate(over="ignore"):
        evaluation.run(graph.tape.nodes)
        plain = ProgramMachine(computation, _PROGRAM, evaluation.randoms)
        plain.run()
        found = {name: _elements(evaluation.of(tensor))[0] for name, tensor in wanted.items()}
    expected = {name: rows for (kind, name, _), rows in plain.outputs.items() if kind == "output"}
    assert found.keys() == expected.keys()
    return [name for name, rows in expected.items() if not np.array_equal(rows, found[name])]


class Evaluation:
    """The values of a graph's tensors; those of floats are arrays of elements."""

    def __init__(self, computation: NnetComputation) -> None:
        self.values: dict[ir.Value, np.ndarray] = {}
        self._calls = NnetComputation(kernels=computation.kernels, precomputed=computation.precomputed)
        self.randoms = Randoms(EveryColumn(computation, self._calls), 0)
        self._machine = ProgramMachine(self._calls, _CALLS, self.randoms)

    def of(self, value: ir.Value) -> np.ndarray:
        if value not in self.values:
            assert value.const_value is not None
            self.values[value] = _as_elements(value.const_value.numpy())
        return self.values[value]

    def run(self, nodes: Sequence[ir.Node]) -> None:
        for node in nodes:
            inputs: list[Any] = [None if value is None else self.of(value) for value in node.inputs]
            attributes = {name: attribute.value for name, attribute in node.attributes.items()}
            if node.op_type == "Loop":
                found = self._loop(attributes["body"], *inputs)
            elif node.op_type == "Kernel":
                found = [self._kernel(attributes["name"], attributes["columns"], *inputs)]
            else:
                found = [_OPERATORS[node.op_type](*inputs, **attributes)]
            self.values.update(zip(node.outputs, found, strict=True))

    def _loop(self, body: ir.Graph, count: Any, condition: None, *carried: Any) -> list[np.ndarray]:
        iterations = list[list[np.ndarray]]()
        for iteration in range(int(count)):
            self.values.update(zip(body.inputs, [np.array(iteration), np.array(True), *carried], strict=True))
            self.run(list(body))
            _, *results = map(self.of, body.outputs)
            carried = tuple(results[: len(carried)])
            iterations.append(results[len(carried) :])
        return [*carried, *map(np.stack, zip(*iterations, strict=True))]

    def _kernel(self, name: str, columns: int, rows: Any, *inputs: Any) -> np.ndarray:
        number = next(number for number, info in enumerate(self._calls.kernels) if info.name == name)
        placed = [self._calls.new_matrix(*each.shape[1:]) for each in inputs]
        output = self._calls.new_matrix(int(rows[0]), columns)
        for submatrix in (*placed, output):
            self._machine.begin(submatrix, zeroed=False)
        for submatrix, each in zip(placed, inputs, strict=True):
            self._machine.write(submatrix, _elements(each)[0])
        Propagate(number, "", tuple(placed), output).evaluate(self._machine)
        return _entries(self._machine.read(output))[None]


# ---- elements ----


def _entries(elements: Elements) -> np.ndarray:
    return np.ascontiguousarray(elements).view(ELEMENT)[..., 0]


def _elements(entries: np.ndarray) -> Elements:
    return np.ascontiguousarray(entries)[..., None].view(np.uint64)


def _as_elements(array: np.ndarray) -> np.ndarray:
    """Returns an array of floats as one of elements; integers stay integers."""
    if array.dtype != np.float32:
        return array
    numbers, places = np.unique(array, return_inverse=True)
    return _entries(np.stack([field.element(number) for number in numbers.tolist()]))[places].reshape(array.shape)


# ---- operators ----


def _arithmetic(
    of_integers: Callable[..., Any], of_elements: Callable[[Elements, Elements], Elements]
) -> Callable[..., np.ndarray]:
    def operator(one: np.ndarray, other: np.ndarray) -> np.ndarray:
        if one.dtype != ELEMENT:
            return np.asarray(of_integers(one, other))
        return _entries(of_elements(*map(_elements, np.broadcast_arrays(one, other))))

    return operator


def _slice(data: np.ndarray, starts: Any, ends: Any, axes: Any, steps: Any = (1,)) -> np.ndarray:
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        size = data.shape[axis]
        low, high = (0, size) if step > 0 else (-1, size - 1)
        start, end = (int(np.clip(place + size * (place < 0), low, high)) for place in (int(start), int(end)))
        data = np.take(data, np.arange(max(start, 0), end, step), axis)
    return data


def _reshape(data: np.ndarray, shape: np.ndarray) -> np.ndarray:
    return data.reshape([data.shape[axis] if size == 0 else size for axis, size in enumerate(shape.tolist())])


_OPERATORS: dict[str, Callable[..., np.ndarray]] = {
    "Add": _arithmetic(np.add, lambda one, other: field.reduced(one + other)),
    "Mul": _arithmetic(np.multiply, field.product),
    "Sub": _arithmetic(np.subtract, lambda one, other: field.reduced(one + field.PRIME - other)),
    "Concat": lambda *parts, axis: np.concatenate(parts, axis),
    "Expand": lambda data, shape: np.broadcast_to(data, np.broadcast_shapes(data.shape, tuple(shape))),
    "Gather": lambda data, rows, axis=0: np.take(data, rows, axis),
    "Identity": lambda data: data,
    "Range": np.arange,
    "Reshape": _reshape,
    "Shape": lambda data, start=0, end=None: np.array(data.shape[start:end]),
    "Slice": _slice,
    "Squeeze": lambda data, axes=None: np.squeeze(data, None if axes is None else tuple(axes)),
    "Transpose": lambda data, perm: np.transpose(data, perm),
    "Unsqueeze": lambda data, axes: np.expand_dims(data, tuple(axes)),
    "Where": np.where,
}
