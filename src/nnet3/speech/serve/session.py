"""Session: the messages of one client of the server, and the answers, in the protocol of vosk-server."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from nnet3.base.options.declaring import declared
from nnet3.base.options.serve import HearingOptions
from nnet3.base.text import read_json
from nnet3.errors import ArgumentError, Nnet3Error, shown
from nnet3.inference.stream import StreamComputer
from nnet3.speech.asr.recognizer import Model, Recognizer
from nnet3.speech.asr.speakers import SpkModel
from nnet3.speech.serve.scheduler import Work

_COMMANDS = ("config", "eof", "reset")
_NUMBERS = ("sample_rate", "max_alternatives")


@dataclass(frozen=True)
class MoreModels:
    """What a server has besides its first model: models by name, each with a computer, and a model of speakers."""

    by_name: Mapping[str, tuple[Model, StreamComputer]] = field(default_factory=dict)
    of_speakers: SpkModel | None = None


class Session:
    """A connection's settings and recognizer.

    The answer to a message of audio is `Result` if the speaker has paused, else `PartialResult`. `finish` is the answer
    to `{"eof" : 1}`, after which the connection ends, and to `{"reset" : 1}`. With `more` models a client may choose
    one of them by its name.
    """

    def __init__(self, model: Model, computer: StreamComputer, options: HearingOptions, more: MoreModels | None = None):
        self.more = more or MoreModels()
        self._first = model, computer
        self.options, self._made_for = options, options
        self._recognizer: Recognizer | None = None
        self.seconds = 0.0  # of audio

    def command(self, text: str) -> str:
        """Returns the command of a text message, after taking the settings of a configuration.

        Raises ArgumentError for a message without a command.
        """
        try:
            message = read_json(text)
        except ValueError:
            message = None
        names = [name for name in _COMMANDS if isinstance(message, dict) and name in message]
        if len(names) != 1:
            raise ArgumentError(
                'a text message is {"config" : {...}}, {"eof" : 1} or {"reset" : 1}, and audio is binary; '
                f"got {text[:80]!r}"
            )
        if names == ["config"]:
            self._configure(message["config"])
        return names[0]

    def _configure(self, config: Any) -> None:
        if not isinstance(config, dict):
            raise ArgumentError(f"config must be an object with settings, got {shown(config)}")
        given = {
            item.name: _plain(item.name, config[item.name]) for item in declared(HearingOptions) if item.name in config
        }
        options = replace(self.options, **given)
        self._check_model(options.model)
        self.options = options
        if self._recognizer is not None:  # a stream keeps the others to its end
            self._recognizer.SetWords(self.options.words)
            self._recognizer.SetMaxAlternatives(self.options.max_alternatives)

    def _check_model(self, name: str) -> None:
        names = [self._first[0].folder.path.name, *self.more.by_name]
        if name and name not in names:
            if len(names) == 1:
                raise ArgumentError("this server has one model: leave 'model' out of the config")
            raise ArgumentError(f"this server has no model {shown(name)}, but {', '.join(names)}")

    @property
    def takes_time_to_begin(self) -> bool:
        """True if `begin` is still to come, and has a graph of phrases to make."""
        return self._recognizer is None and bool(self.options.phrase_list)

    def begin(self) -> Recognizer:
        """Returns the recognizer, which is new before the first audio."""
        if self._recognizer is None:
            options = self.options
            model, computer = self.more.by_name.get(options.model, self._first)
            phrases = options.phrase_list if model.graph.takes_phrases else ()
            self._recognizer = Recognizer(
                *(model, options.sample_rate, phrases or None),
                speaker_model=self.more.of_speakers if options.spk else None,
                alternatives=options.max_alternatives,
                computer=computer,
            )
            self._recognizer.SetWords(options.words)
            self._made_for = options
        return self._recognizer

    def hear(self, audio: bytes, is_over: Callable[[], bool] = lambda: False) -> Work[str]:
        """Answers audio, 16-bit samples of one channel; samples left once `is_over` are dropped."""
        recognizer = self.begin()
        self.seconds += len(audio) / 2 / self._made_for.sample_rate
        if (yield from recognizer.steps(audio, is_over)):
            return recognizer.Result()
        return recognizer.PartialResult()

    def finish(self) -> Work[str]:
        """Answers with what was said since the last result; the next audio begins a new stream."""
        yield from ()
        recognizer = self.begin()
        result = recognizer.FinalResult()
        if _of_streams(self.options) != _of_streams(self._made_for):
            recognizer.close()
            self._recognizer = None
        return result

    def close(self) -> Work[None]:
        """Ends without an answer."""
        yield from ()
        if self._recognizer is not None:
            with contextlib.suppress(Nnet3Error):  # its stream may have ended by an error
                self._recognizer.close()


def _of_streams(options: HearingOptions) -> tuple[Any, ...]:
    """Returns the settings that a stream keeps to its end."""
    return options.sample_rate, options.phrase_list, options.model, options.spk


def _plain(name: str, value: Any) -> Any:
    """Returns a setting as its option wants it: vosk-server takes numbers as text too, and 0 and 1 for truth."""
    if name in ("words", "spk") and isinstance(value, int):
        return bool(value)
    if name in _NUMBERS and isinstance(value, float | str):
        with contextlib.suppress(ValueError, OverflowError):
            number = float(value)
            return int(number) if number == int(number) else value
    return value
