"""Compares a file in stock onnxruntime with what nnet3 computes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

from nnet3.errors import ExportError

TOLERANCE = 1e-4

#: The name of an output, what the file gives, and what nnet3 gives.
Pair = tuple[str, np.ndarray, np.ndarray]


#: Yields outputs for random inputs, from a session of a file and from nnet3.
Compare = Callable[[onnxruntime.InferenceSession], Iterator[Pair]]


def check_file(path: Path, compare: Compare) -> None:
    """Raises ExportError unless a file is valid and agrees with nnet3."""
    for name, error in errors_of(path, compare).items():
        if not error <= TOLERANCE:
            raise ExportError(f"onnxruntime and nnet3 do not agree on output '{name}': the difference is {error:.2g}")


def errors_of(path: Path, compare: Compare) -> dict[str, float]:
    """Returns for each output the largest difference, relative to the largest value, or to 1.

    Raises ExportError for a file that is not valid, or gives outputs of wrong shapes.
    """
    session, errors = checked_session(path), dict[str, float]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # random inputs and missing statistics are nobody's mistake
        for name, found, expected in compare(session):
            errors[name] = max(errors.get(name, 0.0), _difference(name, found, expected))
    return errors


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


def _difference(name: str, found: np.ndarray, expected: np.ndarray) -> float:
    """Returns the largest difference, relative to the largest value expected, or to 1; infinity if it is no number."""
    if found.shape != expected.shape:
        raise ExportError(f"onnxruntime gives output '{name}' the shape {found.shape}, expected {expected.shape}")
    error = float(np.abs(found - expected).max()) / max(1.0, float(np.abs(expected).max()))
    return error if np.isfinite(error) else np.inf
