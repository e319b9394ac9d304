"""AcousticStream: audio in, rows of scores for the search out, as Vosk's main loop has it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nnet3.errors import ExecutionError, NumericalError
from nnet3.inference.stream import StreamComputer
from nnet3.speech.arrays.aliases import Doubles, Integers, Rows
from nnet3.speech.asr.model_folder import FrontModel
from nnet3.speech.features.audio import Audio, PcmReader, Samples, whole_rate
from nnet3.speech.features.features import FeatureStream, OnlineCmvn
from nnet3.speech.features.ivectors import OnlineIvectors, SpeakerState
from nnet3.speech.features.silence import NEWEST_ROWS, SilenceWeighting

#: Gives the best path of the search so far from a row on: the transition-id of each row, and the token that its arc
#: leaves.
BestPath = Callable[[int], "tuple[npt.ArrayLike, npt.ArrayLike] | None"]

Scores = npt.NDArray[np.float32]

_NO_SAMPLES = np.zeros(0, np.float32)
_PIECE_SECONDS = 0.2  # of audio, after which the ivector may change


class SpeakerKnown(NamedTuple):
    """A speaker before a stream: statistics for ivectors, and sums of frames for the network's normalised input."""

    ivectors: SpeakerState | None = None
    input_stats: Doubles | None = None


UNKNOWN_SPEAKER = SpeakerKnown()


class AcousticStream:
    """One stream of audio, which becomes rows of scores.

        for rows in stream.accept(audio):   # the search takes rows before the next rows are computed
            search.advance(rows)
        search.advance(stream.finish())

    Each call cuts the audio into pieces of 0.2 s. A chunk of the network takes the ivector of the newest frame. If the
    model names phones of silence, frames of silence count less in ivectors, by the best path of the search:
    `best_path(first)` returns the path from row `first` of the segment on. `speaker`: statistics of earlier streams.
    `rate`: of samples, in Hz; of several `channels`, `channel` is heard, by default their mean.
    """

    def __init__(
        self,
        front: FrontModel,
        computer: StreamComputer,
        rate: float,
        best_path: BestPath | None = None,
        *,
        channels: int = 1,
        channel: int | None = None,
        speaker: SpeakerKnown = UNKNOWN_SPEAKER,
    ):
        self.front, self.rate, self._speaker = front, rate, speaker
        self.num_rows = 0  # that were given out
        self._reader, self._features = PcmReader(channels, channel), FeatureStream(front.features, whole_rate(rate))
        self._pitch = None if front.pitch is None else front.pitch.columns(front.features.dim, whole_rate(rate))
        self._cmvn = None if front.cmvn is None else OnlineCmvn(*front.cmvn, speaker.input_stats)
        self._piece = int(_PIECE_SECONDS * rate)
        self._num_frames, self._num_chunks = 0, 0
        is_weighted = best_path is not None and front.silence_weighting.is_active
        self._ivectors: OnlineIvectors | None = None
        if front.ivectors is not None:
            self._ivectors = OnlineIvectors(front.ivectors, speaker.ivectors, weighted=is_weighted)
        self._is_weighted = is_weighted and self._ivectors is not None
        self.begin_segment(best_path)
        self._computer, self._stream = computer, computer.open()

    def begin_segment(self, best_path: BestPath | None = None) -> None:
        """Lets the search begin anew with the next row; features, ivectors and the network go on."""
        if self._is_weighted and best_path is None:
            raise ExecutionError("the frames of this stream have weights: give the best path of each segment")
        self._best_path = best_path
        self._silence: SilenceWeighting | None = None
        if self._is_weighted:
            factor = self.front.decoding.frame_subsampling_factor
            model = self.front.acoustic_model.transition_model
            options = self.front.silence_weighting
            self._silence = SilenceWeighting(
                *(model, options.silence_phones, factor, factor * self.num_rows),
                *(options.silence_weight, options.max_state_duration),
            )

    def newest_ids(self, path: tuple[Integers, Integers]) -> tuple[int, Integers]:
        """Returns the first row and the transition-ids of the segment's last rows, at most `NEWEST_ROWS`.

        path: transition-ids and tokens, (rows,) each, of the segment's best path. Where frames have weights, the row at
        which the path and the path before meet keeps its transition-id; rows ahead of the search have -1.
        """
        if self._silence is None:
            first = max(len(path[0]) - NEWEST_ROWS, 0)
            return first, path[0][first:]
        self._silence.trace(*path)
        return self._silence.newest_ids()

    def accept(self, audio: Audio) -> Iterator[Scores]:
        """Yields the rows of scores, (rows, pdfs), made available by each piece of the audio."""
        for piece in self.pieces(audio):
            yield compute_scores([self.feed(piece)])[self]

    def pieces(self, audio: Audio) -> Iterator[Samples]:
        """Yields the samples of audio, 0.2 s at a time; see `feed` and `accept_pieces`."""
        samples = self._reader.read(audio)
        for first in range(0, len(samples), self._piece):
            yield samples[first : first + self._piece]

    def feed(self, piece: Samples) -> NetworkInputs:
        """Makes features and an ivector of a piece of audio (see `pieces`): the input of `compute_scores`."""
        return NetworkInputs(self, *self._feed(piece))

    def finish(self, piece: Samples = _NO_SAMPLES) -> Scores:
        """Ends the stream, maybe with a last piece; returns the last rows of scores, (rows, pdfs)."""
        frames, ivector = self._feed(piece, last=True)
        if self._num_frames == 0:
            self._stream.close()
            return np.zeros((0, self._computer.nnet.node_dim("output")), np.float32)
        rows = self._stream.accept(frames, ivector).cpu().numpy()
        return self._given_out(np.concatenate([rows, self._stream.finish().cpu().numpy()]))

    def close(self) -> None:
        """Ends the stream without its last rows."""
        self._stream.close()

    def speaker_known(self) -> SpeakerKnown:
        """Returns statistics of the speaker with all frames up to now, for the speaker's next stream."""
        stats = self._speaker.input_stats
        if self._cmvn is not None:
            stats = self._cmvn.stats.copy() if stats is None else stats + self._cmvn.stats
        return SpeakerKnown(None if self._ivectors is None else self._ivectors.speaker_state(), stats)

    def _feed(self, samples: Samples, last: bool = False) -> tuple[Rows, npt.NDArray[np.float32] | None]:
        """Returns the new frames of a piece of audio, (frames, dim), and a new ivector, (dim,), or None."""
        plain = self._features.accept(samples, last)
        frames = plain if self._pitch is None else self._pitch.accept(plain, samples, last)
        if self._cmvn is not None:
            frames = self._cmvn.next_rows(frames)
        self._num_frames += len(frames)
        if self._ivectors is None:
            return frames, None
        self._ivectors.accept(plain, last)
        self._weigh()
        return frames, self._ivector() if self._has_chunk(last) else None

    def _given_out(self, rows: Scores) -> Scores:
        self.num_rows += len(rows)
        return rows

    def _has_chunk(self, last: bool) -> bool:
        """Returns true if the network now computes a new chunk; without right context the end may bring none."""
        program, before = self._computer.program, self._num_chunks
        while self._num_frames >= program.frames_until(self._num_chunks):
            self._num_chunks += 1
        return self._num_chunks > before or (last and self._num_frames > before * program.frames_per_chunk)

    def _ivector(self) -> npt.NDArray[np.float32]:
        assert self._ivectors is not None
        ready = min(self._ivectors.ready, self._num_frames)
        return self._ivectors.at(ready - 1) if ready else np.zeros(self._ivectors.model.dim, np.float32)

    def _weigh(self) -> None:
        if self._silence is None or self._ivectors is None or self._best_path is None:
            return
        ready = min(self._ivectors.ready, self._num_frames)
        if not ready:
            return
        for first in (self._silence.first_row, self._silence.first_kept):
            path = self._best_path(first)
            if path is None or self._silence.trace(*path, first):
                break
        self._ivectors.weigh(*self._silence.changes(ready))
        self._ivectors.settle(min(self._silence.first_open, self._silence.factor * self.num_rows))


