"""A simple network over one utterance, whole or in chunks, as Kaldi's nnet3-compute runs it."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from nnet3.compiler import ComputationRequest, IoSpecification
from nnet3.components import Component
from nnet3.decode.given import check_ivectors_wanted, checked_matrix
from nnet3.decode.pieces import MAX_BYTES, PIECE_BYTES, PIECE_FRAMES, bytes_per_frame, is_the_same_in_pieces
from nnet3.driver import default_cache
from nnet3.errors import ExecutionError, NetworkError
from nnet3.ir.matrices import Matrix
from nnet3.nnet import Nnet
from nnet3.options import CompileOptions, UtteranceOptions
from nnet3.runtime import NnetComputer
from nnet3.runtime.recent import RecentComputers

_FEW_UNITS = 64  # of time: memory for them and for twice as many tells how much all lengths need
_FRAMES_TOO_MANY = 50  # an utterance may go on for so many frames after its last online ivector


class _Chunk(NamedTuple):
    """Output frames `start` .. `start + num_outputs - 1`, with the context of input frames on either side."""

    start: int
    num_outputs: int
    left: int
    right: int
    ivector_frame: int  # the frame whose online ivector is taken


@dataclass(frozen=True)
class NetworkKernels:
    """A network's components without its fingerprint: who runs them knows that programs hold for the network."""

    components: Mapping[str, Component]


