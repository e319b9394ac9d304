"""Runs a network over tables of utterances as streams, and takes the time of chunks."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

import numpy as np
import torch

from nnet3.base.options.compiling import CompileOptions
from nnet3.base.options.utterances import StreamOptions
from nnet3.cli.compute_tables import Result, Utterance
from nnet3.errors import Nnet3Error
from nnet3.inference.scores import Scoring
from nnet3.inference.stream import StreamComputer
from nnet3.model.nnet import Nnet


class LoopedRunner:
    """Computes utterances as streams; `seconds` are those of all chunks so far, `frames` of all utterances."""

    def __init__(
        self,
        nnet: Nnet,
        scoring: Scoring,
        options: StreamOptions,
        device: str,
        online_ivector_period: int,
        *,
        compile_options: CompileOptions | None = None,
        debug: bool = False,
    ) -> None:
        """Prepares a network on its device. Raises Nnet3Error for a network that cannot be run in streams."""
        self._scoring = scoring
        self._streams = StreamComputer(
            nnet, **options.values(), device=device, compile_options=compile_options, debug=debug
        )
        self._streams.prepare()  # the report is of chunks, not of compiling
        self._period, self.seconds, self.frames = online_ivector_period, list[float](), 0

    def __call__(self, utterances: Iterable[Utterance]) -> Iterator[Result]:
        for key, features, ivector, online in utterances:
            try:
                chunks = self._streams.compute_chunks(features, ivector, online, self._period or 1)
                yield key, self._scoring.apply(torch.cat(list(self._timed(chunks))))
            except Nnet3Error as error:
                yield key, error
            else:
                self.frames += len(features)

    def _timed(self, chunks: Iterator[torch.Tensor]) -> Iterator[torch.Tensor]:
        while True:
            start = time.perf_counter()
            rows = next(chunks, None)
            if rows is None:
                return
            self.seconds.append(time.perf_counter() - start)
            yield rows

    def report(self, frame_shift: float) -> str:
        """Returns what chunks took, and how late outputs come; `frame_shift` is the seconds of a frame."""
        program, latency = self._streams.program, self._streams.latency
        outputs = f"outputs come up to {latency} frames ({1000 * latency * frame_shift:.0f} ms) after their own"
        if not self.seconds:
            return outputs
        p50, p99 = 1000 * np.percentile(self.seconds, [50, 99])
        factor = sum(self.seconds) / max(self.frames * frame_shift, 1e-9)
        return (
            f"{len(self.seconds)} chunks of {program.frames_per_chunk} frames: p50 {p50:.2f} ms, p99 {p99:.2f} ms, "
            f"real-time factor {factor:.3f}; {outputs}"
        )
