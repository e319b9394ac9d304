"""Compares a file in stock onnxruntime with the executor on random inputs."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import onnxruntime
import torch

from nnet3.decode import Scoring
from nnet3.errors import ExportError
from nnet3.export.metadata import OnnxMetadata
from nnet3.ir.computation import NnetComputation
from nnet3.nnet import Nnet
from nnet3.runtime import NnetComputer

TOLERANCE = 1e-4
_BATCHES = (2, 1)


def check_file(path: str, about: OnnxMetadata, nnet: Nnet, program: NnetComputation, scoring: Scoring) -> None:
    """Raise ExportError unless a file is valid and agrees with a program for one sequence."""
    try:
        onnx.checker.check_model(path)
        session = session_of(path)
    except Exception as error:  # its classes are not public
        raise ExportError(f"the file that was made is not valid: {error}") from error
    random = np.random.default_rng(0)
    computer = NnetComputer(program, nnet)
    for batch in _BATCHES:
        given = {"input": random.standard_normal((batch, about.input_frames, about.input_dim)).astype(np.float32)}
        if about.ivector_dim:
            given["ivector"] = random.standard_normal((batch, about.ivector_dim)).astype(np.float32)
        found = dict(zip(about.output_dims, session.run(list(about.output_dims), given), strict=True))
        for sequence in range(batch):
            expected = _run(computer, {name: each[sequence] for name, each in given.items()}, about, scoring)
            for name, rows in expected.items():
                check_same(name, found[name][sequence], rows)


def session_of(path: str) -> onnxruntime.InferenceSession:
    """Returns a session on the CPU with one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def check_same(name: str, found: np.ndarray, expected: np.ndarray) -> None:
    """Raise ExportError unless two outputs differ by at most 1e-4 of the largest, or of 1."""
    if found.shape != expected.shape:
        raise ExportError(f"onnxruntime gives output '{name}' the shape {found.shape}, expected {expected.shape}")
    error = float(np.abs(found - expected).max()) / max(1.0, float(np.abs(expected).max()))
    if not error <= TOLERANCE:
        raise ExportError(f"onnxruntime and nnet3 do not agree on output '{name}': the difference is {error:.2g}")


def _run(
    computer: NnetComputer, given: Mapping[str, np.ndarray], about: OnnxMetadata, scoring: Scoring
) -> dict[str, np.ndarray]:
    for name, values in given.items():
        computer.accept_input(name, torch.from_numpy(np.atleast_2d(values)))
    computer.run()
    rows = {name: computer.get_output(name) for name in about.output_dims}
    if "output" in rows:
        y = rows["output"].log_softmax(1) if about.log_softmax else rows["output"]
        rows["output"] = scoring.apply(y)
    return {name: value.numpy() for name, value in rows.items()}
