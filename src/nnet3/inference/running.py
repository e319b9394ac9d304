"""Runs a simple network over chunks of utterances of one shape."""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from operator import attrgetter

import numpy as np
import torch
from torch import Tensor

from nnet3.base.options.compiling import CompileOptions
from nnet3.base.options.utterances import UtteranceOptions
from nnet3.engine.driver import default_cache
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.runtime import NnetComputer
from nnet3.engine.runtime.models import model_dtype
from nnet3.engine.runtime.planning import plan
from nnet3.engine.runtime.recent import ChangedComputers
from nnet3.errors import ExecutionError
from nnet3.inference.cutting import OutputChunk, cut
from nnet3.inference.inputs import UtteranceInputs, check_simple
from nnet3.inference.long_utterances import MAX_BYTES, PIECE_BYTES, PIECE_FRAMES, bytes_per_frame, is_the_same_in_pieces
from nnet3.inference.programs_of_lengths import ProgramsOfLengths
from nnet3.model.components.base import Component
from nnet3.model.nnet import Nnet
from nnet3.model.requests import ComputationRequest, IoSpecification

_FEW_PERIODS = 64  # of time: memory for them and for twice as many tells how much all lengths need
_CLEARLY = 1.25  # times as much memory as is foretold: then plans of long pieces need not be looked at
_FRAMES_TOO_MANY = 50  # an utterance may go on for so many frames after its last online ivector


@dataclass(frozen=True)
class NetworkKernels:
    """A network's components and type without its fingerprint: the user knows that programs hold for the network."""

    components: Mapping[str, Component]
    given_dtype: torch.dtype | None = None

    @classmethod
    def of(cls, nnet: Nnet) -> NetworkKernels:
        return cls(nnet.components, nnet.given_dtype)


class EditGuard:
    """The nodes and components of a network. A computer runs a copy of the network and does not see later edits."""

    def __init__(self, nnet: Nnet) -> None:
        self._nnet = weakref.ref(nnet)
        self._nodes, self._components = nnet.parts.nodes, dict(nnet.components)

    def check(self) -> None:
        """Raises ExecutionError if the network's nodes or components have changed."""
        nnet = self._nnet()
        if nnet is not None and (nnet.parts.nodes is not self._nodes or nnet.components != self._components):
            raise ExecutionError("the network has been edited since this computer was made: make another")


