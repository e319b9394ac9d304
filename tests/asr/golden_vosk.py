"""What Vosk's wheel said to recordings: folders with a model, a sound, modes (`meta.json`) and answers."""

from __future__ import annotations

import json
import re
import wave
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from nnet3.asr import KaldiRecognizer, Model, SpkModel

_CONFIDENCE, _SECONDS, _SPEAKER, _COST = 0.01, 0.031, 1e-3, 0.02
_INTERPRETATION = re.compile(
    r'<interpretation grammar="default" confidence="([^"]*)">\n<input mode="speech">(.*)</input>\n'
    r"<instance>(.*)</instance>\n</interpretation>\n"
)


def modes_of(case: Path) -> list[dict[str, Any]]:
    return json.loads((case / "meta.json").read_text())["modes"]


def samples_of(case: Path) -> bytes:
    with wave.open(str(case / "audio.wav")) as sound:
        return sound.readframes(sound.getnframes())


class Heard:
    """A case's model, speaker model and recording, which is searched once for all modes that hear it as a whole."""

    def __init__(self, case: Path):
        self.case, self.model = case, Model(case / "model")
        self.speaker = SpkModel(case / "spk") if (case / "spk").exists() else None

    def recognizer(self) -> KaldiRecognizer:
        rate = json.loads((self.case / "meta.json").read_text())["rate"]
        return KaldiRecognizer(self.model, rate, *filter(None, [self.speaker]))

    @cached_property
    def whole(self) -> KaldiRecognizer | None:
        """A recognizer at the end of the recording, before it has told its last result; None if that is a pause."""
        recognizer = self.recognizer()
        if recognizer.AcceptWaveform(samples_of(self.case)):
            return None
        assert recognizer._segment is not None
        assert recognizer._stream is not None
        recognizer._segment.accept(recognizer._stream.finish())
        return recognizer


def said(heard: Heard, mode: dict[str, Any]) -> list[Any]:
    """Returns our answers in a mode, in the form of `answers.json`."""
    whole = None if "step" in mode else heard.whole
    recognizer = whole or heard.recognizer()
    recognizer.SetWords(mode.get("words", False))
    recognizer.SetMaxAlternatives(mode.get("alternatives", 0))
    recognizer.SetNLSML(mode.get("nlsml", False))
    read = str if mode.get("nlsml") else json.loads
    if whole is not None:
        return [read(whole._told(whole._found()))]  # what FinalResult gives, which ends the stream
    contents = samples_of(heard.case)
    step = 2 * mode.get("step", len(contents))
    answers: list[Any] = []
    before = None
    for first in range(0, len(contents), step):
        at = min(first + step, len(contents)) // 2
        if recognizer.AcceptWaveform(contents[first : first + step]):
            answers.append({"at": at, "result": read(recognizer.Result())})
            before = None
        elif mode.get("partial"):
            partial = json.loads(recognizer.PartialResult())
            answers += [{"at": at, "partial": partial}] if partial != before else []
            before = partial
    return [*answers, read(recognizer.FinalResult())]


def check_mode(case: Path, mode: dict[str, Any], ours: list[Any]) -> None:
    """Compares answers in a mode with those of the wheel, by the bounds of the README."""
    theirs = json.loads((case / "answers.json").read_text())[mode["name"]]
    assert [_event(answer) for answer in ours] == [_event(answer) for answer in theirs]
    for our, their in zip(ours, theirs, strict=True):
        _check(_inner(our), _inner(their))


def _event(answer: Any) -> tuple[Any, ...]:
    return (answer["at"], "partial" in answer) if isinstance(answer, dict) and "at" in answer else ()


def _inner(answer: Any) -> Any:
    is_event = isinstance(answer, dict) and "at" in answer
    return answer.get("result", answer.get("partial")) if is_event else answer


def _check(our: Any, their: Any) -> None:
    if isinstance(their, str):
        found, wanted = _INTERPRETATION.findall(our), _INTERPRETATION.findall(their)
        assert _INTERPRETATION.sub("", our) == _INTERPRETATION.sub("", their)
        assert [each[1:] for each in found] == [each[1:] for each in wanted]
        np.testing.assert_allclose([float(e[0]) for e in found], [float(e[0]) for e in wanted], atol=_COST)
        return
    assert our.keys() == their.keys()
    for key, value in their.items():
        if key == "alternatives":
            assert len(our[key]) == len(value)
            for one, other in zip(our[key], value, strict=True):
                np.testing.assert_allclose(one["confidence"], other["confidence"], atol=_COST, rtol=0)
                _check({**one, "confidence": 0}, {**other, "confidence": 0})
        elif key == "result":
            assert [word["word"] for word in our[key]] == [word["word"] for word in value]
            for name, bound in (("start", _SECONDS), ("end", _SECONDS), ("conf", _CONFIDENCE)):
                if name in value[0]:
                    ours, theirs = ([word[name] for word in words] for words in (our[key], value))
                    np.testing.assert_allclose(ours, theirs, atol=bound, rtol=0)
        elif key == "spk":
            np.testing.assert_allclose(our[key], value, atol=_SPEAKER, rtol=0)
        else:
            assert our[key] == value
