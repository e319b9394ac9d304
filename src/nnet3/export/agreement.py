"""Compares a file in stock onnxruntime with the executor on random inputs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch

from nnet3.decode import Scoring, StreamComputer
from nnet3.errors import ExportError
from nnet3.export.forms import FrameRange, Utterances, Vectors, random_ivectors
from nnet3.export.metadata import OnnxMetadata
from nnet3.export.sources import Form, Source
from nnet3.export.streams import PLACE, Streams
from nnet3.nnet import Nnet

TOLERANCE = 1e-4
_BATCHES = (2, 1)
_MORE_PERIODS = (0, 3, 1)
_OTHER_FRAMES = (1, 2, 5)  # beyond the frames of the shortest utterance


def check_file(path: Path, about: OnnxMetadata, nnet: Nnet, form: Form, source: Source, scoring: Scoring) -> None:
    """Raise ExportError unless a file is valid and agrees with the executor for several batches and lengths."""
    for name, error in errors_of(path, about, nnet, form, source, scoring).items():
        if not error <= TOLERANCE:
            raise ExportError(f"onnxruntime and nnet3 do not agree on output '{name}': the difference is {error:.2g}")


def errors_of(
    path: Path, about: OnnxMetadata, nnet: Nnet, form: Form, source: Source, scoring: Scoring
) -> dict[str, float]:
    """Returns for each output the largest difference from the executor's, relative to the largest value, or to 1.

    Raises ExportError for a file that is not valid, or gives outputs of wrong shapes.
    """
    session = checked_session(path)
    errors = dict.fromkeys(about.output_dims, 0.0)
    if isinstance(form, Streams):
        pairs = _chunks(session, about, nnet, form, source)
    else:
        pairs = _ranges(session, about, nnet, form, source)
    for name, found, rows in pairs:
        if name == "output":
            rows = scoring.apply(rows.log_softmax(1) if about.log_softmax else rows)
        errors[name] = max(errors[name], difference(name, found, rows.numpy()))
    return errors


def _ranges(
    session: onnxruntime.InferenceSession,
    about: OnnxMetadata,
    nnet: Nnet,
    form: FrameRange | Utterances,
    source: Source,
) -> Iterator[tuple[str, np.ndarray, torch.Tensor]]:
    """Yields the name of an output, its rows from a file, and its rows from the executor, before scoring."""
    random, names = np.random.default_rng(0), tuple(about.output_dims)
    for batch, frames, used in _cases(form):
        given, features = source.random_input(random, form, batch, frames)
        ivectors = random_ivectors(nnet, random, batch)
        found = dict(zip(names, session.run(list(names), given | ivectors), strict=True))
        for sequence, own in enumerate(features):
            own = own if isinstance(form, FrameRange) else used.with_context(own)
            rows = used.compute(nnet, names, own, *(each[sequence] for each in ivectors.values()))
            for name, expected in rows.items():
                yield name, found[name][sequence].reshape(-1, about.output_dims[name]), expected


def _chunks(
    session: onnxruntime.InferenceSession, about: OnnxMetadata, nnet: Nnet, form: Streams, source: Source
) -> Iterator[tuple[str, np.ndarray, torch.Tensor]]:
    """Yields the outputs as `_ranges`, for so many chunks of two streams that all programs run with every state."""
    random, program, batch = np.random.default_rng(0), form.program, _BATCHES[0]
    streams = StreamComputer(
        nnet, program.frames_per_chunk, batch, program.frame_subsampling_factor,
        program.left_context - nnet.left_context,
    )  # fmt: skip
    opened = [streams.open() for _ in range(batch)]
    names = [*about.state, PLACE]
    after = [*(np.zeros((batch, *shape), np.float32) for shape in about.state.values()), np.array(0)]
    for given, features in source.random_streams(random, form, batch, len(program.chunks) + len(program.cycle)):
        ivectors = random_ivectors(nnet, random, batch)
        found, *after = session.run(None, {**given, **ivectors, **dict(zip(names, after, strict=True))})
        for row, stream in enumerate(opened):
            yield "output", found[row], stream.accept(features[row], *(each[row] for each in ivectors.values()))


def _cases(form: FrameRange | Utterances) -> list[tuple[int, int, FrameRange]]:
    """Returns numbers of sequences and of frames, and the range of frames to compute."""
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


def checked_session(path: Path) -> onnxruntime.InferenceSession:
    """Returns a session of a file. Raises ExportError unless the file is valid."""
    try:
        onnx.checker.check_model(path)
        return session_of(path)
    except Exception as error:  # its classes are not public
        raise ExportError(f"the file that was made is not valid: {error}") from error


def session_of(path: Path) -> onnxruntime.InferenceSession:
    """Returns a session on the CPU with one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def difference(name: str, found: np.ndarray, expected: np.ndarray) -> float:
    """Returns the largest difference as a part of the largest value expected, or of 1; infinity if it is no number.

    Raises ExportError for other shapes.
    """
    if found.shape != expected.shape:
        raise ExportError(f"onnxruntime gives output '{name}' the shape {found.shape}, expected {expected.shape}")
    error = float(np.abs(found - expected).max()) / max(1.0, float(np.abs(expected).max()))
    return error if np.isfinite(error) else np.inf
