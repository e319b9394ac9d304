"""Model and Recognizer: from audio to words, with plain names and with those of Vosk's Python API."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from nnet3.engine.runtime.memory import checked_device
from nnet3.errors import ArgumentError, ExecutionError, ModelFormatError
from nnet3.inference.stream import StreamComputer
from nnet3.speech.asr import at_first_use
from nnet3.speech.asr.acoustic_stream import AcousticStream, NetworkInputs, Scores, compute_scores
from nnet3.speech.asr.decoding import DecodingGraph, Segment
from nnet3.speech.asr.exclusive_use import ExclusiveUse, alone
from nnet3.speech.asr.model_folder import ModelFolder
from nnet3.speech.asr.model_search import ModelSearch
from nnet3.speech.asr.segment_words import SegmentWords
from nnet3.speech.asr.vosk_json import Json, SpokenText
from nnet3.speech.asr.vosk_names import VoskNames
from nnet3.speech.features.audio import Audio, PcmReader, Resampler, whole_rate
from nnet3.speech.search.endpoints import Endpointing, silent_rows

if TYPE_CHECKING:
    from nnet3.speech.asr.model_rescoring import Rescoring
    from nnet3.speech.asr.speakers import SpeakerStream, SpkModel

_LOG = logging.getLogger("nnet3")
_MOST_ROWS = 20_000  # a stream that is longer begins anew with its next segment
_MOST_ALTERNATIVES = 10_000  # of a segment
_NOTHING = SpokenText([])


class Model(ModelSearch):
    """A model directory of Vosk or Kaldi, loaded: the network, the ivector extractor and the graph of words.

    Without `model_path` the directory is looked for in `MODEL_DIRS`, by `model_name` or by the language `lang` in its
    name. Recognizers share a model, in several threads too. `graph`: another folder with the graph. `device`: of the
    network, by default the CPU. Raises
    ModelFormatError for files that are missing or of different models, ArgumentError if no directory is found,
    ExecutionError for an unknown device.
    """

    def __init__(
        self,
        model_path: str | os.PathLike[str] | None = None,
        model_name: str | None = None,
        lang: str | None = None,
        *,
        graph: str | os.PathLike[str] | None = None,
        device: str | torch.device | None = None,
    ):
        if device is not None:
            checked_device(device)
        self.folder = ModelFolder(self.get_model_path(model_name, lang) if model_path is None else model_path, graph)
        files = self.folder.graph_files()
        self.front = self.folder.load()
        self.transition_model = self.front.acoustic_model.transition_model
        self.graph = DecodingGraph.load(files, self.transition_model)
        self.rescoring = self._load_rescoring()
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

    def _load_rescoring(self) -> Rescoring | None:
        """Loads the models for rescoring, if the directory has them."""
        return self.folder.load_rescoring(self.graph.words)

    @property
    def sample_rate(self) -> float:
        """The rate that the features want; audio of another rate is resampled."""
        return self.front.features.sample_frequency

    def vosk_model_find_word(self, word: str) -> int:
        """Returns the number of a word, -1 if the model does not know it."""
        return self.graph.words.labels.get(word, -1) if isinstance(word, str) else -1

    FindWord = vosk_model_find_word  # the name in Vosk's other languages

    def computer(self, num_streams: int = 1) -> StreamComputer:
        """Returns a new computer of scores for up to `num_streams` recognizers at a time."""
        return self.front.computer(num_streams, self._device)

    def take_computer(self) -> StreamComputer:
        """Lends a computer of the scores of one stream."""
        try:
            return self._idle.pop()
        except IndexError:  # all are in use
            return self.computer()

    def give_computer_back(self, computer: StreamComputer) -> None:
        """Takes a computer back whose stream has ended."""
        self._idle.append(computer)


class Recognizer(ExclusiveUse, VoskNames):
    """Hears one stream of audio, segment by segment, as Vosk does.

        recognizer = nnet3.asr.Recognizer(model, 16000)
        for piece in pieces:                  # bytes, int16, or floats in the scale of 16 bits
            if recognizer.accept(piece):      # the speaker has paused
                print(recognizer.result().text)
        print(recognizer.finish().text)

    `result` ends a segment: the search begins anew, while features, ivectors and the network go on. `finish` ends the
    stream; what comes then is another one. `phrases` limits what can be heard, with models whose graph is for
    look-ahead. With a speaker model, as `speaker_model` or in the place of phrases, results have the speaker's vector.
    The names with capitals are Vosk's, and give its JSON. `alternatives` is how many ways to read a segment a result
    has besides the words that are best. `endpointing` are the rules by which a speaker has paused.
    `with_partial_words` gives partial results confidences: of the words that the lattice has already, as in Vosk, or,
    with `all_partial_words`, of those of all audio. `computer`, of `model.computer`, computes the scores of several
    recognizers; else each has one of its own.
    """

    def __init__(
        self,
        model: Model,
        sample_rate: float,
        phrases: str | Sequence[str] | SpkModel | None = None,
        *,
        speaker_model: SpkModel | None = None,
        alternatives: int = 0,
        channels: int = 1,
        channel: int | None = None,
        computer: StreamComputer | None = None,
    ):
        if not isinstance(model, Model):
            raise ArgumentError(f"a recognizer needs an nnet3.asr.Model, got {type(model).__name__}")
        if not isinstance(computer, StreamComputer | None):
            raise ArgumentError(f"a computer is one of the model's method computer, got {type(computer).__name__}")
        super().__init__()
        PcmReader(channels, channel)  # are there such?
        self._whole_rate = whole_rate(sample_rate)
        Resampler(self._whole_rate, model.sample_rate)  # can it be had?
        self.model, self.rate, self.alternatives = model, float(sample_rate), alternatives
        self.endpointing = model.endpointing
        self.with_words = self.with_partial_words = self.with_nlsml = self.all_partial_words = False
        self._channels, self._channel = channels, channel
        self._graph = model.graph
        self._stream: AcousticStream | None = None
        self._computer, self._is_shared = computer, computer is not None
        self._segment: Segment | None = None  # None between segments
        self._speaker_model: SpkModel | None = None
        self._speaker: SpeakerStream | None = None
        self._first_row, self._samples, self._start = 0, 0, 0.0
        if phrases is not None and isinstance(phrases, at_first_use.SpkModel):
            speaker_model = phrases
        elif isinstance(phrases, str):
            self.SetGrammar(phrases)
        elif phrases is not None:
            self.set_phrases(phrases)
        if speaker_model is not None:
            self.set_speaker_model(speaker_model)

    # ---- plain names ----

    @property
    def alternatives(self) -> int:
        """How many of a segment's best paths a result lists, 0 for none; below 0, Vosk's JSON is `null`."""
        return self._alternatives

    @alternatives.setter
    def alternatives(self, number: int) -> None:
        if not isinstance(number, int | np.integer):
            raise ArgumentError(f"the number of alternatives must be a whole number, got {number!r:.80}")
        if number > _MOST_ALTERNATIVES:
            raise ArgumentError(f"at most {_MOST_ALTERNATIVES} alternatives are listed, got {number}")
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
        with self.at_work():
            stream, segment = self._begin()
            for piece in stream.pieces(audio):
                if is_over():
                    break
                segment.accept((yield stream.feed(piece)))
                if self._speaker is not None:
                    self._speaker.accept(piece)
                self._samples += len(piece)
            return self._is_endpoint(segment)

    @alone
    def result(self) -> SpokenText:
        """Returns what was said since the last result, and ends the segment."""
        found = self._found()
        self._segment = None
        return found

    @alone
    def partial(self) -> SpokenText:
        """Returns the words apparently said since the last result; more audio may change them."""
        words = self._words()
        if words is None:
            return _NOTHING
        return (words.sure(self.all_partial_words) if self.with_partial_words else words.best()) or _NOTHING

    @alone
    def finish(self) -> SpokenText:
        """Ends the stream; returns what was said since the last result."""
        if self._stream is None or self._segment is None:
            self._drop_stream()
            return _NOTHING
        self._segment.accept(self._stream.finish())
        found = self._found()
        self._end_stream()
        return found

    @alone
    def reset(self) -> None:
        """Drops what was said since the last result."""
        self._segment = None

    @alone
    def set_phrases(self, phrases: Sequence[str] | None) -> None:
        """Limits what can be heard to these phrases, in any order and in parts; None: all words. A new stream begins.

        Words that the model does not know are left out, with a warning. Raises ArgumentError if the model cannot be
        limited, ExecutionError within a segment.
        """
        if self._segment is not None:
            raise ExecutionError("phrases change between segments only: ask for the result first, or reset")
        if phrases is None:
            graph = self.model.graph
        else:
            is_list = isinstance(phrases, Iterable) and not isinstance(phrases, str)
            if not is_list or not all(isinstance(phrase, str) for phrase in phrases):
                raise ArgumentError(f"phrases must be a list of texts, got {phrases!r:.80}")
            graph, unknown = self.model.graph.with_phrases(phrases)
            if unknown:
                _LOG.warning("the model does not know these words of the phrases: %s", ", ".join(unknown))
        self._drop_stream()
        self._graph = graph

    @alone
    def set_speaker_model(self, model: SpkModel) -> None:
        """Lets results have the speaker's vector and its number of frames, `spk` and `spk_frames`.

        Raises ExecutionError within a stream, ArgumentError if the model cannot have audio of this rate.
        """
        if not isinstance(model, at_first_use.SpkModel):
            raise ArgumentError(f"a speaker model is an nnet3.asr.SpkModel, got {type(model).__name__}")
        if self._stream is not None:
            raise ExecutionError("a stream keeps its speaker model: set it before the first audio, or after the end")
        at_first_use.SpeakerStream(model, self._whole_rate)  # can it have this rate?
        self._speaker_model = model

    @property
    def begin_time(self) -> float:
        """The time, in seconds, at which the present segment, or the segment of the last result, begins."""
        return self._begin_time

    @property
    def takes_phrases(self) -> bool:
        """True if what can be heard can be limited to phrases."""
        return self.model.graph.takes_phrases

    @property
    def is_within_segment(self) -> bool:
        """True if audio has come since the last result."""
        return self._segment is not None

    @property
    def model_endpointing(self) -> Endpointing:
        """The rules of pauses that the model has."""
        return self.model.endpointing

    # ---- segments and streams ----

    def _begin(self) -> tuple[AcousticStream, Segment]:
        """Returns the stream and the segment for the next audio, new ones after the end of the old."""
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
            if self._speaker_model is not None:
                self._speaker = at_first_use.SpeakerStream(self._speaker_model, self._whole_rate)
        else:
            self._stream.begin_segment(segment.trace)
        self._segment, self._first_row = segment, self._stream.num_rows
        if self._speaker is not None:
            self._speaker.begin_segment(self._first_row)
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
        self._segment = self._stream = self._speaker = None

    @property
    def _begin_time(self) -> float:
        """The time at which the segment begins, in seconds."""
        return self._start + self.model.seconds_per_row * self._first_row

    def _is_endpoint(self, segment: Segment) -> bool:
        search, model = segment.search, self.model
        trailing = silent_rows(search, model.transition_model, model.folder.silence_phones)
        return bool(self.endpointing.which(search.num_rows, trailing, search.relative_cost))

    def _words(self) -> SegmentWords | None:
        """Returns the words of the segment up to now; None before the first row."""
        if self._segment is None or self._segment.search.num_rows == 0:
            return None
        return SegmentWords(self._segment, self.model.seconds_per_row, self._begin_time)

    def _found(self) -> SpokenText:
        """Returns the result of the segment up to now."""
        words = self._words()
        text = None if words is None else words.final(self.model.rescoring, max(self.alternatives, 0))
        if text is None or words is None:
            return _NOTHING
        return replace(text, extra=self._speaker_keys(words.segment)) if self._speaker is not None else text

    def _speaker_keys(self, segment: Segment) -> dict[str, Json]:
        """Returns the vector of the segment's speaker under Vosk's keys; nothing for too little speech."""
        assert self._stream is not None
        assert self._speaker is not None
        path = segment.trace(use_final=True)
        silence = self.model.folder.silence_phones
        if path is None or not silence:
            return {}
        first, ids = self._stream.newest_ids(path)
        reached = np.flatnonzero(ids >= 0)
        is_silence = np.isin(self.model.transition_model.phone(ids[reached]), silence)
        speech = first + reached[~is_silence]
        found = self._speaker.found(self._first_row, speech)
        return {} if found is None else found.json()


KaldiRecognizer = Recognizer
