"""A simple network over one utterance, whole or in chunks, as Kaldi's nnet3-compute runs it."""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from nnet3.compiler import ComputationRequest, IoSpecification, compile
from nnet3.compute import NnetComputer
from nnet3.errors import ExecutionError, NetworkError
from nnet3.nnet import Nnet

_MAX_COMPUTERS = 32  # of different lengths that are kept compiled


@dataclass(frozen=True)
class UtteranceOptions:
    """Frames are input frames. `frames_per_chunk` 0: the whole utterance at once.

    Initial and final extra context apply at the ends of an utterance; negative: as elsewhere. Frames before the first
    and after the last are repetitions of these.
    """

    frame_subsampling_factor: int = 1
    frames_per_chunk: int = 0
    extra_left_context: int = 0
    extra_right_context: int = 0
    extra_left_context_initial: int = -1
    extra_right_context_final: int = -1
    online_ivector_period: int = 10


class UtteranceComputer:
    """Computes output `output` of a simple network. Put the network in test mode first (`nnet.set_test_mode()`)."""

    def __init__(self, nnet: Nnet, options: UtteranceOptions | None = None, device: str | torch.device = "cpu"):
        if not nnet.is_simple:
            raise NetworkError(
                "only a simple network can be run over utterances: an output 'output', an input 'input', at most an "
                f"input 'ivector' besides; this one has inputs {nnet.input_names} and outputs {nnet.output_names}"
            )
        self.nnet, self.options, self.device = nnet, options or UtteranceOptions(), device
        for name in ("frame_subsampling_factor", "online_ivector_period"):
            if getattr(self.options, name) < 1:
                raise ExecutionError(f"{name.replace('_', '-')} must be at least 1, got {getattr(self.options, name)}")
        for name in ("frames_per_chunk", "extra_left_context", "extra_right_context"):
            if getattr(self.options, name) < 0:
                raise ExecutionError(
                    f"{name.replace('_', '-')} must not be negative, got {getattr(self.options, name)}"
                )
        self._computers: OrderedDict[tuple[int, int, int], NnetComputer] = OrderedDict()

    def compute(
        self,
        features: np.ndarray,
        ivector: np.ndarray | None = None,
        online_ivectors: np.ndarray | None = None,
    ) -> Tensor:
        """Outputs (frames / subsampling factor, rounded up; dim) for features (frames, dim).

        A network with an input `ivector` is given either one vector (dim,) for the utterance, or online ones
        (rows, dim), one every `online_ivector_period` frames, of which each chunk takes the one at its middle.
        Raises ExecutionError if sizes do not fit.
        """
        self._check(features, ivector, online_ivectors)
        factor = self.options.frame_subsampling_factor
        total = -(-len(features) // factor)
        per_chunk = self._frames_per_chunk() // factor if self.options.frames_per_chunk else total
        chunks = []
        for start in range(0, total, per_chunk):
            count = min(per_chunk, total - start)
            chosen = self._ivector(ivector, online_ivectors, start * factor, (count - 1) * factor)
            chunks.append(self._chunk(features, chosen, start * factor, count, last=start + count == total))
        return torch.cat(chunks)

    def _check(self, features: np.ndarray, ivector: np.ndarray | None, online: np.ndarray | None) -> None:
        dim = self.nnet.node_dim("input")
        if features.ndim != 2 or features.shape[1] != dim:
            raise ExecutionError(f"the features must be (frames, {dim}), got {features.shape}")
        if len(features) == 0:
            raise ExecutionError("the utterance has no frames")
        _check_finite("features", features)
        wants = "ivector" in self.nnet.input_names
        given = ivector if ivector is not None else online
        if wants != (given is not None):
            have, want = ("an", "none is given") if wants else ("no", "one is given")
            raise ExecutionError(f"the network has {have} input 'ivector', but {want}")
        if given is not None and (given.shape[-1] != self.nnet.node_dim("ivector") or len(given) == 0):
            raise ExecutionError(f"ivectors must have dimension {self.nnet.node_dim('ivector')}, got {given.shape}")
        if given is not None:
            _check_finite("ivectors", given)

    def _frames_per_chunk(self) -> int:
        """Rounded up so that all chunks of an utterance have the same structure."""
        unit = math.lcm(self.options.frame_subsampling_factor, self.nnet.modulus)
        return -(-self.options.frames_per_chunk // unit) * unit

    def _ivector(
        self, ivector: np.ndarray | None, online: np.ndarray | None, first_frame: int, num_frames: int
    ) -> np.ndarray | None:
        if ivector is not None or online is None:
            return ivector
        row = (first_frame + num_frames // 2) // self.options.online_ivector_period
        return np.asarray(online[min(max(row, 0), len(online) - 1)])

    def _chunk(self, features: np.ndarray, ivector: np.ndarray | None, first: int, count: int, *, last: bool) -> Tensor:
        options = self.options
        left, right = options.extra_left_context, options.extra_right_context
        if first == 0 and options.extra_left_context_initial >= 0:
            left = options.extra_left_context_initial
        if last and options.extra_right_context_final >= 0:
            right = options.extra_right_context_final
        left, right = left + self.nnet.left_context, right + self.nnet.right_context
        end = first + (count - 1) * options.frame_subsampling_factor + right + 1
        frames = np.clip(np.arange(first - left, end), 0, len(features) - 1)
        computer = self._computer(left, len(frames), count)
        computer.accept_input("input", np.asarray(features[frames], np.float32))
        if ivector is not None:
            computer.accept_input("ivector", np.asarray(ivector, np.float32)[np.newaxis])
        computer.run()
        return computer.get_output("output")

    def _computer(self, left: int, num_input: int, num_output: int) -> NnetComputer:
        """A computer for this structure; times are shifted so that the first output has t = 0."""
        key = (left, num_input, num_output)
        if key in self._computers:
            self._computers.move_to_end(key)
            return self._computers[key]
        times = np.arange(-left, num_input - left)
        inputs = [IoSpecification("input", _at(times))]
        if "ivector" in self.nnet.input_names:
            inputs.append(IoSpecification("ivector", [(0, 0, 0)]))
        outputs = [IoSpecification("output", _at(np.arange(num_output) * self.options.frame_subsampling_factor))]
        computation = compile(self.nnet, ComputationRequest(inputs, outputs))
        self._computers[key] = NnetComputer(computation, self.nnet, device=self.device)
        if len(self._computers) > _MAX_COMPUTERS:
            self._computers.popitem(last=False)
        return self._computers[key]


def _check_finite(what: str, values: np.ndarray) -> None:
    bad = ~np.isfinite(values)
    if bad.any():
        row = int(bad.reshape(len(values), -1).any(axis=1).argmax())
        raise ExecutionError(f"the {what} have a NaN or an infinity, first in row {row}")


def _at(times: np.ndarray) -> np.ndarray:
    """Indexes of one sequence at these times."""
    zeros = np.zeros(len(times), int)
    return np.stack([zeros, times, zeros], axis=1)
