"""Source: what a file is fed with, frames of features or (`wave.py`) samples of audio."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import onnx_ir as ir

from nnet3.export.graph import GraphBuilder
from nnet3.export.nnet.file_forms import FrameRange, Utterances
from nnet3.export.nnet.streams import Streams

Form = FrameRange | Utterances | Streams
Given = dict[str, np.ndarray]


class Fed(NamedTuple):
    """The features (batch, frames, dim), the graph's inputs for them, the tensor behind each output of the state."""

    features: ir.Value
    inputs: list[ir.Value]
    after: dict[ir.Value, ir.Value]


@dataclass(frozen=True)
class Source:
    """Inputs of a file: features (batch, frames, dim), or in a subclass tensors that stand for features."""

    dim: int

    def sizes(self, form: Form) -> dict[str, Any]:
        """Returns what the metadata say of the inputs."""
        return {}

    def state(self, form: Form) -> dict[str, tuple[int, ...]]:
        """Returns the shapes of the state of a stream, by the name of the input."""
        return {}

    def feed(self, graph: GraphBuilder, form: Form) -> Fed:
        frames = form.frames if isinstance(form, FrameRange) else "frames"
        features = graph.tensor("input", ["batch", frames, self.dim])
        return Fed(features, [features], {})

    def random_input(
        self, random: np.random.Generator, form: Form, batch: int, frames: int
    ) -> tuple[Given, np.ndarray]:
        """Returns random inputs for `frames` frames, and the features (batch, frames, dim) behind the inputs."""
        features = random.standard_normal((batch, frames, self.dim)).astype(np.float32)
        return {"input": features}, features

    def random_streams(
        self, random: np.random.Generator, form: Streams, batch: int, calls: int
    ) -> Iterator[tuple[Given, np.ndarray]]:
        """Yields random inputs and the features behind them for each call of streams."""
        for call in range(calls):
            frames = form.program.frames_per_chunk if call else form.first_frames
            yield self.random_input(random, form, batch, frames)
