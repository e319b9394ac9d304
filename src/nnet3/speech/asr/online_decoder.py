"""OnlineDecoder: recordings in, lattices out, heard piece by piece as Kaldi's online2 programs do (rescoring.md 10)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from nnet3.errors import ExecutionError
from nnet3.inference.stream import StreamComputer
from nnet3.speech.arrays.aliases import Integers
from nnet3.speech.asr.acoustic_stream import UNKNOWN_SPEAKER, AcousticStream, Scores, SpeakerKnown, compute_scores
from nnet3.speech.asr.model_folder import FrontModel
from nnet3.speech.features.audio import Samples, pieces, samples_at_once
from nnet3.speech.search.beam_search import BeamSearch
from nnet3.speech.search.endpoints import Endpointing, silent_rows
from nnet3.speech.search.utterance_decoder import DecodedUtterance


class Hearing(Protocol):
    """The search of an utterance, or of a segment of a stream."""

    @property
    def search(self) -> BeamSearch:
        """The search; another object may come with the next call."""

    def accept(self, scores: Scores) -> None:
        """Takes scores, (rows, pdfs), scaled log-likelihoods."""

    def found(self) -> DecodedUtterance:
        """Returns the result at the end of the search."""


@dataclass(frozen=True, eq=False)
class OnlineDecoder:
    """Decodes streams of audio, each with a search from `begin`.

    `chunk_seconds` of audio are taken at a time, all at once if not above 0. With `endpoints` an utterance is over
    once its speaker has paused, and what follows is not heard.
    """

    front: FrontModel
    begin: Callable[[], Hearing]
    chunk_seconds: float
    endpoints: Endpointing | None = None
    silence_phones: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.endpoints is not None and not self.silence_phones:
            raise ExecutionError("endpoints need the phones that are silence: give --endpoint.silence-phones")

    @cached_property
    def computer(self) -> StreamComputer:
        """The computer of the scores of one stream."""
        return self.front.computer()

    def decode(
        self, rate: float, samples: Samples, speaker: SpeakerKnown = UNKNOWN_SPEAKER
    ) -> tuple[DecodedUtterance, SpeakerKnown]:
        """Returns what the samples of an utterance, (n,), say, and what is known of the speaker afterwards.

        The last piece comes together with the end of the input. Raises ExecutionError for an utterance too short for a
        row, ArgumentError for a rate that the features do not take.
        """
        with OnlineStream(self, rate, speaker) as stream:
            for piece, is_last in pieces(samples, samples_at_once(rate, self.chunk_seconds)):
                stream.accept(piece, is_last)
                if self.endpoints is not None and stream.has_paused():
                    break
            if not stream.num_rows:
                raise ExecutionError(f"{len(samples) / rate:g} s of audio are too short: not a row was decoded")
            return stream.hearing.found(), stream.speaker_known()


class OnlineStream:
    """A stream of audio, taken through the network and the searches of segments."""

    def __init__(self, decoder: OnlineDecoder, rate: float, speaker: SpeakerKnown = UNKNOWN_SPEAKER):
        self._decoder, self.hearing = decoder, decoder.begin()
        self._acoustic = AcousticStream(decoder.front, decoder.computer, rate, self._trace, speaker=speaker)
        self._is_open = True

    def __enter__(self) -> OnlineStream:
        return self

    def __exit__(self, *error: object) -> None:
        if self._is_open:
            with suppress(ExecutionError):  # a stream whose scores are not finite has ended
                self._acoustic.close()

    @property
    def num_rows(self) -> int:
        """The rows of the segment."""
        return self.hearing.search.num_rows

    def accept(self, piece: Samples, is_last: bool = False) -> None:
        """Takes samples, (n,), and searches as far as they allow; the last samples end the stream."""
        if is_last:
            rows = self._acoustic.finish(piece)
            self._is_open = False
            self.hearing.accept(rows)
        else:
            self.hearing.accept(compute_scores([self._acoustic.feed(piece)])[self._acoustic])

    def has_paused(self) -> bool:
        """Returns true if a rule for endpoints says that the segment is over."""
        search, decoder = self.hearing.search, self._decoder
        if decoder.endpoints is None:
            return False
        model = decoder.front.acoustic_model.transition_model
        trailing = silent_rows(search, model, decoder.silence_phones)
        return bool(decoder.endpoints.which(search.num_rows, trailing, search.relative_cost))

    def begin_segment(self) -> None:
        """Begins a new search with the next row; features, ivectors and the network go on."""
        self.hearing = self._decoder.begin()
        self._acoustic.begin_segment(self._trace)

    def speaker_known(self) -> SpeakerKnown:
        """Returns what is known of the speaker after the audio up to now."""
        return self._acoustic.speaker_known()

    def _trace(self, first: int) -> tuple[Integers, Integers] | None:
        return self.hearing.search.newest(first)
