"""The two forms of a file: chunks of a fixed number of frames, and whole utterances of any length."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx_ir as ir
import torch

from nnet3.base.index import indexes_at
from nnet3.base.options.onnx import OnnxOptions
from nnet3.engine.driver import compile_task
from nnet3.engine.families.continued import NotAffineError
from nnet3.engine.runtime import NnetComputer
from nnet3.errors import ExportError, RequestError
from nnet3.export.extent import Extent, extent
from nnet3.export.family_program import FamilyProgram
from nnet3.export.graph import GraphBuilder, OnnxValue
from nnet3.export.program import EXPORTED, ExportProgram, FixedProgram
from nnet3.model.nnet import Nnet
from nnet3.model.requests import ComputationRequest, IoSpecification, compile_family
from nnet3.model.structure.reach import right_reach

_ROWS_TO_TRY = (40, 80, 160, 320)  # from so many rows on it may be told how longer utterances go on
_BATCHES = (2, 1)
_MORE_PERIODS = (0, 3, 1)
_OTHER_FRAMES = (1, 2, 5)  # beyond the frames of the shortest utterance

#: The numbers of sequences and of frames, and the frames to compute.
Case = tuple[int, int, "FrameRange"]


@dataclass(frozen=True)
class FrameRange:
    """Input frames -left, ..., (rows - 1) * factor + right, and outputs at every factor-th frame from 0 on."""

    left: int
    right: int
    factor: int
    rows: int

    @property
    def frames(self) -> int:
        return self.left + (self.rows - 1) * self.factor + 1 + self.right

    def sizes(self) -> dict[str, Any]:
        """Returns the sizes of a call's inputs and outputs, a part of the metadata."""
        return {
            "form": "chunk",
            "left_context": self.left,
            "right_context": self.right,
            "input_frames": self.frames,
            "output_rows": self.rows,
            "least_rows": self.rows,
            "rows_step": 0,
            "any_length": False,
        }

    def cases(self) -> list[Case]:
        """Returns what is compared: numbers of sequences and of frames, and the range of frames to compute."""
        return [(batch, self.frames, self) for batch in _BATCHES]

    def program_of(self, nnet: Nnet, outputs: tuple[str, ...]) -> ExportProgram:
        return FixedProgram(self.computer(nnet, outputs).computation)

    def padded(self, graph: GraphBuilder, features: ir.Value, dim: int) -> tuple[OnnxValue, ir.Value | None]:
        return graph.value(features, self.frames, dim), None

    def request(self, nnet: Nnet, outputs: tuple[str, ...]) -> ComputationRequest:
        """Returns the request for one sequence, with the ivector of t = 0."""
        inputs = [IoSpecification("input", indexes_at(np.arange(self.frames) - self.left))]
        if "ivector" in nnet.input_names:
            inputs.append(IoSpecification("ivector", [(0, 0, 0)]))
        times = indexes_at(np.arange(self.rows) * self.factor)
        return ComputationRequest(inputs, [IoSpecification(name, times) for name in outputs])

    def computer(self, nnet: Nnet, outputs: tuple[str, ...]) -> NnetComputer:
        """Returns a computer for the chunk. Raises NotComputableError."""
        return NnetComputer(compile_task(self.request(nnet, outputs).task(nnet, EXPORTED)), nnet)

    def compute(
        self, nnet: Nnet, outputs: tuple[str, ...], features: np.ndarray, ivector: np.ndarray | None = None
    ) -> dict[str, torch.Tensor]:
        """Returns the outputs for frames (frames, dim); the last frame is repeated if frames are too few."""
        computer = self.computer(nnet, outputs)
        times = np.arange(self.frames).clip(0, len(features) - 1)
        computer.accept_input("input", torch.from_numpy(features[times]))
        if ivector is not None:
            computer.accept_input("ivector", torch.from_numpy(ivector[np.newaxis]))
        computer.run()
        return {name: computer.get_output(name) for name in outputs}

    def with_context(self, features: np.ndarray) -> np.ndarray:
        """Returns frames with the first one repeated for the left context."""
        return np.concatenate([np.repeat(features[:1], self.left, axis=0), features])


@dataclass(frozen=True)
class VectorRange(FrameRange):
    """So many frames of input from 0 on, and one output, at frame 0."""

    length: int = 0

    @property
    def frames(self) -> int:
        return self.length

    def sizes(self) -> dict[str, Any]:
        return super().sizes() | {"form": "vector", "least_rows": self.frames}


def range_of(nnet: Nnet, options: OnnxOptions, rows: int) -> FrameRange:
    left, right = nnet.left_context + options.extra_left_context, nnet.right_context + options.extra_right_context
    return FrameRange(left, right, options.frame_subsampling_factor, rows)


