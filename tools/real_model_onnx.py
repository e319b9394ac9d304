"""A deployed model as ONNX files of all forms, in stock onnxruntime, on the features of sentences."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import nnet3
from nnet3.export import OnnxMetadata
from nnet3.export.agreement import session_of

FACTOR, CHUNK = 3, 21
TOLERANCE = {"none": 1e-4, "fp16": 5e-3}
FORMS: tuple[dict[str, Any], ...] = (
    {},
    {"frames_per_chunk": 150},
    {"frames_per_chunk": CHUNK, "streaming": True},
    {"frames_per_chunk": 150, "quantize": "fp16"},
    {"frames_per_chunk": 150, "quantize": "int8"},
)


def compare_onnx(
    am: nnet3.AcousticModel, utterances: Sequence[Tensor], folder: Path, report: Callable[[str, bool], None]
) -> None:
    """Report how far scores of utterances (frames, dim) are from nnet3's, as a part of the largest."""
    ivector = torch.randn(am.nnet.node_dim("ivector"), generator=torch.Generator().manual_seed(0))
    for options in FORMS:
        path = folder / "model.onnx"
        about = nnet3.export_onnx(am, path, frame_subsampling_factor=FACTOR, **options)
        session, seconds, error, changed, rows = session_of(path), 0.0, 0.0, 0, 0
        for features in utterances:
            expected = _expected(am, about, features, ivector).numpy()
            start = time.process_time()
            found = _COMPUTED[about.form](session, about, features.numpy(), ivector.numpy())[: len(expected)]
            seconds += time.process_time() - start
            error = max(error, float(np.abs(found - expected).max() / np.abs(expected).max()))
            changed += int((found.argmax(1) != expected.argmax(1)).sum())
            rows += len(found)
        size = path.stat().st_size / 1e6
        what = f"ONNX, {about.form}, {about.quantize}: {size:.1f} MB, {seconds:.2f} s"
        text = f"{what}, scores differ by {error:.1e}, best pdfs of {changed} of {rows} rows"
        report(text, error <= TOLERANCE.get(about.quantize, np.inf))


def _expected(am: nnet3.AcousticModel, about: OnnxMetadata, features: Tensor, ivector: Tensor) -> Tensor:
    if about.form == "stream":
        return nnet3.StreamComputer(am, CHUNK, frame_subsampling_factor=FACTOR).compute(features, ivector)
    return am.compute(features, ivector, frame_subsampling_factor=FACTOR)


def _utterance(session: Any, about: OnnxMetadata, features: np.ndarray, ivector: np.ndarray) -> np.ndarray:
    rows: np.ndarray = session.run(["output"], {"input": features[None], "ivector": ivector[None]})[0][0]
    return rows


def _chunks(session: Any, about: OnnxMetadata, features: np.ndarray, ivector: np.ndarray) -> np.ndarray:
    starts = np.arange(0, -(-len(features) // FACTOR), about.output_rows) * FACTOR
    times = starts[:, None] - about.left_context + np.arange(about.input_frames)
    given = {"input": features[times.clip(0, len(features) - 1)], "ivector": np.tile(ivector, (len(starts), 1))}
    rows: np.ndarray = session.run(["output"], given)[0]
    return rows.reshape(-1, rows.shape[2])


def _stream(session: Any, about: OnnxMetadata, features: np.ndarray, ivector: np.ndarray) -> np.ndarray:
    state = {name: np.zeros((1, *shape), np.float32) for name, shape in about.state.items()} | {"place": np.array(0)}
    chunks: list[np.ndarray] = []
    start, end = 0, about.first_frames
    while len(chunks) * about.output_rows * FACTOR < len(features):
        frames = features[np.arange(start, end).clip(max=len(features) - 1)]
        output, *after = session.run(None, {"input": frames[None], "ivector": ivector[None], **state})
        state, start, end = dict(zip(state, after, strict=True)), end, end + about.input_frames
        chunks.append(output[0])
    return np.concatenate(chunks)


_COMPUTED = {"utterance": _utterance, "chunk": _chunks, "stream": _stream}
