"""Streams: a network as a graph for one chunk of a stream, with the state going in and coming out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import onnx_ir as ir

from nnet3.base.options.onnx import OnnxOptions
from nnet3.base.options.utterances import StreamOptions
from nnet3.errors import ExportError
from nnet3.export.branches import ProgramBranch, one_of
from nnet3.export.gather import rows_by_number
from nnet3.export.graph import GraphBuilder, OnnxValue
from nnet3.export.nnet.emitters import kernels_of
from nnet3.export.program import EXPORTED, FixedProgram, row_patterns
from nnet3.export.translate import translate
from nnet3.inference.stream_program import StreamChunk, StreamProgram
from nnet3.model.nnet import Nnet

PLACE, STATE, NEXT = "place", "state.", "next_"
_MOST_CHUNKS = 8


@dataclass(frozen=True)
class Streams:
    """The chunks of a stream; the graph computes the chunk at the given place.

    The state is a block of rows for each node with rows needed by a later chunk. The block is as large as the largest
    state of the node; chunks that need fewer rows take the first rows, and leave zeros behind them.
    """

    program: StreamProgram

    @property
    def first_frames(self) -> int:
        """The frames taken by the first chunk; later chunks take `frames_per_chunk` of the program."""
        return self.program.frames_until(0)

    @property
    def rows(self) -> int:
        """The rows of output of a chunk."""
        return len(self.program.chunks[0].output)

    @cached_property
    def state_shapes(self) -> dict[str, tuple[int, int]]:
        """The rows and columns of the state, by node."""
        rows: dict[str, int] = {}
        for chunk in self.program.chunks:
            for name, table in chunk.after.items():
                rows[name] = max(rows.get(name, 0), len(table))
        return {name: (count, self.program.nnet.node_dim(name)) for name, count in rows.items()}

    def sizes(self) -> dict[str, Any]:
        """Returns the sizes of a call's inputs and outputs, a part of the metadata."""
        return {
            "form": "stream",
            "left_context": 0,
            "right_context": self.program.right_context,
            "first_frames": self.first_frames,
            "input_frames": self.program.frames_per_chunk,
            "output_rows": self.rows,
            "least_rows": self.rows,
            "rows_step": 0,
            "any_length": True,
        }

    def build(
        self, graph: GraphBuilder, features: ir.Value, ivector: OnnxValue | None
    ) -> tuple[OnnxValue, list[ir.Value], dict[ir.Value, ir.Value]]:
        """Adds the nodes. Returns the output, the state's inputs, and the tensor behind each output for the state.

        `features` are (batch, frames, dim), the ivector has one row.
        """
        shapes = self.state_shapes
        inputs = {name: graph.tensor(f"{STATE}{name}", ["batch", *shape]) for name, shape in shapes.items()}
        place = graph.tensor(PLACE, [], ir.DataType.INT64)
        outputs = [graph.tensor(f"{NEXT}{x.name}", ["batch", *shapes[name]]) for name, x in inputs.items()]
        outputs.append(graph.tensor(f"{NEXT}{PLACE}", [], ir.DataType.INT64))
        state = {name: graph.value(x, *shapes[name]) for name, x in inputs.items()}
        given = _Given(features, ivector, state)
        branches = [self._branch(number, place, given) for number in range(len(self.program.chunks))]
        output, *after = one_of(graph, branches, given.tensors())
        last, again = len(self.program.chunks) - 1, len(self.program.head)
        is_last = graph.op("Equal", place, graph.constant(np.array(last)))
        one_more = graph.op("Add", place, graph.constant(np.array(1)))
        after.append(graph.op("Where", is_last, graph.constant(np.array(again)), one_more))
        rows = graph.value(output, self.rows, self.program.nnet.node_dim("output"))
        return rows, [*inputs.values(), place], dict(zip(outputs, after, strict=True))

    def _branch(self, number: int, place: ir.Value, given: _Given) -> ProgramBranch:
        return ProgramBranch(
            lambda graph: graph.op("Equal", place, graph.constant(np.array(number))),
            lambda graph: self._chunk(graph, number, given),
        )

    def _chunk(self, graph: GraphBuilder, number: int, given: _Given) -> list[ir.Value]:
        """Returns the output and the state, (batch, rows, dim), after one of the chunks."""
        program, chunk = self.program, self.program.chunks[number]
        inputs = {
            name: graph.below_each_other(
                [
                    *([graph.rows_of(given.state[name], 0, len(chunk.before[name]))] if name in chunk.before else []),
                    *(self._new(graph, name, number, given) if name in chunk.new else []),
                ]
            )
            for name in chunk.inputs
        }
        fixed = FixedProgram(program.computation(chunk, options=EXPORTED))
        values = translate(graph, fixed, kernels_of(program.nnet.components), inputs)
        return [graph.whole(values["output"]), *self._state(graph, chunk, inputs, values)]

    def _new(self, graph: GraphBuilder, name: str, number: int, given: _Given) -> list[OnnxValue]:
        """Returns the new rows of an input, after copies of the first frame in the first chunk."""
        count = len(self.program.chunks[number].new[name])
        if name == "ivector":
            assert given.ivector is not None
            return [replace(given.ivector, rows=count, repeats=(True,))]
        left, dim = self.program.left_context if number == 0 else 0, self.program.nnet.node_dim(name)
        sized = graph.op("Reshape", given.features, graph.integers(0, count - left, dim))  # fails for other numbers
        frames = graph.value(sized, count - left, dim)
        if left == 0:
            return [frames]
        return [replace(graph.rows_of(frames, 0, 1), rows=left, repeats=(True,)), frames]

    def _state(
        self, graph: GraphBuilder, chunk: StreamChunk, inputs: dict[str, OnnxValue], values: dict[str, OnnxValue]
    ) -> list[ir.Value]:
        state = []
        for name, (rows, columns) in self.state_shapes.items():
            parts = []
            if name in chunk.kept:
                parts.append(rows_by_number(graph, inputs[name], row_patterns(chunk.kept[name])))
            elif name in chunk.after:
                parts.append(values[name])
            missing = rows - len(chunk.after.get(name, ()))
            if missing:
                parts.append(graph.filled(0.0, missing, columns))
            state.append(graph.whole(graph.below_each_other(parts)))
        return state


@dataclass(frozen=True)
class _Given:
    """The inputs of a graph."""

    features: ir.Value
    ivector: OnnxValue | None
    state: dict[str, OnnxValue]

    def tensors(self) -> list[ir.Value]:
        values = [*self.state.values(), *([] if self.ivector is None else [self.ivector])]
        return [self.features, *(value.parts[0] for value in values)]


def streams_of(nnet: Nnet, options: OnnxOptions) -> Streams:
    """Returns the form for streams. Raises NetworkError, RequestError or ExportError for networks without one."""
    program = StreamProgram.of(
        nnet,
        StreamOptions(
            frame_subsampling_factor=options.frame_subsampling_factor,
            frames_per_chunk=options.frames_per_chunk,
            extra_left_context_initial=options.extra_left_context,
        ),
    )
    number, frames = len(program.chunks), program.frames_per_chunk
    if number > _MOST_CHUNKS:
        raise ExportError(
            f"a stream in chunks of {frames} frames has {number} programs, of which a file may hold {_MOST_CHUNKS}: "
            "take longer chunks, or a multiple of the periods of the network"
        )
    return Streams(program)
