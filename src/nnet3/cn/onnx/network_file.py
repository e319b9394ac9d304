"""NetworkFile: a computational network as the contents of an ONNX file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime

from nnet3.cn.network import Network
from nnet3.cn.node import Node, StoredNode
from nnet3.cn.onnx.asked import Asked
from nnet3.cn.onnx.build_network import ProgramNodes, shortest_of_family, weight
from nnet3.cn.samples import Sequences
from nnet3.cn.shape import SEQUENCES
from nnet3.export.agreement import Pair
from nnet3.export.emitter_table import EMITTERS, Emission
from nnet3.export.graph import GraphBuilder
from nnet3.export.metadata import NetworkMetadata

_BATCHES = (2, 1)


@dataclass
class NetworkFile:
    """What is asked of a network, and a copy of the network to compare with.

    `values` are the tensors of a graph, (batch, frames, rows) or (1, columns, rows); `lengths` numbers of frames with
    which all programs of the graph run.
    """

    asked: Asked
    copy: Network
    about: NetworkMetadata
    values: dict[Node, ir.Value] = field(default_factory=dict)
    lengths: set[int] = field(default_factory=set)

    def build(self, graph: GraphBuilder) -> tuple[list[ir.Value], dict[ir.Value, ir.Value]]:
        """Inputs and outputs are (batch, frames, rows), with the frames of their axis; (batch, rows) with one column a
        sequence; (rows, columns) without samples.

        Raises ExportError for networks without a form in ONNX.
        """
        asked, names = self.asked, self.asked.network.names
        inputs = [graph.tensor(names[node], self._shape(node)) for node in asked.inputs]
        outputs = [graph.tensor(name, self._shape(node)) for name, node in asked.outputs.items()]
        for node, tensor in zip(asked.inputs, inputs, strict=True):
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
        for stage in asked.stages():
            if isinstance(stage, Node):
                self._add_whole(graph, stage)
            else:
                self._add_program(graph, stage)
        made_of = {}
        for output, node in zip(outputs, asked.outputs.values(), strict=True):
            value = self._value(graph, node)
            if not node.shape.has_samples:
                value = graph.op("Transpose", graph.op("Squeeze", value, graph.integers(0)), perm=[1, 0])
            elif node.shape.axis == SEQUENCES:
                value = graph.op("Squeeze", value, graph.integers(1))
            made_of[output] = value
        return inputs, made_of

    def _shape(self, node: Node) -> list[str | int]:
        rows, axis = node.shape.rows, node.shape.axis
        if not node.shape.has_samples:
            return [rows, node.shape.num_cols or 1]
        if axis == SEQUENCES:
            return ["batch", rows]
        frames = f"{axis}_frames" if axis else self.about.frames or "frames"
        return ["batch", abs(self.asked.states.get(node, 0)) or frames, rows]

    def _value(self, graph: GraphBuilder, node: Node) -> ir.Value:
        if isinstance(node, StoredNode):
            return weight(graph, self.asked.network.names[node], node)
        return self.values[node]

    def _add_whole(self, graph: GraphBuilder, node: Node) -> None:
        """Adds a node of whole sequences."""
        about = Emission(graph, self.asked.network.names[node], 0, node.shape.rows)
        operands = [graph.value(self._value(graph, each), 0, each.shape.rows) for each in node.operands]
        self.values[node] = graph.whole(EMITTERS[node.type](about, node, *operands))

    def _add_program(self, graph: GraphBuilder, stage: Asked) -> None:
        """Adds a program: for one length if the samples have a fixed length, else for all lengths."""
        given = {node: self.values[node] for node in stage.inputs}
        program = ProgramNodes(stage, graph, given, {node: self._value(graph, node) for node in stage.contexts})
        axis = stage.sequences[0].shape.axis if stage.sequences else None
        frames = self.about.frames or (None if axis not in (None, SEQUENCES) else int(axis is not None))
        if frames is not None:
            found = program.of_one_length(frames)
            self.lengths |= {frames} if not self.asked.is_staged else {1}
        else:
            least = shortest_of_family(stage)
            found = program.of_all_lengths(least)
            self.lengths |= {*range(1, least), *(least + 3 * stage.step + more for more in range(stage.step))}
        self.values.update(zip(stage.outputs.values(), found, strict=True))

    # ---- comparison ----

    def compare(self, session: onnxruntime.InferenceSession) -> Iterator[Pair]:
        """Values that are no numbers must stand at the same places."""
        asked, network, names = self.asked, self.copy, self.asked.network.names
        wanted = [network._nodes.find(names[node]) for node in asked.outputs.values()]
        random = np.random.default_rng(0)
        for frames in sorted(self.lengths):
            for batch in _BATCHES:
                given = self._random_inputs(random, batch, frames)
                found = session.run(list(asked.outputs), {names[node]: array for node, array in given.items()})
                inputs = {names[node]: self._as_given(node, array) for node, array in given.items()}
                for (name, node), ours, value in zip(
                    asked.outputs.items(), found, network.evaluate(wanted, inputs), strict=True
                ):
                    theirs = self._as_in_file(node, value)
                    known = np.isfinite(theirs)
                    if ours.shape == theirs.shape and np.array_equal(np.isfinite(ours), known):
                        ours, theirs = (np.where(known, each, 0.0) for each in (ours, theirs))
                    yield name, ours, theirs

    def _random_inputs(self, random: np.random.Generator, batch: int, frames: int) -> dict[Node, np.ndarray]:
        """Returns inputs of a file; one sequence has positive numbers, for functions of positive numbers alone."""
        found = {}
        for node in self.asked.inputs:
            rows, axis = node.shape.rows, node.shape.axis
            shape: tuple[int, ...] = (rows, node.shape.num_cols or 1)
            if axis == SEQUENCES:
                shape = (batch, rows)
            elif node.shape.has_samples:  # other axes have other lengths
                shape = (batch, abs(self.asked.states.get(node, frames + len(axis))), rows)
            classes = node.operation.options().get("classes")
            if classes is not None:
                array: np.ndarray = random.integers(0, classes, shape)
            else:
                array = random.standard_normal(shape) if batch > 1 else random.random(shape)
            found[node] = array.astype(np.float32)
        return found

    def _as_given(self, node: Node, array: np.ndarray) -> Any:
        """Returns an input of a file as `evaluate` takes the input."""
        if node.shape.axis == SEQUENCES:
            return self.copy.turned(array.T)
        return Sequences(list(array.transpose(0, 2, 1))) if node.shape.has_samples else array

    def _as_in_file(self, node: Node, value: Any) -> np.ndarray:
        """Returns a value of `evaluate` as a file gives the value."""
        if node.shape.axis == SEQUENCES:
            return self.copy.turned(value).T
        if node.shape.has_samples:
            return np.stack([part.T for part in self.copy.turned(value)])
        return np.atleast_2d(value)
