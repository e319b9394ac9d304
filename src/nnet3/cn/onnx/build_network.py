"""build_network: the ONNX model of a computational network."""

from __future__ import annotations

from dataclasses import dataclass, field

import onnx_ir as ir

from nnet3.cn.node import Node, StoredNode
from nnet3.cn.onnx.asked import Asked
from nnet3.cn.onnx.metadata import NetworkMetadata
from nnet3.cn.onnx.program_nodes import ProgramNodes, shortest_of_family, weight
from nnet3.cn.onnx.registry import emitted_value
from nnet3.cn.shape import SEQUENCES
from nnet3.export.build import finished
from nnet3.export.emitters import Emission
from nnet3.export.graph import GraphBuilder


def build_network(asked: Asked, about: NetworkMetadata) -> tuple[ir.Model, list[int]]:
    """Returns the model, and numbers of frames with which all of its programs run.

    Sequences are (batch, frames, rows), with as many frames as their axis has; what has one column for each sequence is
    (batch, rows), a value without samples (rows, columns). Raises ExportError for networks that have no form in ONNX.
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
        """Add a program: for one length if its samples have one, else for all."""
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