class NetworkInputs(NamedTuple):
    """The network's inputs of a piece of audio: new frames, (frames, dim), and a new ivector, or None."""

    stream: AcousticStream
    frames: Rows
    ivector: npt.NDArray[np.float32] | None


def compute_scores(inputs: Iterable[NetworkInputs]) -> dict[AcousticStream, Scores]:
    """Gives the inputs of different streams to the network; returns each stream's new scores, (rows, pdfs).

    Streams at the same point run together. All streams belong to one computer.
    """
    given = {each.stream: each for each in inputs}
    computers = {stream._computer for stream in given}
    if len(computers) > 1:
        raise ExecutionError(f"these streams are of {len(computers)} computers: only those of one run together")
    frames = {stream._stream: each.frames for stream, each in given.items()}
    ivectors = {stream._stream: each.ivector for stream, each in given.items() if each.ivector is not None}
    rows = computers.pop().accept(frames, ivectors) if given else {}
    return {stream: stream._given_out(rows[stream._stream].cpu().numpy()) for stream in given}


def compute_each(
    inputs: Iterable[NetworkInputs], compute: Callable[[Iterable[NetworkInputs]], dict[AcousticStream, Scores]]
) -> dict[AcousticStream, Scores | Exception]:
    """Runs `compute`, which is `compute_scores`, for streams of several computers.

    Returns scores (rows, pdfs) or, for a stream that has failed, the error.
    """
    found: dict[AcousticStream, Scores | Exception] = {}
    groups: dict[StreamComputer, list[NetworkInputs]] = {}
    for each in inputs:
        groups.setdefault(each.stream._computer, []).append(each)
    for group in groups.values():
        try:
            found |= compute(group)
        except ExecutionError as error:
            is_given = isinstance(error, NumericalError)  # one stream has ended by it; the rows of the others are there
            for each in group:
                try:
                    found |= compute([each._replace(frames=each.frames[:0], ivector=None) if is_given else each])
                except ExecutionError as error_of_one:
                    found[each.stream] = error_of_one
        except Exception as error:
            found |= dict.fromkeys((each.stream for each in group), error)
    return found


def accept_pieces(pieces: Mapping[AcousticStream, Samples]) -> dict[AcousticStream, Scores]:
    """Gives some streams one piece of `AcousticStream.pieces` per stream; see `compute_scores`."""
    return compute_scores([stream.feed(samples) for stream, samples in pieces.items()])
