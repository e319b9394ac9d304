"""build_network: the ONNX model of a computational network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np
import onnx_ir as ir

from nnet3.cn.node import Node, StoredNode
from nnet3.cn.nodes.component import ComponentOperation
from nnet3.cn.onnx.asked import MOST_FRAMES, Asked
from nnet3.cn.onnx.metadata import NetworkMetadata
from nnet3.cn.onnx.registry import emitted_value
from nnet3.cn.operation import Operation
from nnet3.cn.shape import SEQUENCES
from nnet3.cn.source import SEQUENCE
from nnet3.cn.stepped import SteppedOperation, contexts_of
from nnet3.errors import ExportError
from nnet3.export.branches import ProgramBranch, one_of
from nnet3.export.build import finished
from nnet3.export.emitters import Emission, Emitted, emit
from nnet3.export.extent import Extent, extent
from nnet3.export.graph import GraphBuilder, OnnxValue
from nnet3.export.program import ExportProgram
from nnet3.export.translate import translate
from nnet3.families.continued import NotAffineError

_TO_END = 2**63 - 1


def shortest_of_family(asked: Asked) -> int:
    """Returns the number of frames from which one family serves all lengths, found on temporary graphs.

    Raises ExportError for a network without such a family.
    """
    reason = f"no sequence of at most {MOST_FRAMES} frames shows how longer ones go on"
    try:
        for frames in asked.lengths():
            graph = GraphBuilder()
            tensors = {node: graph.tensor("given", ["batch", "frames", node.shape.rows]) for node in asked.tensors}
            graph.batch = graph.op("Shape", tensors[asked.sequences[0]], start=0, end=1)
            given = {node: tensors[node] for node in asked.inputs}
            contexts = {node: tensors[node] for node in asked.contexts}
            try:
                ProgramNodes(asked, graph, given, contexts).of_all_lengths(frames)
            except (NotAffineError, ExportError) as error:
                reason = str(error)
            else:
                return frames
    except ExportError as error:  # of all lengths
        reason = str(error)
    raise ExportError(_refusal(asked, reason.removesuffix(": export a fixed chunk")))


def _refusal(asked: Asked, reason: str) -> str:
    names = ", ".join(f"'{name}'" for name in asked.outputs)
    refused = f"there is no program for all lengths of {names} ({reason})"
    if asked.part is None:
        return f"{refused}: give the number of frames, as frames=20, for a file of one length"
    return (
        f"{refused}, and a network with nodes of whole sequences has no file for one length: export what comes before "
        "and behind these nodes as networks of their own, with frames=..."
    )


@dataclass(frozen=True)
class ProgramNodes:
    """A program in a graph: `given` has the tensor of each input, `contexts` the tensors of contexts of nodes in loops.

    Tensors are (batch, frames, rows), or (1, columns, rows) for values without samples.
    """

    asked: Asked
    graph: GraphBuilder
    given: Mapping[Node, ir.Value]
    contexts: Mapping[Node, ir.Value]

    def of_one_length(self, frames: int) -> list[ir.Value]:
        return self._values(self.graph, self.asked.fixed(frames), frames, self.given)

    def of_all_lengths(self, least: int) -> list[ir.Value]:
        """Returns the outputs by a family that begins with `least` frames. Raises NotAffineError, ExportError."""
        asked, graph, step = self.asked, self.graph, self.asked.step
        frames = graph.op("Shape", self.given[asked.sequences[0]], start=1, end=2)
        if asked.may_be_padded:
            periods = graph.op("Sub", frames, graph.integers(least + 1 - step))
            graph.periods = graph.op("Max", graph.divided(periods, step), graph.integers(0))
            total = extent(least, step)
            values = self._values(graph, asked.family(least), total, self._padded(frames, total))
            ends = [graph.integers(0), frames, graph.integers(1)]
            pairs = zip(asked.outputs.values(), values, strict=True)
            return [graph.op("Slice", x, *ends) if n.shape.has_samples else x for n, x in pairs]
        branches = [
            ProgramBranch(partial(self._has, frames, shorter), partial(self._shorter, shorter))
            for shorter in range(1, least)
        ]
        branches += [
            ProgramBranch(partial(self._has_rest, frames, first), partial(self._from, frames, first))
            for first in range(least, least + step)
        ]
        return one_of(graph, branches, [*self.given.values(), *self.contexts.values(), frames])

    @cached_property
    def _kernels(self) -> dict[str, Emitted]:
        """The kernels, by name."""
        source = self.asked.program(1).source
        return {source.names[node]: self._emitted(node, operation) for node, operation in source.operations.items()}

    def _emitted(self, node: Node, operation: Operation) -> Emitted:
        def emit_node(about: Emission, inputs: Sequence[OnnxValue]) -> OnnxValue:
            if isinstance(operation, ComponentOperation):
                return emit(operation.component, about, inputs[0])
            given = [about.graph.whole(value) for value in inputs]
            if isinstance(operation, SteppedOperation):
                given[1:] = [self.contexts[context] for context in contexts_of(node)]
            y = emitted_value(about, node, given)
            return about.graph.value(y, about.rows, node.shape.rows)

        return emit_node

    def _has(self, frames: ir.Value, number: int, graph: GraphBuilder) -> ir.Value:
        return graph.op("Squeeze", graph.op("Equal", frames, graph.integers(number)))

    def _has_rest(self, frames: ir.Value, first: int, graph: GraphBuilder) -> ir.Value:
        """Returns whether the frames beyond the first ones are a multiple of the step."""
        rest = graph.op("Mod", graph.op("Sub", frames, graph.integers(first)), graph.integers(self.asked.step))
        return self._has(rest, 0, graph)

    def _shorter(self, frames: int, graph: GraphBuilder) -> list[ir.Value]:
        return self._values(graph, self.asked.fixed(frames), frames, self.given)

    def _from(self, frames: ir.Value, first: int, graph: GraphBuilder) -> list[ir.Value]:
        graph.periods = graph.divided(graph.op("Sub", frames, graph.integers(first)), self.asked.step)
        return self._values(graph, self.asked.family(first), extent(first, self.asked.step), self.given)

    def _padded(self, frames: ir.Value, total: Extent) -> dict[Node, ir.Value]:
        """Returns the inputs with the last frame of sequences repeated at the end."""
        graph, padded = self.graph, dict(self.given)
        one = graph.integers(1)
        copies = graph.op("Concat", one, graph.op("Sub", graph.number(total), frames), one, axis=0)
        for node in self.asked.sequences:
            features = self.given[node]
            last = graph.op("Slice", features, graph.integers(-1), graph.integers(_TO_END), one)
            padded[node] = graph.op("Concat", features, graph.op("Expand", last, copies), axis=1)
        return padded

    def _values(
        self, graph: GraphBuilder, program: ExportProgram, frames: Extent, given: Mapping[Node, ir.Value]
    ) -> list[ir.Value]:
        """Returns the outputs, (batch, frames, rows) or (1, columns, rows)."""
        asked, names = self.asked, self.asked.network.names
        inputs: dict[str, OnnxValue] = {}
        outside: dict[str, OnnxValue] = {}
        for node in asked.nodes:
            if isinstance(node, StoredNode):
                outside[names[node]] = graph.value(weight(graph, names[node], node), len(node.memory), node.shape.rows)
            elif node in given and node.shape.has_samples:
                rows = abs(asked.states[node]) if node in asked.states else frames
                inputs[names[node]] = graph.value(given[node], rows, node.shape.rows)
            elif node in given:
                outside[names[node]] = graph.value(given[node], node.shape.num_cols or 1, node.shape.rows)
        if self.contexts:
            inputs[SEQUENCE] = graph.filled(0.0, frames, 1)  # sequences lie side by side, and need no number
        computed = translate(graph, program, self._kernels, inputs, outside)
        known = {**inputs, **outside, **computed}
        return [graph.whole(known[names[node]]) for node in asked.outputs.values()]


def weight(graph: GraphBuilder, name: str, node: StoredNode) -> ir.Value:
    """Returns a parameter or statistic, (1, columns, rows)."""
    return graph.op("Unsqueeze", graph.weight(name, partial(_numbers, node)), graph.integers(0))


def _numbers(node: StoredNode) -> np.ndarray:
    array: np.ndarray = node.memory.detach().cpu().numpy()
    return array


def build_network(asked: Asked, about: NetworkMetadata) -> tuple[ir.Model, list[int]]:
    """Returns the model, and numbers of frames with which all of its programs run.

    Sequences are (batch, frames, rows), with the frames of their axis; a value with one column a sequence is
    (batch, rows), a value without samples (rows, columns). Raises ExportError for networks without a form in ONNX.
    """
    model = _Model(asked, about)
    for part in asked.parts():
        if isinstance(part, Node):
            model.add_whole(part)
        else:
            model.add_program(part)
    return model.finished(), sorted(model.lengths)


@dataclass
class _Model:
    """A model that is being made. `values`: tensors, (batch, frames, rows) or (1, columns, rows)."""

    asked: Asked
    about: NetworkMetadata
    graph: GraphBuilder = field(default_factory=GraphBuilder)
    graph_inputs: list[ir.Value] = field(default_factory=list)
    graph_outputs: list[ir.Value] = field(default_factory=list)
    values: dict[Node, ir.Value] = field(default_factory=dict)
    lengths: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        asked, graph, names = self.asked, self.graph, self.asked.network.names
        self.graph_inputs = [graph.tensor(names[node], self._shape(node)) for node in asked.inputs]
        self.graph_outputs = [graph.tensor(name, self._shape(node)) for name, node in asked.outputs.items()]
        for node, tensor in zip(asked.inputs, self.graph_inputs, strict=True):
            if not node.shape.has_samples:
                tensor = graph.op("Unsqueeze", graph.op("Transpose", tensor, perm=[1, 0]), graph.integers(0))
            elif node.shape.axis == SEQUENCES:
                tensor = graph.op("Unsqueeze", tensor, graph.integers(1))
            self.values[node] = tensor
        clocks: dict[str, ir.Value] = {}
        for node in asked.sequences:
            clocks.setdefault(node.shape.axis, self.values[node])
        graph.batch = graph.integers(1)
        if clocks:
            graph.batch = graph.op("Shape", next(iter(clocks.values())), start=0, end=1)
        for node in asked.sequences:  # fails for other numbers of sequences or frames
            clock = clocks[node.shape.axis]
            if self.values[node] is not clock:
                like = graph.op("Shape", clock, start=1, end=2)
                wanted = graph.op("Concat", graph.batch, like, graph.integers(node.shape.rows), axis=0)
                self.values[node] = graph.op("Reshape", self.values[node], wanted)

    def _shape(self, node: Node) -> list[str | int]:
        rows, axis = node.shape.rows, node.shape.axis
        if not node.shape.has_samples:
            return [rows, node.shape.num_cols or 1]
        if axis == SEQUENCES:
            return ["batch", rows]
        frames = f"{axis}_frames" if axis else self.about.frames or "frames"
        return ["batch", abs(self.asked.states.get(node, 0)) or frames, rows]

    def _value(self, node: Node) -> ir.Value:
        if isinstance(node, StoredNode):
            return weight(self.graph, self.asked.network.names[node], node)
        return self.values[node]

    def add_whole(self, node: Node) -> None:
        """Add a node of whole sequences."""
        about = Emission(self.graph, self.asked.network.names[node], 0)
        self.values[node] = emitted_value(about, node, [self._value(operand) for operand in node.operands])

    def add_program(self, part: Asked) -> None:
        """Add a program: for one length if the samples have a fixed length, else for all lengths."""
        given = {node: self.values[node] for node in part.inputs}
        program = ProgramNodes(part, self.graph, given, {node: self._value(node) for node in part.contexts})
        axis = part.sequences[0].shape.axis if part.sequences else None
        frames = self.about.frames or (None if axis not in (None, SEQUENCES) else int(axis is not None))
        if frames is not None:
            found = program.of_one_length(frames)
            self.lengths |= {frames} if not self.asked.is_staged else {1}
        else:
            least = shortest_of_family(part)
            found = program.of_all_lengths(least)
            self.lengths |= {*range(1, least), *(least + 3 * part.step + more for more in range(part.step))}
        self.values.update(zip(part.outputs.values(), found, strict=True))

    def finished(self) -> ir.Model:
        graph, made_of = self.graph, {}
        for output, node in zip(self.graph_outputs, self.asked.outputs.values(), strict=True):
            value = self._value(node)
            if not node.shape.has_samples:
                value = graph.op("Transpose", graph.op("Squeeze", value, graph.integers(0)), perm=[1, 0])
            elif node.shape.axis == SEQUENCES:
                value = graph.op("Squeeze", value, graph.integers(1))
            made_of[output] = value
        return finished(graph, self.graph_inputs, made_of, self.about)
