"""ProgramNodes: the ONNX nodes of a program of a computational network, for one length or for all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import onnx_ir as ir

from nnet3.cn.node import Node, StoredNode
from nnet3.cn.nodes.component import ComponentOperation
from nnet3.cn.onnx.asked import Asked
from nnet3.cn.onnx.registry import emitted_value
from nnet3.cn.operation import Operation
from nnet3.cn.source import SEQUENCE
from nnet3.cn.stepped import SteppedOperation, contexts_of
from nnet3.errors import ExportError
from nnet3.export.branches import ProgramBranch, one_of
from nnet3.export.emitters import Emission, Emitted, emit
from nnet3.export.extent import Extent, extent
from nnet3.export.graph import GraphBuilder, OnnxValue
from nnet3.export.program import ExportProgram
from nnet3.export.translate import translate
from nnet3.families.continued import NotAffineError

_TO_END = 2**63 - 1


def shortest_of_family(asked: Asked) -> int:
    """Returns the frames from which one family serves all lengths, found on graphs that are thrown away.

    Raises ExportError if there is none.
    """
    reason = "none of its first lengths tells"
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
    raise ExportError(f"there is no program for all lengths ({reason}): say how many frames")


@dataclass(frozen=True)
class ProgramNodes:
    """A program in a graph: `given` has the tensor of each input, `contexts` those of what nodes in loops read whole.

    Tensors are (batch, frames, rows), those of values without samples (1, columns, rows).
    """

    asked: Asked
    graph: GraphBuilder
    given: Mapping[Node, ir.Value]
    contexts: Mapping[Node, ir.Value]

    def of_one_length(self, frames: int) -> list[ir.Value]:
        return self._values(self.graph, self.asked.fixed(frames), frames, self.given)

    def of_all_lengths(self, least: int) -> list[ir.Value]:
        """Returns the outputs by a family that begins with so many frames. Raises NotAffineError, ExportError."""
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
