"""BatchModel and BatchRecognizer: many streams of audio, whose scores are computed together, by Vosk's names."""

from __future__ import annotations

import contextlib
import math
import threading
import weakref
from collections import deque
from collections.abc import Generator
from dataclasses import replace
from typing import TypeVar

from nnet3.errors import ArgumentError, Nnet3Error
from nnet3.inference.stream import StreamComputer
from nnet3.speech.asr.acoustic_stream import NetworkInputs, Scores, compute_each, compute_scores
from nnet3.speech.asr.recognizer import Model, Recognizer
from nnet3.speech.asr.vosk_json import SpokenText, TextAlternative, TimedWord, nlsml, result_json
from nnet3.speech.asr.vosk_process import device_of_batches
from nnet3.speech.features.audio import Audio

_STREAMS = 64  # of one computer
T = TypeVar("T")
_Work = Generator[NetworkInputs, Scores, T]


class _FirstPassModel(Model):
    """A model whose results are not rescored, as in Vosk's batches; files for rescoring are not read."""

    def _load_rescoring(self) -> None:
        return None


class BatchModel:
    """A model for many streams at a time, on the GPU after `GpuInit`.

    Audio is heard in rounds: each round takes a piece of every stream that has one waiting, and runs the network once
    for all. `Wait` hears all that waits; asking a recognizer how much waits, or for a result, does one round.
    """

    def __init__(self, model_path: str, *args: object):
        self.model = _FirstPassModel(model_path, device=device_of_batches())
        self._computers: list[tuple[StreamComputer, weakref.WeakSet[BatchRecognizer]]] = []
        self._busy: dict[BatchRecognizer, None] = {}  # recognizers with audio that waits, in order
        self._left: deque[Recognizer] = deque()  # of recognizers that are gone, to be closed
        self._lock = threading.RLock()

    def Wait(self) -> None:
        """Hears all audio that waits."""
        while self._round():
            pass

    def _round(self) -> bool:
        """Hears a piece of each stream with waiting audio; returns False if no audio waits."""
        with self._lock:
            self._close_left()
            ready = [each for each in list(self._busy) if each._inputs is not None or each._advance()]
            inputs = {each: each._inputs for each in ready if each._inputs is not None}
            found = compute_each(inputs.values(), compute_scores)
            for recognizer, given in inputs.items():
                recognizer._go_on(found[given.stream])
            return bool(self._busy)

    def _place(self, recognizer: BatchRecognizer) -> StreamComputer:
        """Returns a computer with room for one stream more."""
        with self._lock:
            self._close_left()
            for computer, users in self._computers:
                if len(users) < _STREAMS:
                    users.add(recognizer)
                    return computer
            computer = self.model.computer(_STREAMS)
            self._computers.append((computer, weakref.WeakSet([recognizer])))
            return computer

    def _close_left(self) -> None:
        """Frees the streams of recognizers that nobody has any more."""
        while self._left:
            with contextlib.suppress(Nnet3Error):  # a stream may have ended by an error
                self._left.popleft().close()


class BatchRecognizer:
    """One stream of a `BatchModel`, at `sample_rate` Hz. Results have words with times in whole rows, as in Vosk."""

    def __init__(self, model: BatchModel, sample_rate: float):
        if not isinstance(model, BatchModel):
            raise ArgumentError(f"a recognizer of batches needs an nnet3.asr.BatchModel, got {type(model).__name__}")
        self._model = model
        self._computer = model._place(self)
        self._recognizer = Recognizer(model.model, sample_rate, computer=self._computer)
        self._waiting: deque[Audio | None] = deque()  # None: the stream ends
        self._results: deque[str] = deque()
        self._work: _Work[None] | None = None
        self._inputs: NetworkInputs | None = None  # whose scores the work waits for
        self._scores: Scores | None = None
        self._failure: Exception | None = None
        self._with_nlsml = False

    def __del__(self) -> None:
        # Garbage is collected at any moment, also while this thread computes: nothing may be waited for here.
        with contextlib.suppress(AttributeError):  # it may not have begun
            self._model._left.append(self._recognizer)

    def AcceptWaveform(self, data: Audio) -> None:
        """Takes audio, `data` of 16-bit samples as bytes, to be heard later."""
        self._push(bytes(data) if isinstance(data, bytearray | memoryview) else data)

    def FinishStream(self) -> None:
        """Ends the stream: the last result comes once all is heard. Further audio begins a new stream."""
        self._push(None)

    def Result(self) -> str:
        """Returns the oldest result not returned yet; "" without one.

        Raises, as further audio does, the error that has ended the stream.
        """
        if not self._results:
            self._model._round()
            self._check()
        return self._results.popleft() if self._results else ""

    def GetPendingChunks(self) -> int:
        """Returns how many pieces of audio wait, after a round of work."""
        self._model._round()
        self._check()
        return len(self._waiting) + (self._work is not None)

    def SetNLSML(self, nlsml: bool) -> None:
        """Returns results as documents of NLSML, with the mean of the words' confidences."""
        self._with_nlsml = bool(nlsml)

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _push(self, data: Audio | None) -> None:
        self._check()
        with self._model._lock:
            self._waiting.append(data)
            self._model._busy[self] = None

    def _advance(self) -> bool:
        """Works up to the next inputs of the network; returns False if there are none, because nothing waits."""
        try:
            while self._work is not None or self._waiting:
                if self._work is None:
                    self._work = self._heard(self._waiting.popleft())
                scores, self._scores = self._scores, None
                try:
                    self._inputs = next(self._work) if scores is None else self._work.send(scores)
                    return True
                except StopIteration:
                    self._work = None
        except Nnet3Error as error:
            self._fail(error)
        self._model._busy.pop(self, None)
        return False

    def _go_on(self, scores: Scores | Exception) -> None:
        """Takes the scores, or why there are none."""
        self._inputs = None
        if isinstance(scores, Exception):
            self._fail(scores)
        else:
            self._scores = scores
            self._advance()

    def _fail(self, error: Exception) -> None:
        self._failure, self._work = error, None
        self._waiting.clear()
        self._model._busy.pop(self, None)

    def _heard(self, data: Audio | None) -> _Work[None]:
        if data is None:
            self._tell(self._recognizer.finish())
        elif (yield from self._recognizer.steps(data)):
            self._tell(self._recognizer.result())

    def _tell(self, spoken: SpokenText) -> None:
        words = [self._in_whole_rows(word) for word in spoken.words]
        if not self._with_nlsml:
            self._results.append(result_json(replace(spoken, words=words), with_words=True))
            return
        sure = sum(word.confidence or 0.0 for word in words) / max(len(words), 1)
        self._results.append(nlsml(SpokenText(words, [TextAlternative(words, sure)]), 1))

    def _in_whole_rows(self, word: TimedWord) -> TimedWord:
        row, begin = self._model.model.seconds_per_row, self._recognizer.begin_time
        start, end = (begin + row * math.floor((time - begin) / row + 0.5) for time in (word.start, word.end))
        return replace(word, start=start, end=end)
