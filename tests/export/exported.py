"""Exports networks and runs the files in onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import nnet3
from nnet3.export import OnnxMetadata
from nnet3.export.agreement import session_of
from nnet3.nnet import AcousticModel, Nnet


class Exported:
    """A model as a file, and what onnxruntime makes of frames."""

    def __init__(self, model: Nnet | AcousticModel, folder: Path, **options: Any) -> None:
        self.path = folder / "model.onnx"
        self.about: OnnxMetadata = nnet3.export_onnx(model, self.path, **options)

    def run(self, features: np.ndarray, ivectors: np.ndarray | None = None) -> dict[str, np.ndarray]:
        """Returns the outputs for features (batch, frames, dim) and ivectors (batch, dim)."""
        given = {"input": features} | ({} if ivectors is None else {"ivector": ivectors})
        names = list(self.about.output_dims)
        return dict(zip(names, session_of(self.path).run(names, given), strict=True))

    def compute(self, utterance: np.ndarray, ivectors: np.ndarray | None = None) -> np.ndarray:
        """Returns `output` for a whole utterance (frames, dim): all its chunks, each with its ivector, as one batch."""
        about, factor = self.about, self.about.frame_subsampling_factor
        total = -(-len(utterance) // factor)
        starts = np.arange(0, total, about.output_rows) * factor
        times = starts[:, np.newaxis] - about.left_context + np.arange(about.input_frames)
        chunks = utterance[times.clip(0, len(utterance) - 1)]
        return self.run(chunks, ivectors)["output"].reshape(-1, about.output_dims["output"])[:total]
