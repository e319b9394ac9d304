"""Exports networks and runs the files in onnxruntime."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

import nnet3
from nnet3.export import OnnxMetadata
from nnet3.export.agreement import session_of
from nnet3.model.nnet import AcousticModel, Nnet


class Exported:
    """A model as a file, and what onnxruntime makes of frames."""

    def __init__(self, model: Nnet | AcousticModel, folder: Path, **options: Any) -> None:
        self.path = folder / "model.onnx"
        self.about: OnnxMetadata = nnet3.export_onnx(model, self.path, **options)

    @cached_property
    def session(self) -> onnxruntime.InferenceSession:
        return session_of(self.path)

    def run(self, features: np.ndarray, ivectors: np.ndarray | None = None) -> dict[str, np.ndarray]:
        """Returns the outputs for features (batch, frames, dim) and ivectors (batch, dim)."""
        given = {"input": features} | ({} if ivectors is None else {"ivector": ivectors})
        names = list(self.about.output_dims)
        return dict(zip(names, self.session.run(names, given), strict=True))

    def compute(self, utterance: np.ndarray, ivectors: np.ndarray | None = None) -> np.ndarray:
        """Returns `output` for a whole utterance (frames, dim): all its chunks, each with its ivector, as one batch."""
        about, factor = self.about, self.about.frame_subsampling_factor
        total = -(-len(utterance) // factor)
        starts = np.arange(0, total, about.output_rows) * factor
        times = starts[:, np.newaxis] - about.left_context + np.arange(about.input_frames)
        chunks = utterance[times.clip(0, len(utterance) - 1)]
        return self.run(chunks, ivectors)["output"].reshape(-1, about.output_dims["output"])[:total]

    # ---- streams ----

    def start(self, batch: int) -> dict[str, np.ndarray]:
        """Returns the state at the start of so many streams."""
        zeros = {name: np.zeros((batch, *shape), np.float32) for name, shape in self.about.state.items()}
        return {**zeros, "place": np.array(0)}

    def chunk(
        self, features: np.ndarray, state: dict[str, np.ndarray], ivectors: np.ndarray | None = None
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Returns the output for the next frames (batch, frames, dim) of streams, and the state after it."""
        given = {"input": features} | ({} if ivectors is None else {"ivector": ivectors})
        names = ["output", *(f"next_{name}" for name in state)]
        output, *after = self.session.run(names, {**given, **state})
        return output, dict(zip(state, after, strict=True))

    def stream(
        self, features: np.ndarray, ivectors: Callable[[int], np.ndarray | None] = lambda end: None
    ) -> np.ndarray:
        """Returns `output` for whole streams (batch, frames, dim); ivectors are by the frames that there are."""
        about, total = self.about, -(-features.shape[1] // self.about.frame_subsampling_factor)
        rows: list[np.ndarray] = []
        state, start, end = self.start(len(features)), 0, about.first_frames
        while about.output_rows * len(rows) < total:
            times = np.arange(start, end).clip(max=features.shape[1] - 1)
            output, state = self.chunk(features[:, times], state, ivectors(end))
            rows.append(output)
            start, end = end, end + about.input_frames
        return np.concatenate(rows, axis=1)[:, :total]
