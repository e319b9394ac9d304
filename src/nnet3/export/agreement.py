"""Compares a file in stock onnxruntime with the executor on random inputs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime

from nnet3.decode import Scoring
from nnet3.errors import ExportError
from nnet3.export.forms import FrameRange, Utterances, Vectors, inputs_given
from nnet3.export.metadata import OnnxMetadata
from nnet3.nnet import Nnet

TOLERANCE = 1e-4
_BATCHES = (2, 1)
_MORE_PERIODS = (0, 3, 1)
_OTHER_FRAMES = (1, 2, 5)  # beyond the frames of the shortest utterance


def check_file(path: Path, about: OnnxMetadata, nnet: Nnet, form: FrameRange | Utterances, scoring: Scoring) -> None:
    """Raise ExportError unless a file is valid and agrees with the executor for several batches and lengths."""
    for name, error in errors_of(path, about, nnet, form, scoring).items():
        if not error <= TOLERANCE:
            raise ExportError(f"onnxruntime and nnet3 do not agree on output '{name}': the difference is {error:.2g}")


def errors_of(
    path: Path, about: OnnxMetadata, nnet: Nnet, form: FrameRange | Utterances, scoring: Scoring
) -> dict[str, float]:
    """Returns for each output the largest difference from the executor's, as a part of its largest value, or of 1.

    Raises ExportError for a file that is not valid, or gives outputs of other shapes.
    """
    try:
        onnx.checker.check_model(path)
        session = session_of(path)
    except Exception as error:  # its classes are not public
        raise ExportError(f"the file that was made is not valid: {error}") from error
    random, names = np.random.default_rng(0), tuple(about.output_dims)
    errors = dict.fromkeys(names, 0.0)
    for batch, frames, used in _cases(form):
        given = inputs_given(nnet, random, batch, frames)
        found = dict(zip(names, session.run(list(names), given), strict=True))
        for sequence in range(batch):
            features, *ivector = (each[sequence] for each in given.values())
            features = features if isinstance(form, FrameRange) else used.with_context(features)
            rows = used.compute(nnet, names, features, ivector[0] if ivector else None)
            if "output" in rows:
                y = rows["output"].log_softmax(1) if about.log_softmax else rows["output"]
                rows["output"] = scoring.apply(y)
            for name, expected in rows.items():
                rows_found = found[name][sequence].reshape(-1, about.output_dims[name])
                errors[name] = max(errors[name], _difference(name, rows_found, expected.numpy()))
    return errors


def _cases(form: FrameRange | Utterances) -> list[tuple[int, int, FrameRange]]:
    """Returns numbers of sequences and of frames, and what is computed of them."""
    if isinstance(form, FrameRange):
        return [(batch, form.frames, form) for batch in _BATCHES]
    if isinstance(form, Vectors):
        lengths = [form.shortest.frames + more * form.step for more in _MORE_PERIODS]
        return [(1 + number % 2, frames, form.at(frames)) for number, frames in enumerate(lengths)]
    least, factor = form.shortest.rows, form.shortest.factor
    frames = [(least + more * form.step) * factor for more in _MORE_PERIODS]
    if form.pads:
        frames += [1, *(least * factor + more for more in _OTHER_FRAMES)]
    return [(1 + number % 2, each, form.at(-(-each // factor))) for number, each in enumerate(frames)]


def session_of(path: Path) -> onnxruntime.InferenceSession:
    """Returns a session on the CPU with one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def _difference(name: str, found: np.ndarray, expected: np.ndarray) -> float:
    if found.shape != expected.shape:
        raise ExportError(f"onnxruntime gives output '{name}' the shape {found.shape}, expected {expected.shape}")
    error = float(np.abs(found - expected).max()) / max(1.0, float(np.abs(expected).max()))
    return error if np.isfinite(error) else np.inf
