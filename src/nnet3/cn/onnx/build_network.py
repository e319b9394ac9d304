"""build_network: the ONNX model of a computational network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import onnx_ir as ir

from nnet3.cn.node import Node, StoredNode
from nnet3.cn.onnx.asked import Asked
from nnet3.cn.onnx.metadata import NetworkMetadata
from nnet3.errors import ExportError
from nnet3.export.branches import ProgramBranch, one_of
from nnet3.export.build import finished
from nnet3.export.extent import Extent, extent
from nnet3.export.graph import GraphBuilder, OnnxValue
from nnet3.export.program import ExportProgram
from nnet3.export.translate import translate
from nnet3.families.continued import NotAffineError

_TO_END = 2**63 - 1


def build_network(asked: Asked, about: NetworkMetadata) -> tuple[ir.Model, list[int]]:
    """Returns the model, and numbers of frames with which all of its programs run.

    Sequences are (batch, frames, rows), values without samples (rows, columns).

    Raises ExportError for networks that have no form in ONNX.
    """
    if about.frames or not asked.sequences:
        return _Model(asked, about).of_one_length(), [about.frames]
    reason = "none of its first lengths tells"
    for frames in asked.lengths():
        try:
            model = _Model(asked, about).of_all_lengths(frames)
        except (NotAffineError, ExportError) as error:
            reason = str(error)
            continue
        return model, [*range(1, frames), *(frames + 3 * asked.step + more for more in range(asked.step))]
    raise ExportError(f"there is no program for all lengths ({reason}): say how many frames")


@dataclass
class _Model:
    """A model that is being made. `given` has the tensor of each input as the program takes it."""

    asked: Asked
    about: NetworkMetadata
    graph: GraphBuilder = field(default_factory=GraphBuilder)
    graph_inputs: list[ir.Value] = field(default_factory=list)
    graph_outputs: list[ir.Value] = field(default_factory=list)
    given: dict[Node, ir.Value] = field(default_factory=dict)

    def __post_init__(self) -> None:
        asked, graph, frames = self.asked, self.graph, self.about.frames or "frames"
        names = asked.network.names
        for node in asked.inputs:
            rows, cols = node.shape.rows, node.shape.num_cols
            shape = ["batch", abs(asked.states.get(node, 0)) or frames, rows] if cols is None else [rows, cols]
            self.graph_inputs.append(graph.tensor(names[node], shape))
            self.given[node] = self.graph_inputs[-1]
        for name, node in asked.outputs.items():
            rows, cols = node.shape.rows, node.shape.num_cols
            self.graph_outputs.append(graph.tensor(name, ["batch", frames, rows] if cols is None else [rows, cols]))
        sequences = [self.given[node] for node in asked.sequences]
        graph.batch = graph.op("Shape", sequences[0], start=0, end=1) if sequences else graph.integers(1)
        for node in asked.sequences[1:]:  # fails for other numbers of sequences or frames
            like = graph.op("Shape", sequences[0], start=0, end=2)
            wanted = graph.op("Concat", like, graph.integers(node.shape.rows), axis=0)
            self.given[node] = graph.op("Reshape", self.given[node], wanted)

    def of_one_length(self) -> ir.Model:
        frames = self.about.frames
        return self._finished(self._values(self.graph, self.asked.fixed(frames), frames, self.given))

    def of_all_lengths(self, least: int) -> ir.Model:
        """Returns the model whose family begins with so many frames. Raises NotAffineError, ExportError."""
        asked, graph, step = self.asked, self.graph, self.asked.step
        frames = graph.op("Shape", self.given[asked.sequences[0]], start=1, end=2)
        if asked.may_be_padded:
            periods = graph.op("Sub", frames, graph.integers(least + 1 - step))
            graph.periods = graph.op("Max", graph.divided(periods, step), graph.integers(0))
            total = extent(least, step)
            values = self._values(graph, asked.family(least), total, self._padded(frames, total))
            ends = [graph.integers(0), frames, graph.integers(1)]
            pairs = zip(asked.outputs.values(), values, strict=True)
            return self._finished([graph.op("Slice", x, *ends) if n.shape.has_samples else x for n, x in pairs])
        branches = [
            ProgramBranch(partial(self._has, frames, shorter), partial(self._shorter, shorter))
            for shorter in range(1, least)
        ]
        branches += [
            ProgramBranch(partial(self._has_rest, frames, first), partial(self._from, frames, first))
            for first in range(least, least + step)
        ]
        return self._finished(one_of(graph, branches, [*self.given.values(), frames]))

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
                weight = graph.op("Unsqueeze", graph.weight(names[node], partial(_numbers, node)), graph.integers(0))
                outside[names[node]] = graph.value(weight, len(node.memory), node.shape.rows)
            elif node in given and node.shape.has_samples:
                rows = abs(asked.states[node]) if node in asked.states else frames
                inputs[names[node]] = graph.value(given[node], rows, node.shape.rows)
            elif node in given:
                lying = graph.op("Unsqueeze", graph.op("Transpose", given[node], perm=[1, 0]), graph.integers(0))
                outside[names[node]] = graph.value(lying, node.shape.num_cols or 1, node.shape.rows)
        computed = translate(graph, program, self.asked.kernels, inputs, outside)
        known = {**inputs, **outside, **computed}
        return [graph.whole(known[names[node]]) for node in asked.outputs.values()]

    def _finished(self, values: Sequence[ir.Value]) -> ir.Model:
        graph, made_of = self.graph, {}
        for output, node, value in zip(self.graph_outputs, self.asked.outputs.values(), values, strict=True):
            if not node.shape.has_samples:
                value = graph.op("Transpose", graph.op("Squeeze", value, graph.integers(0)), perm=[1, 0])
            made_of[output] = value
        return finished(graph, self.graph_inputs, made_of, self.about)


def _numbers(node: StoredNode) -> np.ndarray:
    array: np.ndarray = node.memory.detach().cpu().numpy()
    return array
