"""VoskNames: the methods of a recognizer in Vosk's Python API, which give JSON."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from nnet3.base.text import read_json
from nnet3.errors import ArgumentError, shown
from nnet3.speech.asr.transcript import check_words_per_line, subtitles
from nnet3.speech.asr.vosk_json import SpokenText, TimedWord, nlsml, nothing_heard, partial_json, result_json
from nnet3.speech.features.audio import Audio
from nnet3.speech.search.endpoints import EndpointerMode, Endpointing

if TYPE_CHECKING:
    from nnet3.speech.asr.speakers import SpkModel

_LOG = logging.getLogger("nnet3")
_READ_BYTES = 4000


class VoskNames(ABC):
    """Vosk's names for methods of a recognizer; the plain names are abstract here."""

    alternatives: int
    endpointing: Endpointing
    with_words: bool
    with_partial_words: bool
    with_nlsml: bool

    # ---- plain names ----

    @abstractmethod
    def accept(self, audio: Audio) -> bool: ...

    @abstractmethod
    def result(self) -> SpokenText: ...

    @abstractmethod
    def partial(self) -> SpokenText: ...

    @abstractmethod
    def finish(self) -> SpokenText: ...

    @abstractmethod
    def reset(self) -> None: ...

    @abstractmethod
    def set_phrases(self, phrases: Sequence[str] | None) -> None: ...

    @abstractmethod
    def set_speaker_model(self, model: SpkModel) -> None: ...

    @property
    @abstractmethod
    def takes_phrases(self) -> bool: ...

    @property
    @abstractmethod
    def is_within_segment(self) -> bool: ...

    @property
    @abstractmethod
    def model_endpointing(self) -> Endpointing: ...

    # ---- Vosk's names ----

    def AcceptWaveform(self, data: Audio) -> int:
        """Returns `accept`: 1 if the speaker has paused, else 0."""
        return int(self.accept(data))

    def Result(self) -> str:
        """Returns `result` as JSON."""
        return self._told(self.result())

    def FinalResult(self) -> str:
        """Returns `finish` as JSON."""
        return self._told(self.finish())

    def PartialResult(self) -> str:
        """Returns `partial` as JSON; between segments that of an empty result."""
        spoken = self.partial()
        return partial_json(spoken.words, self.with_partial_words) if self.is_within_segment else self._told(spoken)

    def Reset(self) -> None:
        """`reset`."""
        self.reset()

    def SetWords(self, enable_words: bool) -> None:
        """Switches times and confidences of words in JSON on or off."""
        self.with_words = _switch(enable_words)

    def SetPartialWords(self, enable_partial_words: bool) -> None:
        """Switches times and confidences in partial results on or off, for words in the lattice; see the class."""
        self.with_partial_words = _switch(enable_partial_words)

    def SetMaxAlternatives(self, max_alternatives: int) -> None:
        """Gives `max_alternatives` alternatives in JSON instead of the best words; below 0, `null`, as in Vosk."""
        self.alternatives = max_alternatives

    def SetNLSML(self, enable_nlsml: bool) -> None:
        """Switches between alternatives as an NLSML document and as JSON."""
        self.with_nlsml = _switch(enable_nlsml)

    def SetSpkModel(self, spk_model: SpkModel) -> None:
        """`set_speaker_model`: results without alternatives have `spk` and `spk_frames`."""
        self.set_speaker_model(spk_model)

    def SetGrammar(self, grammar: str) -> None:
        """Calls `set_phrases` with a JSON list; an empty list: all words. Warns, as in Vosk, if the graph is fixed."""
        try:
            phrases: Any = read_json(grammar)
        except (TypeError, ValueError):
            phrases = None
        if not isinstance(phrases, list):
            raise ArgumentError(f'a grammar is a JSON list of phrases, such as ["yes", "no"], got {grammar!r:.80}')
        if phrases and not self.takes_phrases:
            _LOG.warning("this model has one graph of all words: the grammar changes nothing")
            return
        self.set_phrases(phrases or None)

    def SetEndpointerMode(self, mode: EndpointerMode | int) -> None:
        """Makes the pauses that end an utterance shorter or longer than the model says."""
        self.endpointing = self.model_endpointing.in_mode(mode)

    def SetEndpointerDelays(self, t_start_max: float, t_end: float, t_max: float) -> None:
        """Sets, in seconds, the silence that ends an utterance without and with speech, and the longest utterance."""
        self.endpointing = self.model_endpointing.with_delays(t_start_max, t_end, t_max)

    def SrtResult(self, stream: Any, words_per_line: int = 7) -> str:
        """Reads a binary stream of 16-bit samples to its end; returns subtitles, with times cut to milliseconds."""
        if not hasattr(stream, "read"):
            raise ArgumentError(f"subtitles are of a binary stream, such as an open file, got {stream!r:.80}")
        check_words_per_line(words_per_line)
        heard: list[SpokenText] = []
        while data := stream.read(_READ_BYTES):
            if self.accept(data):
                heard.append(self.result())
        heard.append(self.finish())
        return subtitles(
            (SpokenText([_in_milliseconds(word) for word in each.words]) for each in heard), words_per_line
        )

    def _told(self, spoken: SpokenText) -> str:
        """Returns a result in the form that was asked for."""
        if self.alternatives and not (spoken.alternatives or spoken.words):
            return nothing_heard(self.with_nlsml)
        if self.alternatives and self.with_nlsml:
            return nlsml(spoken, self.alternatives)
        return result_json(spoken, self.with_words, self.alternatives)


def _switch(value: Any) -> bool:
    """Returns the truth of a value. Raises ArgumentError for an array, which has none."""
    try:
        return bool(value)
    except (TypeError, ValueError, RuntimeError):
        raise ArgumentError(f"expected True or False, got {shown(value)}") from None


def _in_milliseconds(word: TimedWord) -> TimedWord:
    """Drops what is below a millisecond, as Vosk's package for subtitles does, from times of six decimals."""
    start, end = (round(1e6 * seconds) // 1000 / 1000 for seconds in (word.start, word.end))
    return replace(word, start=start, end=end)