class UtteranceComputer:
    """Computes output `output` of a simple network for one utterance after another. Threads take turns.

    The network runs in test mode, whatever mode it is in. Later changes of parameters in place are seen; changes of its
    structure or its batch-norm statistics are not.

    `options` give the chunks; without (`frames_per_chunk` 0) an utterance of any length is run whole. If that takes
    more than 1 GiB besides features and outputs, it is run in pieces that take less, provided that these make no
    difference: not for networks with recurrences, statistics or attention.
    """

    def __init__(
        self,
        nnet: Nnet,
        options: UtteranceOptions | None = None,
        device: str | torch.device = "cpu",
        *,
        compile_options: CompileOptions | None = None,
        debug: bool = False,
    ):
        if not nnet.is_simple:
            raise NetworkError(
                "only a simple network can be run over utterances: an output 'output', an input 'input', at most an "
                f"input 'ivector' besides; this one has inputs {nnet.input_names} and outputs {nnet.output_names}"
            )
        self.nnet, self.options, self.device = nnet.in_test_mode(), options or UtteranceOptions(), device
        self._kernels, self._compile_options, self._debug = NetworkKernels(self.nnet.components), compile_options, debug
        self._lock = threading.Lock()
        # Whole utterances rarely have the same length; objects that go soon cost the garbage collector little.
        self._computers = RecentComputers(32 if self.options.frames_per_chunk else 8)
        self._unit = math.lcm(self.options.frame_subsampling_factor, self.nnet.modulus)
        self._bytes_per_frame = bytes_per_frame(self.nnet)
        self._pieces_allowed = is_the_same_in_pieces(self.nnet)

    def compute(self, features: Matrix, ivector: Matrix | None = None, online_ivectors: Matrix | None = None) -> Tensor:
        """Returns outputs (frames / subsampling factor, rounded up; dim), on the device, for features (frames, dim).

        A network with an input `ivector` is given either one vector (dim,) for the utterance, or online ones
        (rows, dim), one every `online_ivector_period` frames, of which each chunk takes the one at its middle.
        Matrices are tensors or arrays of any float or integer dtype.
        Raises ExecutionError if sizes do not fit, if the input or the output is not finite, or if a chunk would need
        more memory than 4 GiB; NotComputableError if the network cannot be computed from such an input.
        """
        frames = checked_matrix(self.nnet, "features", features, "input", 2, self.device)
        single, online = self._ivectors(ivector, online_ivectors)
        with self._lock:
            return self._run_all(frames, single, online)

    # ---- what is given ----

    def _ivectors(self, ivector: Matrix | None, online: Matrix | None) -> tuple[Tensor | None, Tensor | None]:
        if ivector is not None and online is not None:
            raise ExecutionError("give one ivector or online ivectors, not both")
        check_ivectors_wanted(self.nnet, ivector is not None or online is not None)
        matrix = partial(checked_matrix, self.nnet, "ivectors", node="ivector", device=self.device)
        single = None if ivector is None else matrix(ivector, dimensions=1)
        return single, None if online is None else matrix(online, dimensions=2)

    def _online_row(self, online: Tensor, frame: int) -> Tensor:
        row, last = frame // self.options.online_ivector_period, len(online) - 1
        if (row - last) * self.options.online_ivector_period > _FRAMES_TOO_MANY:
            raise ExecutionError(
                f"the {len(online)} online ivectors, one every {self.options.online_ivector_period} frames, end long "
                f"before frame {frame}: is the period right?"
            )
        return online[min(row, last)]

    # ---- chunks ----

    def _chunks(self, num_frames: int) -> Iterator[_Chunk]:
        options, factor = self.options, self.options.frame_subsampling_factor
        total = -(-num_frames // factor)
        if options.frames_per_chunk:
            yield from self._equal_chunks(total, -(-options.frames_per_chunk // self._unit) * self._unit // factor)
            return
        whole = next(self._equal_chunks(total, total))
        fits = num_frames <= PIECE_FRAMES and num_frames * self._bytes_per_frame <= PIECE_BYTES
        for piece in self._equal_chunks(total, self._longest_piece if self._pieces_allowed and not fits else total):
            yield piece._replace(ivector_frame=whole.ivector_frame)

    def _equal_chunks(self, total: int, per_chunk: int) -> Iterator[_Chunk]:
        options, factor = self.options, self.options.frame_subsampling_factor
        for start in range(0, total, per_chunk):
            count = min(per_chunk, total - start)
            left, right = options.extra_left_context, options.extra_right_context
            if start == 0 and options.extra_left_context_initial >= 0:
                left = options.extra_left_context_initial
            if start + count == total and options.extra_right_context_final >= 0:
                right = options.extra_right_context_final
            middle = start * factor + (count - 1) * factor // 2
            yield _Chunk(start, count, left + self.nnet.left_context, right + self.nnet.right_context, middle)

    def _num_input(self, chunk: _Chunk) -> int:
        return chunk.left + (chunk.num_outputs - 1) * self.options.frame_subsampling_factor + 1 + chunk.right

    @cached_property
    def _memory(self) -> tuple[float, float]:
        """The bytes that a computation takes for each frame of input, and in addition."""
        frames, sizes = zip(*(self._size_of(units) for units in (_FEW_UNITS, 2 * _FEW_UNITS)), strict=True)
        per_frame = max((sizes[1] - sizes[0]) / (frames[1] - frames[0]), 1.0)
        return per_frame, sizes[0] - per_frame * frames[0]

    def _size_of(self, units: int) -> tuple[int, int]:
        """Returns the frames of input of a chunk between others, and the bytes of its plan."""
        rows = units * self._unit // self.options.frame_subsampling_factor
        chunk = _Chunk(0, rows, self.nnet.left_context, self.nnet.right_context, 0)
        return self._num_input(chunk), self._new_computer(chunk).plan.num_bytes

    @cached_property
    def _longest_piece(self) -> int:
        """The outputs of the longest piece for which memory is enough, but at least ten times its context."""
        per_frame, more = self._memory
        context = self.nnet.left_context + self.nnet.right_context
        frames, least = (
            min((PIECE_BYTES - more) / per_frame - context, PIECE_FRAMES),
            max(10 * context // self._unit, 1),
        )
        units = max(int(frames) // self._unit, least)
        while units > least and self._size_of(units)[1] > PIECE_BYTES:
            units = max(units * 15 // 16, least)
        return units * self._unit // self.options.frame_subsampling_factor

    def _run_all(self, frames: Tensor, single: Tensor | None, online: Tensor | None) -> Tensor:
        chunks = list(self._chunks(len(frames)))
        first = self._run(frames, single, online, chunks[0])
        if len(chunks) == 1:
            return first
        rows = first.new_empty(chunks[-1].start + chunks[-1].num_outputs, first.shape[1])
        rows[: len(first)] = first
        for chunk in chunks[1:]:
            rows[chunk.start : chunk.start + chunk.num_outputs] = self._run(frames, single, online, chunk)
        return rows

    def _run(self, frames: Tensor, single: Tensor | None, online: Tensor | None, chunk: _Chunk) -> Tensor:
        first, num_input = chunk.start * self.options.frame_subsampling_factor - chunk.left, self._num_input(chunk)
        self._check_size(chunk, num_input)
        times = torch.arange(first, first + num_input, device=frames.device).clamp_(0, len(frames) - 1)
        shape = chunk.left, num_input, chunk.num_outputs
        computer = self._computers.get(shape, lambda: self._new_computer(chunk))
        computer.accept_input("input", frames[times])
        if online is not None:
            single = self._online_row(online, chunk.ivector_frame)
        if single is not None:
            computer.accept_input("ivector", single[np.newaxis])
        computer.run()
        return computer.get_output("output")

    def _check_size(self, chunk: _Chunk, num_input: int) -> None:
        if num_input * self._bytes_per_frame <= MAX_BYTES:
            return
        per_frame, more = self._memory
        size = per_frame * num_input + more
        if size > MAX_BYTES:
            context = f"{chunk.left} frames of context to the left and {chunk.right} to the right"
            raise ExecutionError(
                f"a chunk of {num_input} frames, with {context}, may need {size / 2**30:,.1f} GiB of memory, and "
                f"{MAX_BYTES / 2**30:g} are allowed: use less extra context or a smaller frames_per_chunk"
            )

    def _new_computer(self, chunk: _Chunk) -> NnetComputer:
        """Returns a computer for chunks like this; times are shifted so that the first output has t = 0."""
        inputs = [IoSpecification("input", _at(np.arange(self._num_input(chunk)) - chunk.left))]
        if "ivector" in self.nnet.input_names:
            inputs.append(IoSpecification("ivector", [(0, 0, 0)]))
        times = np.arange(chunk.num_outputs) * self.options.frame_subsampling_factor
        request = ComputationRequest(inputs, [IoSpecification("output", _at(times))])
        computation = default_cache().compile(self.nnet, request, self._compile_options)
        return NnetComputer(computation, self._kernels, device=self.device, debug=self._debug)


def _at(times: np.ndarray) -> np.ndarray:
    """Returns the indexes of one sequence at these times."""
    zeros = np.zeros(len(times), int)
    return np.stack([zeros, times, zeros], axis=1)
