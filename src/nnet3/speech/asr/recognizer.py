"""Model and Recognizer: from audio to words, with plain names and with those of Vosk's Python API."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Generator, Sequence
from typing import Any

import numpy as np
import torch

from nnet3.base.text import read_json
from nnet3.errors import ArgumentError, ExecutionError, ModelFormatError
from nnet3.inference.stream import StreamComputer
from nnet3.speech.asr.acoustic_stream import AcousticStream, NetworkInputs, Scores, compute_scores
from nnet3.speech.asr.audio import Audio, Resampler
from nnet3.speech.asr.decoding import DecodingGraph, Segment
from nnet3.speech.asr.endpoints import Endpointing, silent_rows
from nnet3.speech.asr.model_folder import ModelFolder
from nnet3.speech.asr.transcript import subtitles
from nnet3.speech.asr.vosk_json import NOTHING_HEARD, SpokenText, TimedWord, partial_json, result_json

_LOG = logging.getLogger("nnet3")
_MOST_ROWS = 20_000  # a stream that is longer begins anew with its next segment
_NOTHING = SpokenText([])


class Model:
    """A model directory of Vosk or Kaldi, loaded: the network, the ivector extractor and the graph of words.

    Recognizers share it, also those of several threads. `graph` is another folder with the graph. Raises
    ModelFormatError for files that are missing or of different models.
    """

    def __init__(
        self,
        model_path: str | os.PathLike[str],
        graph: str | os.PathLike[str] | None = None,
        *,
        device: str | torch.device | None = None,
    ):
        self.folder = ModelFolder(model_path, graph)
        files = self.folder.graph_files()
        self.front = self.folder.load()
        self.transition_model = self.front.acoustic_model.transition_model
        self.graph = DecodingGraph.load(files, self.transition_model)
        outputs = self.front.acoustic_model.nnet.node_dim("output")
        if self.transition_model.num_pdfs != outputs:
            raise ModelFormatError(
                f"the network has {outputs} outputs, but its transition model {self.transition_model.num_pdfs} pdfs",
                str(self.folder.path),
            )
        self.seconds_per_row = self.front.seconds_per_row
        self.endpointing = Endpointing(self.folder.endpoint_rules, self.seconds_per_row)
        self._device = device
        self._idle: list[StreamComputer] = []

    @property
    def sample_rate(self) -> float:
        """The rate that the features want; audio of another rate is resampled."""
        return self.front.features.sample_frequency

    def vosk_model_find_word(self, word: str) -> int:
        """Returns the number of a word, -1 if the model does not know it."""
        return self.graph.words.labels.get(word, -1)

    def computer(self, num_streams: int = 1) -> StreamComputer:
        """Returns a new computer of scores, for as many recognizers at a time."""
        return self.front.computer(num_streams, self._device)

    def take_computer(self) -> StreamComputer:
        """Lends a computer of the scores of one stream."""
        return self._idle.pop() if self._idle else self.computer()

    def give_computer_back(self, computer: StreamComputer) -> None:
        """Takes a computer back whose stream has ended."""
        self._idle.append(computer)


class Recognizer:
    """Hears one stream of audio, segment by segment, as Vosk does.

        recognizer = nnet3.asr.Recognizer(model, 16000)
        for piece in pieces:                  # bytes, int16, or floats in the scale of 16 bits
            if recognizer.accept(piece):      # the speaker has paused
                print(recognizer.result().text)
        print(recognizer.finish().text)

    `result` ends a segment: the search begins anew, while features, ivectors and the network go on. `finish` ends the
    stream; what comes then is another one. `phrases` limits what can be heard, with models whose graph is for
    look-ahead. The names with capitals are Vosk's, and give its JSON. `alternatives` is how many ways to read a
    segment a result has besides the words that are best. `with_partial_words` gives partial results confidences: of the
    words that the lattice has already, as in Vosk, or, with `all_partial_words`, of those of all audio. `computer`, of
    `model.computer`, computes the scores of several recognizers; else each has one of its own.
    """

    def __init__(
        self,
        model: Model,
        sample_rate: float,
        phrases: str | Sequence[str] | None = None,
        *,
        alternatives: int = 0,
        channels: int = 1,
        channel: int | None = None,
        computer: StreamComputer | None = None,
    ):
        if not isinstance(model, Model):
            raise ArgumentError(f"a recognizer needs an nnet3.asr.Model, got {type(model).__name__}")
        Resampler(sample_rate, model.sample_rate)  # is it a rate?
        self.model, self.rate, self.alternatives = model, sample_rate, alternatives
        self.with_words = self.with_partial_words = self.all_partial_words = False
        self._channels, self._channel = channels, channel
        self._graph = model.graph
        self._stream: AcousticStream | None = None
        self._computer, self._is_shared = computer, computer is not None
        self._segment: Segment | None = None  # None between segments
        self._first_row, self._samples, self._start = 0, 0, 0.0
        self._is_closed = False
        if isinstance(phrases, str):
            self.SetGrammar(phrases)
        elif phrases is not None:
            self.set_phrases(phrases)

    # ---- plain names ----

    @property
    def alternatives(self) -> int:
        """The number of other ways to read a segment that a result has."""
        return self._alternatives

    @alternatives.setter
    def alternatives(self, number: int) -> None:
        if not isinstance(number, int | np.integer) or number < 0:
            raise ArgumentError(f"the number of alternatives must be a whole number from 0 on, got {number!r:.80}")
        self._alternatives = int(number)

    def accept(self, audio: Audio) -> bool:
        """Takes audio of any length; returns True if the speaker has paused, which is when to ask for the result."""
        steps = self.steps(audio)
        try:
            inputs = next(steps)
            while True:
                inputs = steps.send(compute_scores([inputs])[inputs.stream])
        except StopIteration as end:
            return end.value

    def steps(
        self, audio: Audio, is_over: Callable[[], bool] = lambda: False
    ) -> Generator[NetworkInputs, Scores, bool]:
        """Does the work of `accept`, for a caller who runs the network for many recognizers of one computer at a time.

        Yields the network's inputs for each piece of 0.2 s, and wants their scores, from `compute_scores`. Once
        `is_over`, the remaining pieces are dropped.
        """
        stream, segment = self._begin()
        for piece in stream.pieces(audio):
            if is_over():
                break
            segment.accept((yield stream.feed(piece)))
            self._samples += len(piece)
        return self._is_endpoint(segment)

    def result(self) -> SpokenText:
        """Returns what was said since the last result, and ends the segment."""
        self._check_open()
        found = self._found()
        self._segment = None
        return found

    def partial(self) -> SpokenText:
        """Returns the words apparently said since the last result; more audio may change them."""
        self._check_open()
        segment = self._segment
        if segment is None or segment.search.num_rows == 0:
            return _NOTHING
        if self.with_partial_words:
            found = segment.found(use_final=False) if self.all_partial_words else segment.settled()
            return _NOTHING if found is None else found.text(self.model.seconds_per_row, self._begin_time)
        path = segment.search.best_path()
        if path is None:
            return _NOTHING
        ends = (self._begin_time + self.model.seconds_per_row * path.word_rows).tolist()
        names = [self._graph.words[label] for label in path.words.tolist()]
        return SpokenText([TimedWord(*word) for word in zip(names, [self._begin_time, *ends[:-1]], ends, strict=False)])

    def finish(self) -> SpokenText:
        """Ends the stream; returns what was said since the last result."""
        self._check_open()
        if self._stream is None or self._segment is None:
            self._drop_stream()
            return _NOTHING
        self._segment.accept(self._stream.finish())
        found = self._found()
        self._end_stream()
        return found

    def reset(self) -> None:
        """Drops what was said since the last result."""
        self._check_open()
        self._segment = None

    def set_phrases(self, phrases: Sequence[str] | None) -> None:
        """Limits what can be heard to these phrases, in any order and in parts; None: all words. A new stream begins.

        Words that the model does not know are left out, with a warning. Raises ArgumentError if the model cannot be
        limited, ExecutionError within a segment.
        """
        self._check_open()
        if self._segment is not None:
            raise ExecutionError("phrases change between segments only: ask for the result first, or reset")
        if phrases is None:
            graph = self.model.graph
        else:
            if isinstance(phrases, str) or not all(isinstance(phrase, str) for phrase in phrases):
                raise ArgumentError(f"phrases must be a list of texts, got {phrases!r:.80}")
            graph, unknown = self.model.graph.with_phrases(phrases)
            if unknown:
                _LOG.warning("the model does not know these words of the phrases: %s", ", ".join(unknown))
        self._drop_stream()
        self._graph = graph

    def close(self) -> None:
        """Ends the recognizer; it hears nothing any more."""
        self._is_closed = True
        self._drop_stream()

    def __enter__(self) -> Recognizer:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # ---- Vosk's names ----

    def AcceptWaveform(self, data: Audio) -> int:
        """`accept`: 1 if the speaker has paused, else 0."""
        return int(self.accept(data))

    def Result(self) -> str:
        """`result` as JSON."""
        return self._json(self.result())

    def FinalResult(self) -> str:
        """`finish` as JSON."""
        return self._json(self.finish())

    def PartialResult(self) -> str:
        """`partial` as JSON; between segments that of an empty result."""
        if self._segment is None:
            return self._json(self.partial())
        return partial_json(self.partial().words, self.with_partial_words)

    def SetWords(self, enable_words: bool) -> None:
        """Words with times and confidences in JSON."""
        self.with_words = bool(enable_words)

    def SetPartialWords(self, enable_partial_words: bool) -> None:
        """Words with times and confidences in partial results, those that the lattice has already; see the class."""
        self.with_partial_words = bool(enable_partial_words)

    def SetMaxAlternatives(self, max_alternatives: int) -> None:
        """Gives so many alternatives in JSON instead of the best words."""
        self.alternatives = max_alternatives

    def SetGrammar(self, grammar: str) -> None:
        """`set_phrases` of a JSON list; an empty one: all words. A model whose graph is fixed warns, as Vosk does."""
        try:
            phrases: Any = read_json(grammar)
        except (TypeError, ValueError):
            phrases = None
        if not isinstance(phrases, list):
            raise ArgumentError(f'a grammar is a JSON list of phrases, such as ["yes", "no"], got {grammar!r:.80}')
        if phrases and not self.model.graph.takes_phrases:
            _LOG.warning("this model has one graph of all words: the grammar changes nothing")
            return
        self.set_phrases(phrases or None)

    def Reset(self) -> None:
        """`reset`."""
        self.reset()

    def SrtResult(self, stream: Any, words_per_line: int = 7) -> str:
        """Reads a binary stream of 16-bit samples to its end; returns subtitles."""
        heard: list[SpokenText] = []
        while data := stream.read(4000):
            if self.accept(data):
                heard.append(self.result())
        return subtitles([*heard, self.finish()], words_per_line)

    # ---- segments and streams ----

    def _begin(self) -> tuple[AcousticStream, Segment]:
        """Returns the stream and the segment for the next audio, new ones after the end of the old."""
        self._check_open()
        if self._segment is not None and self._stream is not None:
            return self._stream, self._segment
        if self._stream is not None and self._stream.num_rows > _MOST_ROWS:
            self._drop_stream()
        segment = self._graph.start(self.model.front.decoding)
        if self._stream is None:
            self._start += self._samples / self.rate
            self._samples = 0
            if self._computer is None:
                self._computer = self.model.take_computer()
            self._stream = AcousticStream(
                *(self.model.front, self._computer, self.rate, segment.trace),
                channels=self._channels,
                channel=self._channel,
            )
        else:
            self._stream.begin_segment(segment.trace)
        self._segment, self._first_row = segment, self._stream.num_rows
        return self._stream, segment

    def _drop_stream(self) -> None:
        """Ends the stream without its last rows."""
        if self._stream is not None:
            self._stream.close()
        self._end_stream()

    def _end_stream(self) -> None:
        if self._computer is not None and not self._is_shared:
            self.model.give_computer_back(self._computer)
            self._computer = None
        self._segment = self._stream = None

    def _check_open(self) -> None:
        if self._is_closed:
            raise ExecutionError("this recognizer is closed")

    @property
    def _begin_time(self) -> float:
        """The time at which the segment begins, in seconds."""
        return self._start + self.model.seconds_per_row * self._first_row

    def _is_endpoint(self, segment: Segment) -> bool:
        search, model = segment.search, self.model
        trailing = silent_rows(search, model.transition_model, model.folder.silence_phones)
        return bool(model.endpointing.which(search.num_rows, trailing, search.relative_cost))

    def _found(self) -> SpokenText:
        """Returns the words of the segment up to now."""
        segment = self._segment
        if segment is None or segment.search.num_rows == 0:
            return _NOTHING
        found = segment.found()
        for notice in segment.notices:
            _LOG.warning("%s", notice)
        if found is None:
            return _NOTHING
        return found.text(self.model.seconds_per_row, self._begin_time, self.alternatives)

    def _json(self, spoken: SpokenText) -> str:
        if self.alternatives and not spoken.alternatives:
            return NOTHING_HEARD
        return result_json(spoken, self.with_words, self.alternatives)


KaldiRecognizer = Recognizer


def SetLogLevel(level: int) -> None:
    """Says less below 0, as in Vosk: errors only."""
    _LOG.setLevel(logging.ERROR if level < 0 else logging.DEBUG if level > 0 else logging.WARNING)