def chunk_of(nnet: Nnet, options: OnnxOptions) -> FrameRange:
    """Returns the chunk of `frames_per_chunk` frames, rounded up to what the network's rules repeat after."""
    factor = options.frame_subsampling_factor
    unit = math.lcm(factor, nnet.modulus)
    return range_of(nnet, options, -(-options.frames_per_chunk // unit) * unit // factor)


@dataclass(frozen=True)
class Utterances:
    """Utterances of any length, with `shortest.rows`, `step` more, ... rows; other lengths are made longer.

    `pads`: longer utterances make no difference to an utterance's own rows, for no row looks beyond the right context.
    """

    shortest: FrameRange
    step: int
    program: FamilyProgram
    pads: bool

    @property
    def frames(self) -> Extent:
        return extent(self.shortest.frames, self.step * self.shortest.factor)

    def at(self, rows: int) -> FrameRange:
        return replace(self.shortest, rows=rows)

    def sizes(self) -> dict[str, Any]:
        return {
            "form": "utterance",
            "left_context": 0,
            "right_context": 0,
            "input_frames": 0,
            "output_rows": 0,
            "least_rows": self.shortest.rows,
            "rows_step": self.step,
            "any_length": self.pads,
        }

    def cases(self) -> list[Case]:
        least, factor = self.shortest.rows, self.shortest.factor
        frames = [(least + more * self.step) * factor for more in _MORE_PERIODS]
        if self.pads:
            frames += [1, *(least * factor + more for more in _OTHER_FRAMES)]
        return [(1 + number % 2, each, self.at(-(-each // factor))) for number, each in enumerate(frames)]

    def program_of(self, nnet: Nnet, outputs: tuple[str, ...]) -> ExportProgram:
        return self.program

    def padded(self, graph: GraphBuilder, features: ir.Value, dim: int) -> tuple[OnnxValue, ir.Value | None]:
        """Returns the input of the program, and the number of rows wanted if it gives more, for (batch, frames, dim).

        The first and the last frame are repeated. The number of periods, k, becomes known to the graph.
        """
        shortest, step, factor = self.shortest, self.step, self.shortest.factor
        frames = graph.op("Shape", features, start=1, end=2)
        rows = graph.op("Add", frames, graph.integers(factor - 1))
        rows = graph.divided(rows, factor)
        graph.set_periods(rows, shortest.rows + 1 - step, step)
        total = graph.number(self.frames)
        after = graph.op("Sub", graph.op("Sub", total, graph.integers(shortest.left)), frames)
        after = graph.op("Max", after, graph.integers(0))
        parts = [features, graph.last_row(features, after)]
        if shortest.left:
            parts.insert(0, graph.op("Expand", graph.cut(features, 1, 0, 1), graph.integers(1, shortest.left, 1)))
        whole = graph.op("Concat", *parts, axis=1)
        if shortest.right < factor - 1:  # the last frames of all may be behind the last output
            whole = graph.op("Slice", whole, graph.integers(0), total, graph.integers(1))
        return graph.value(whole, self.frames, dim), rows


@dataclass(frozen=True)
class Vectors(Utterances):
    """Utterances of any length, with one vector computed of each; too short utterances are made longer."""

    def at(self, rows: int) -> FrameRange:
        """Returns the form for utterances of `rows` frames."""
        return replace(self.shortest, length=rows)  # type: ignore[call-arg]

    def sizes(self) -> dict[str, Any]:
        return super().sizes() | {"form": "vector", "output_rows": 1, "least_rows": self.shortest.frames}

    def cases(self) -> list[Case]:
        lengths = [self.shortest.frames + more * self.step for more in _MORE_PERIODS]
        return [(1 + number % 2, frames, self.at(frames)) for number, frames in enumerate(lengths)]

    def padded(self, graph: GraphBuilder, features: ir.Value, dim: int) -> tuple[OnnxValue, None]:
        frames = graph.op("Shape", features, start=1, end=2)
        graph.set_periods(frames, self.shortest.frames, self.step)
        behind = graph.op("Max", graph.op("Sub", graph.integers(self.shortest.frames), frames), graph.integers(0))
        whole = graph.op("Concat", features, graph.last_row(features, behind), axis=1)
        used = graph.op("Slice", whole, graph.integers(0), graph.number(self.frames), graph.integers(1))
        return graph.value(used, self.frames, dim), None


def vectors_of(nnet: Nnet, outputs: tuple[str, ...]) -> Vectors:
    """Returns the form for one vector of all frames: what three programs have in common. Raises ExportError."""
    step = nnet.modulus
    for frames in _ROWS_TO_TRY:
        members = [vector_of(nnet, (frames // step + 1 + k) * step) for k in range(3)]
        tasks = [member.request(nnet, outputs).task(nnet, EXPORTED) for member in members]
        try:
            program = FamilyProgram.of_tasks(tasks)
        except (NotAffineError, RequestError) as error:
            reason = str(error)
        else:
            return Vectors(members[0], step, program, step == 1)
    raise ExportError(f"there is no program for all lengths: {reason}; a fixed number of frames_per_chunk may do")


def vector_of(nnet: Nnet, frames: int) -> VectorRange:
    return VectorRange(0, 0, 1, 1, frames)


def utterances_of(nnet: Nnet, options: OnnxOptions, outputs: tuple[str, ...]) -> Utterances:
    """Returns the form for all lengths. Raises ExportError for networks whose programs do not go on alike."""
    unit = math.lcm(options.frame_subsampling_factor, nnet.modulus) // options.frame_subsampling_factor
    for rows in _ROWS_TO_TRY:
        try:
            compiled = compile_family(nnet, range_of(nnet, options, rows * unit).request(nnet, outputs), EXPORTED)
        except RequestError as error:
            reason = str(error)
        else:
            shortest = range_of(nnet, options, compiled.frames)
            program = FamilyProgram(compiled.family, compiled.precompute)
            return Utterances(shortest, compiled.step, program, right_reach(nnet.parts, outputs) <= shortest.right)
    raise ExportError(f"{reason}; for ONNX, a fixed number of frames_per_chunk may do")


def random_ivectors(nnet: Nnet, random: np.random.Generator, batch: int) -> dict[str, np.ndarray]:
    """Returns random ivectors for a file, if the network takes some."""
    if "ivector" not in nnet.input_names:
        return {}
    return {"ivector": random.standard_normal((batch, nnet.node_dim("ivector"))).astype(np.float32)}
