"""A network's program for chunks of a fixed number of frames."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from nnet3.compiler import ComputationRequest, IoSpecification
from nnet3.driver import compile_task
from nnet3.ir.computation import NnetComputation
from nnet3.nnet import Nnet
from nnet3.options import OnnxOptions


@dataclass(frozen=True)
class OnnxChunk:
    """Frames of input and rows of output: row r is of frame r * factor; `left` frames come before frame 0."""

    left: int
    right: int
    factor: int
    rows: int

    @property
    def frames(self) -> int:
        return self.left + (self.rows - 1) * self.factor + 1 + self.right

    def request(self, nnet: Nnet, outputs: tuple[str, ...]) -> ComputationRequest:
        """Returns the request for one sequence, whose ivector is that of t = 0."""
        inputs = [IoSpecification("input", _at(np.arange(self.frames) - self.left))]
        if "ivector" in nnet.input_names:
            inputs.append(IoSpecification("ivector", [(0, 0, 0)]))
        times = _at(np.arange(self.rows) * self.factor)
        return ComputationRequest(inputs, [IoSpecification(name, times) for name in outputs])

    def program(self, nnet: Nnet, outputs: tuple[str, ...]) -> NnetComputation:
        """Returns the program with every step of a recurrence written out. Raises NotComputableError."""
        return compile_task(self.request(nnet, outputs).task(nnet))


def chunk_of(nnet: Nnet, options: OnnxOptions) -> OnnxChunk:
    """Returns the chunk of `frames_per_chunk` frames, rounded up to what the network's rules repeat after."""
    factor = options.frame_subsampling_factor
    unit = math.lcm(factor, nnet.modulus)
    rows = -(-options.frames_per_chunk // unit) * unit // factor
    left, right = nnet.left_context + options.extra_left_context, nnet.right_context + options.extra_right_context
    return OnnxChunk(left, right, factor, rows)


def _at(times: np.ndarray) -> np.ndarray:
    """Returns the indexes of one sequence at these times."""
    zeros = np.zeros(len(times), int)
    return np.stack([zeros, times, zeros], axis=1)
