"""Source: what a file is fed with, frames of features or (`wave.py`) samples of audio."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import onnx_ir as ir

from nnet3.export.forms import FrameRange, Utterances
from nnet3.export.graph import GraphBuilder
from nnet3.export.streams import Streams

Form = FrameRange | Utterances | Streams
Given = dict[str, np.ndarray]


class Fed(NamedTuple):
    """The features (batch, frames, dim), the graph's inputs for them, the tensor behind each output of the state."""

    features: ir.Value
    inputs: list[ir.Value]
    after: dict[ir.Value, ir.Value]


class Source(Protocol):
    """Inputs of a file that stand for frames of features.

    `sizes` are metadata; `state` has the shapes of the state, by the name of the input. `random_input` returns random
    inputs for so many frames, and the features (batch, frames, dim) behind the inputs; `random_streams` yields inputs
    and features for each call of streams.
    """

    def sizes(self, form: Form) -> dict[str, Any]: ...

    def state(self, form: Form) -> dict[str, tuple[int, ...]]: ...

    def feed(self, graph: GraphBuilder, form: Form) -> Fed: ...

    def random_input(
        self, random: np.random.Generator, form: Form, batch: int, frames: int
    ) -> tuple[Given, np.ndarray]: ...

    def random_streams(
        self, random: np.random.Generator, form: Streams, batch: int, calls: int
    ) -> Iterator[tuple[Given, np.ndarray]]: ...


@dataclass(frozen=True)
class FeatureRows:
    """Features (batch, frames, dim)."""

    dim: int

    def sizes(self, form: Form) -> dict[str, Any]:
        return {}

    def state(self, form: Form) -> dict[str, tuple[int, ...]]:
        return {}

    def feed(self, graph: GraphBuilder, form: Form) -> Fed:
        frames = form.frames if isinstance(form, FrameRange) else "frames"
        features = graph.tensor("input", ["batch", frames, self.dim])
        return Fed(features, [features], {})

    def random_input(
        self, random: np.random.Generator, form: Form, batch: int, frames: int
    ) -> tuple[Given, np.ndarray]:
        features = random.standard_normal((batch, frames, self.dim)).astype(np.float32)
        return {"input": features}, features

    def random_streams(
        self, random: np.random.Generator, form: Streams, batch: int, calls: int
    ) -> Iterator[tuple[Given, np.ndarray]]:
        for call in range(calls):
            frames = form.program.frames_per_chunk if call else form.first_frames
            yield self.random_input(random, form, batch, frames)
