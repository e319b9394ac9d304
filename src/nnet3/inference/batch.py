"""A simple network over many utterances, of which several are computed at once."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby

import torch
from torch import Tensor

from nnet3.base.kaldi_io.background import Background
from nnet3.base.options.compiling import CompileOptions
from nnet3.base.options.utterances import BatchOptions
from nnet3.engine.ir.matrices import Matrix
from nnet3.engine.runtime.memory import checked_device
from nnet3.errors import ArgumentError, ExecutionError, Nnet3Error, check_kind
from nnet3.inference.cutting import OutputChunk
from nnet3.inference.grouping import AHEAD, ChunkBatch, Lengths, minibatches, partial_size, windows
from nnet3.inference.inputs import UtteranceInputs, checked_inputs
from nnet3.inference.long_utterances import is_the_same_in_pieces, is_the_same_padded
from nnet3.inference.running import ChunkRunner
from nnet3.inference.scores import Scoring
from nnet3.model.nnet import AcousticModel, Nnet, device_of, network_of

_TRIPLE = "a tuple of key, features and ivector or None"
Utterance = tuple[str, Matrix, Matrix | None]
OnError = Callable[[str, Nnet3Error], object]

WINDOW_BYTES = 2**28
"""The features and outputs that are held at a time; a longer utterance is alone."""

WINDOW_FRAMES = 2**16
"""The same for frames: results come after as many as that."""

MINIBATCH_FRAMES = 2**14
"""Whole utterances share a minibatch up to so many frames."""

CACHED_FRAMES = 2**10
"""The same on a CPU for networks without recurrences: more gain nothing there, and leave its caches."""

_MOST_PER_CHUNK = 100_000  # frames of chunks to which shorter utterances are padded


@dataclass
class _Job:
    """An utterance that waits for its outputs, or for an error to report."""

    key: str
    inputs: UtteranceInputs = field(default_factory=lambda: UtteranceInputs(torch.empty(0)))
    error: Nnet3Error | None = None
    rows: Tensor | None = None
    chunks: list[OutputChunk] = field(default_factory=list)


class BatchComputer:
    """Computes output `output` of a simple network for many utterances, several at once, with bounded memory.

    The network runs in test mode, on the device of its parameters unless `device` is given. Options are the fields of
    `nnet3.decode.BatchOptions`, in one object or by name:

        batch = nnet3.BatchComputer(model, minibatch_size=64, frame_subsampling_factor=3)
        for key, rows in batch.compute(utterances): ...

    By default whole utterances are computed, no frame twice. A stretch of the input is sorted by length. If outputs
    depend on a fixed number of frames to the right, utterances of nearly one length share a minibatch: shorter
    utterances repeat the last frame, and none of their rows change. With recurrences, statistics or attention that look
    to the right, utterances of any lengths share a minibatch, each computed in its own length. With `frames_per_chunk`
    utterances are cut as by Kaldi's nnet3-compute-batch, or with `short_last_chunk` as by nnet3-compute, and chunks of
    all utterances share minibatches. Other utterances of a minibatch change results by no more than rounding.

    `scoring` is applied to the outputs of each utterance. `debug`: print every command, and stop at the first NaN or
    infinity.
    """

    def __init__(
        self,
        model: Nnet | AcousticModel,
        options: BatchOptions | None = None,
        device: str | torch.device | None = None,
        *,
        scoring: Scoring | None = None,
        short_last_chunk: bool = False,
        compile_options: CompileOptions | None = None,
        debug: bool = False,
        **named: float,
    ):
        check_kind(options, (BatchOptions, type(None)), "the options", "BatchOptions; numbers are given by name")
        if options is not None and named:
            raise ExecutionError(f"give options in one object or by name, not both: {', '.join(named)}")
        self.options = options or BatchOptions.named(**named)
        if self.options.frames_per_chunk > _MOST_PER_CHUNK and not short_last_chunk:
            raise ExecutionError(
                f"frames_per_chunk must be <= {_MOST_PER_CHUNK}, for shorter utterances are padded to it, got "
                f"{self.options.frames_per_chunk}; 0 stands for whole utterances"
            )
        nnet = network_of(model)
        self.device = device_of(nnet) if device is None else checked_device(device)
        self._runner = ChunkRunner(
            *(nnet, self.options, self.device),
            overlaps=not short_last_chunk,
            compile_options=compile_options,
            debug=debug,
        )
        self._scoring, self._is_padded = scoring or Scoring(), is_the_same_padded(self._runner.nnet)
        dims = self._runner.nnet.node_dim("input") + self._runner.nnet.node_dim("output") / self._factor
        self._bytes_per_frame = 4 * dims

    @property
    def _factor(self) -> int:
        return self.options.frame_subsampling_factor

    def compute(self, utterances: Iterable[Utterance], on_error: OnError | None = None) -> Iterator[tuple[str, Tensor]]:
        """Yields (key, rows) for each of (key, features, ivector), in this order; rows as of `nnet3.Nnet.compute`.

        Features are (frames, dim), the ivector is (dim,), or (rows, dim) for online ivectors, or None. A thread reads
        utterances ahead. An utterance that cannot be computed (no frames, wrong dimensions, not finite, no ivector) is
        left out: `on_error` is called with the key and the error, or else a RuntimeWarning says so. An error of the
        iterable is raised in place of its utterance.
        """
        for key, result in self.compute_all(utterances):
            if isinstance(result, Tensor):
                yield key, result
            elif on_error is not None:
                on_error(key, result)
            else:
                warnings.warn(f"utterance '{key}' left out: {result}", RuntimeWarning, stacklevel=2)

    def compute_all(self, utterances: Iterable[Utterance]) -> Iterator[tuple[str, Tensor | Nnet3Error]]:
        """Yields the key and the rows (output frames, outputs), or the error, of each of `utterances`; see `compute`.

        Raises ExecutionError if the network has been edited since the computer was made.
        """
        self._runner.edits.check()
        check_kind(utterances, Iterable, "the utterances", f"an iterable; each is {_TRIPLE}")
        source = Background(map(self._job, utterances), AHEAD)
        most = min(WINDOW_FRAMES, WINDOW_BYTES / self._bytes_per_frame)
        try:
            for window in windows(source, lambda job: len(job.inputs.features), most):
                jobs = [job for job in window if job.error is None]
                for batch in self._minibatches(jobs):
                    self._compute(jobs, batch)
                for job in window:
                    yield job.key, self._scores(job)
        finally:
            source.close(seconds=0)

    # ---- utterances ----

    def _job(self, utterance: Utterance) -> _Job:
        check_kind(utterance, tuple, "an utterance", _TRIPLE)
        if len(utterance) != 3:
            raise ArgumentError(f"an utterance must be {_TRIPLE}, got {len(utterance)} things")
        key, features, ivector = utterance
        is_online = getattr(ivector, "ndim", 1) == 2
        single, online = (None, ivector) if is_online else (ivector, None)
        try:
            return _Job(key, checked_inputs(self._runner.nnet, self.device, features, single, online))
        except Nnet3Error as error:
            return _Job(key, error=error)

    def _scores(self, job: _Job) -> Tensor | Nnet3Error:
        rows, job.rows = job.rows, None
        if rows is None or job.error is not None:
            return job.error or ExecutionError("it was not computed")
        try:
            return self._scoring.apply(rows)
        except Nnet3Error as error:
            return error

    # ---- minibatches ----

    def _minibatches(self, jobs: list[_Job]) -> Iterator[ChunkBatch]:
        parts = []
        for number, job in enumerate(jobs):
            job.chunks = self._runner.chunks(len(job.inputs.features))
            parts += [(number, chunk) for chunk in job.chunks]

        def kind(part: tuple[int, OutputChunk]) -> torch.dtype:
            return jobs[part[0]].inputs.features.dtype

        if not self.options.frames_per_chunk:
            is_cached = torch.device(self.device).type == "cpu" and is_the_same_in_pieces(self._runner.nnet)
            most = max(1, (CACHED_FRAMES if is_cached else MINIBATCH_FRAMES) // self._factor)
            lengths = Lengths.PADDED if self._is_padded else Lengths.ANY
            return minibatches(parts, kind, lambda _, count: count, lengths, most)
        if self._is_padded and not self._runner.overlaps:
            longest = max([chunk.num_outputs for _, chunk in parts], default=0)
            parts = [(number, chunk._replace(num_outputs=longest)) for number, chunk in parts]
        least = self.options.partial_minibatch_factor
        return minibatches(parts, kind, lambda most, count: partial_size(most, least, count), Lengths.EQUAL, 2**31)

    def _compute(self, jobs: list[_Job], batch: ChunkBatch) -> None:
        """Computes a minibatch; a minibatch that needs too much memory, or fails, goes in halves."""
        given = [(jobs[number].inputs, chunk) for number, chunk in batch.parts]
        chunks = [chunk for _, chunk in batch.parts]
        chunks += chunks[:1] * (batch.sequences - len(chunks))
        by_length = [list(group) for _, group in groupby(batch.parts, lambda part: part[1].num_outputs)]
        if len(by_length) > 1 and not self._runner.together(chunks):
            for parts in by_length:
                self._compute(jobs, ChunkBatch(parts, len(parts)))
            return
        if len(chunks) > 1 and not self._runner.fits(chunks):
            self._compute_halves(jobs, batch)
            return
        try:
            rows = self._runner.run(given, batch.sequences)
        except Nnet3Error as error:
            if len(batch.parts) > 1:
                self._compute_halves(jobs, batch)
            else:
                jobs[batch.parts[0][0]].error = error
            return
        for (number, chunk), own in zip(batch.parts, rows, strict=True):
            self._take(jobs[number], chunk, own[chunk.skip : chunk.skip + chunk.used], alone=len(chunks) == 1)

    def _compute_halves(self, jobs: list[_Job], batch: ChunkBatch) -> None:
        size = math.ceil(len(batch.parts) / 2) if batch.sequences <= len(batch.parts) else len(batch.parts)
        for start in range(0, len(batch.parts), size):
            parts = batch.parts[start : start + size]
            self._compute(jobs, ChunkBatch(parts, len(parts)))

    def _take(self, job: _Job, chunk: OutputChunk, rows: Tensor, *, alone: bool) -> None:
        if alone and len(job.chunks) == 1 and len(rows) == chunk.num_outputs:
            job.rows = rows
            return
        if job.rows is None:
            job.rows = rows.new_empty(sum(each.used for each in job.chunks), rows.shape[1])
        first = chunk.start + chunk.skip
        job.rows[first : first + chunk.used] = rows
