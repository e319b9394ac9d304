"""The programs of a computational network as nodes of an ONNX graph, for one length or for all lengths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from nnet3.cn.node import Node, StoredNode
from nnet3.cn.onnx.asked import MOST_FRAMES, Asked
from nnet3.cn.sequence_operation_in_loop import contexts_of
from nnet3.cn.source import SEQUENCE
from nnet3.engine.families.continued import NotAffineError
from nnet3.errors import ExportError
from nnet3.export.branches import ProgramBranch, one_of
from nnet3.export.emitter_table import EMITTERS, Emission
from nnet3.export.extent import Extent, extent
from nnet3.export.graph import GraphBuilder, OnnxValue
from nnet3.export.program import ExportProgram
from nnet3.export.translate import translate


def shortest_of_family(asked: Asked) -> int:
    """Returns the least number of frames of a family for all longer sequences, found on temporary graphs.

    Raises ExportError for a network without a family.
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
    if asked.stage is None:
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
            graph.set_periods(frames, least + 1 - step, step)
            total = extent(least, step)
            values = self._values(graph, asked.family(least), total, self._padded(frames, total))
            ends = [graph.integers(0), frames, graph.integers(1)]
            pairs = zip(asked.outputs.values(), values, strict=True)
            return [graph.op("Slice", x, *ends) if n.shape.has_samples else x for n, x in pairs]
        branches = [self._of_length(number, frames) for number in range(1, least)]
        branches += [self._of_lengths(first, frames) for first in range(least, least + step)]
        return one_of(graph, branches, [*self.given.values(), *self.contexts.values(), frames])

    def _of_length(self, number: int, frames: ir.Value) -> ProgramBranch:
        return ProgramBranch(
            lambda graph: graph.op("Squeeze", graph.op("Equal", frames, graph.integers(number))),
            lambda graph: self._values(graph, self.asked.fixed(number), number, self.given),
        )

    def _of_lengths(self, first: int, frames: ir.Value) -> ProgramBranch:
        """Returns the programs for `first` frames, `step` more, ...."""
        step = self.asked.step

        def holds(graph: GraphBuilder) -> ir.Value:
            rest = graph.op("Mod", graph.op("Sub", frames, graph.integers(first)), graph.integers(step))
            return graph.op("Squeeze", graph.op("Equal", rest, graph.integers(0)))

        def make(graph: GraphBuilder) -> list[ir.Value]:
            graph.set_periods(frames, first, step)
            return self._values(graph, self.asked.family(first), extent(first, step), self.given)

        return ProgramBranch(holds, make)

    def _emit(self, about: Emission, inputs: Sequence[OnnxValue]) -> OnnxValue:
        node = self.asked.network._nodes.find(about.name)
        contexts = [about.graph.value(self.contexts[each], 0, each.shape.rows) for each in contexts_of(node)]
        return EMITTERS[node.type](about, node, *(inputs[:1] if contexts else inputs), *contexts)

    def _padded(self, frames: ir.Value, total: Extent) -> dict[Node, ir.Value]:
        """Returns the inputs with the last frame of sequences repeated at the end."""
        graph, padded = self.graph, dict(self.given)
        missing = graph.op("Sub", graph.number(total), frames)
        for node in self.asked.sequences:
            x = self.given[node]
            padded[node] = graph.op("Concat", x, graph.last_row(x, missing), axis=1)
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
        computed = translate(graph, program, self._emit, inputs, outside)
        known = {**inputs, **outside, **computed}
        return [graph.whole(known[names[node]]) for node in asked.outputs.values()]


def weight(graph: GraphBuilder, name: str, node: StoredNode) -> ir.Value:
    """Returns a parameter or statistic, (1, columns, rows)."""
    return graph.op("Unsqueeze", graph.weight(name, lambda: node.memory.detach().cpu().numpy()), graph.integers(0))