class ChunkRunner:
    """A network in test mode, cut and run by `options`. Threads take turns.

    With `overlaps` chunks are cut as nnet3-compute-batch does, see `cut`.
    """

    def __init__(
        self,
        nnet: Nnet,
        options: UtteranceOptions,
        device: str | torch.device,
        *,
        overlaps: bool = False,
        compile_options: CompileOptions | None = None,
        debug: bool = False,
    ):
        check_simple(nnet)
        self.edits = EditGuard(nnet)
        self.nnet, self.options, self.device = nnet.in_test_mode(), options, device
        self.overlaps = overlaps and options.frames_per_chunk > 0
        self._kernels, self._compile_options, self._debug = NetworkKernels.of(self.nnet), compile_options, debug
        self._lock = threading.RLock()
        # Whole utterances rarely have the same length.
        self._computers = ChangedComputers(32 if options.frames_per_chunk else 1)
        self._programs = ProgramsOfLengths()
        #: Chunks of several lengths that were looked at last: frames on either side, lengths, their computer.
        self._together: tuple[int, int, list[int], NnetComputer | None] = (0, 0, [], None)
        self._period = math.lcm(options.frame_subsampling_factor, self.nnet.modulus)
        self._context = self.nnet.left_context, self.nnet.right_context
        self.bytes_per_frame = bytes_per_frame(self.nnet)

    # ---- cutting ----

    @property
    def outputs_per_chunk(self) -> int:
        """The outputs of a chunk of `frames_per_chunk`, which is rounded up to what the network repeats after."""
        return -(-self.options.frames_per_chunk // self._period) * self._period // self.options.frame_subsampling_factor

    def chunks(self, num_frames: int) -> list[OutputChunk]:
        """Returns the chunks of an utterance of `num_frames` frames."""
        options = self.options
        total = -(-num_frames // options.frame_subsampling_factor)
        if options.frames_per_chunk:
            return cut(options, self._context, total, self.outputs_per_chunk, overlaps=self.overlaps)
        whole = cut(options, self._context, total, total)
        fits = num_frames <= PIECE_FRAMES and num_frames * self.bytes_per_frame <= PIECE_BYTES
        if fits or not self._pieces_allowed:
            return whole
        with self._lock:
            if num_frames <= PIECE_FRAMES and _CLEARLY * self._bytes(whole[0]) <= PIECE_BYTES:
                return whole
            pieces = cut(options, self._context, total, self._longest_piece)
        return [piece._replace(ivector_frame=whole[0].ivector_frame) for piece in pieces]

    @cached_property
    def _pieces_allowed(self) -> bool:
        return is_the_same_in_pieces(self.nnet)

    @cached_property
    def _memory(self) -> tuple[float, float]:
        """The bytes of a computation per frame of input, and the bytes on top."""
        frames, sizes = zip(*(self._size_of(periods) for periods in (_FEW_PERIODS, 2 * _FEW_PERIODS)), strict=True)
        per_frame = max((sizes[1] - sizes[0]) / (frames[1] - frames[0]), 1.0)
        return per_frame, sizes[0] - per_frame * frames[0]

    def _bytes(self, chunk: OutputChunk) -> float:
        """Returns the bytes taken by the computation of a chunk, foretold from short chunks."""
        per_frame, more = self._memory
        return per_frame * chunk.num_frames(self.options.frame_subsampling_factor) + more

    def _size_of(self, periods: int) -> tuple[int, int]:
        """Returns the frames of input of a chunk between others, and the bytes of a plan for this chunk alone.

        Plans computed from plans of other lengths need some per cent more, depending on which lengths came before.
        """
        rows = periods * self._period // self.options.frame_subsampling_factor
        chunk = OutputChunk(0, rows, 0, rows, *self._context, 0)
        made = plan(self._program(chunk, 1), model_dtype(self.nnet, None) or torch.float32)
        return chunk.num_frames(self.options.frame_subsampling_factor), made.num_bytes

    @cached_property
    def _longest_piece(self) -> int:
        """The outputs of the longest piece for which memory is enough, but at least ten times its context."""
        per_frame, more = self._memory
        context = sum(self._context)
        frames, least = (
            min((PIECE_BYTES - more) / per_frame - context, PIECE_FRAMES),
            max(10 * context // self._period, 1),
        )
        periods = max(int(frames) // self._period, least)
        while periods > least and self._size_of(periods)[1] > PIECE_BYTES:
            periods = max(periods * 15 // 16, least)
        return periods * self._period // self.options.frame_subsampling_factor

    # ---- running ----

    def run(self, parts: Sequence[tuple[UtteranceInputs, OutputChunk]], sequences: int = 1) -> list[Tensor]:
        """Returns the outputs (num_outputs, dim) of chunks that differ in nothing but the number of outputs.

        With more `sequences` than chunks, all chunks being of one shape, additional sequences repeat the first, for
        nobody. Chunks of several lengths must be `together`. Raises ExecutionError, NumericalError or
        NotComputableError.
        """
        self.edits.check()
        repeated = [parts[number if number < len(parts) else 0] for number in range(max(sequences, len(parts)))]
        chunks, factor = [chunk for _, chunk in repeated], self.options.frame_subsampling_factor
        num_frames = [chunk.num_frames(factor) for chunk in chunks]
        with self._lock:
            self._check_size(max(chunks, key=attrgetter("num_outputs")))
        frames = parts[0][0].features
        given = frames.new_empty(sum(num_frames), frames.shape[1])
        ivectors = []
        for (inputs, own), rows, end in zip(repeated, num_frames, accumulate(num_frames), strict=True):
            first, last = own.start * factor - own.left, len(inputs.features) - 1
            times = torch.arange(first, first + rows, device=frames.device).clamp_(0, last)
            torch.index_select(inputs.features, 0, times, out=given[end - rows : end])
            if inputs.online_ivectors is not None:
                ivectors.append(self._online_row(inputs.online_ivectors, own.ivector_frame))
            elif inputs.ivector is not None:
                ivectors.append(inputs.ivector)
        with self._lock:
            computer = self._computer(chunks)
            assert computer is not None, "nobody asked whether these chunks can be computed together"
            computer.accept_input("input", given)
            if ivectors:
                computer.accept_input("ivector", torch.stack(ivectors))
            computer.run()
            rows_of_all = computer.take_output("output")
        return list(rows_of_all.split([chunk.num_outputs for chunk in chunks]))[: len(parts)]

    def _online_row(self, online: Tensor, frame: int) -> Tensor:
        row, last = frame // self.options.online_ivector_period, len(online) - 1
        if not self.overlaps and (row - last) * self.options.online_ivector_period > _FRAMES_TOO_MANY:
            raise ExecutionError(
                f"the {len(online)} online ivectors, one every {self.options.online_ivector_period} frames, end long "
                f"before frame {frame}: is the period right?"
            )
        return online[min(row, last)]

    def _check_size(self, chunk: OutputChunk) -> None:
        num_frames = chunk.num_frames(self.options.frame_subsampling_factor)
        if num_frames * self.bytes_per_frame <= MAX_BYTES:
            return
        size = self._bytes(chunk)
        if size > MAX_BYTES:
            context = f"{chunk.left} frames of context to the left and {chunk.right} to the right"
            raise ExecutionError(
                f"a chunk of {num_frames} frames, with {context}, may need {size / 2**30:,.1f} GiB of memory, and "
                f"{MAX_BYTES / 2**30:g} are allowed: use less extra context or a smaller frames_per_chunk"
            )

    def together(self, chunks: Sequence[OutputChunk]) -> bool:
        """Returns true if a program for chunks of these lengths exists, not compiled for the lengths alone."""
        with self._lock:
            return self._computer(chunks) is not None

    def fits(self, chunks: Sequence[OutputChunk]) -> bool:
        """Returns true if these chunks need no more memory together than an utterance may that is not run in pieces."""
        factor = self.options.frame_subsampling_factor
        if sum(chunk.num_frames(factor) for chunk in chunks) * self.bytes_per_frame <= PIECE_BYTES:
            return True
        with self._lock:
            computer = self._computer(chunks)
            return computer is not None and computer.plan.num_bytes <= PIECE_BYTES

    def _computer(self, chunks: Sequence[OutputChunk]) -> NnetComputer | None:
        """Returns a computer for chunks that differ in length alone; None if the chunks are not `together`."""
        lengths = [chunk.num_outputs for chunk in chunks]
        if all(length == lengths[0] for length in lengths):
            key = len(chunks), *chunks[0].shape
            return self._computers.get(key, lambda: self._program(chunks[0], len(chunks)), self._computer_of)
        if (chunks[0].left, chunks[0].right, lengths) != self._together[:3]:
            task = self._request(chunks).task(self.nnet, self._compile_options)
            program = default_cache().made_of_others(task)
            computer = None if program is None else self._computer_of(program)
            self._together = chunks[0].left, chunks[0].right, lengths, computer
        return self._together[3]

    def _program(self, chunk: OutputChunk, sequences: int) -> NnetComputation:
        """Returns the program for so many chunks like `chunk`."""
        return self._programs.get(
            (sequences, chunk.left, chunk.right),
            chunk.num_outputs,
            lambda: default_cache().compile(self.nnet, self._request([chunk] * sequences), self._compile_options),
        )

    def _computer_of(self, program: NnetComputation) -> NnetComputer:
        return NnetComputer(program, self._kernels, device=self.device, debug=self._debug)

    def _request(self, chunks: Sequence[OutputChunk]) -> ComputationRequest:
        """Returns the request for the chunks; times are shifted so that every first output has t = 0."""
        factor = self.options.frame_subsampling_factor
        given = [np.arange(chunk.num_frames(factor)) - chunk.left for chunk in chunks]
        inputs = [IoSpecification("input", indexes_of(given))]
        if "ivector" in self.nnet.input_names:
            inputs.append(IoSpecification("ivector", indexes_of([np.zeros(1, int)] * len(chunks))))
        wanted = [np.arange(chunk.num_outputs) * factor for chunk in chunks]
        return ComputationRequest(inputs, [IoSpecification("output", indexes_of(wanted))])


def indexes_of(times: Sequence[np.ndarray]) -> np.ndarray:
    """Returns the indexes of sequences, every sequence at its own times, sequence by sequence."""
    counts = list(map(len, times))
    numbers = np.repeat(np.arange(len(times)), counts)
    return np.stack([numbers, np.concatenate(times), np.zeros(len(numbers), int)], axis=1)
