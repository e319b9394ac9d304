"""What Vosk's wheel said to recordings: folders with a model, a sound, modes (`meta.json`) and answers."""

from __future__ import annotations

import json
import re
import wave
from pathlib import Path
from typing import Any

import numpy as np

from nnet3.asr import KaldiRecognizer, Model, SpkModel
from tests.shared_data import SHARED

RESCORING = SHARED / "rescoring"
_CONFIDENCE, _SECONDS, _SPEAKER, _COST = 0.01, 0.031, 1e-3, 0.02
_INTERPRETATION = re.compile(
    r'<interpretation grammar="default" confidence="([^"]*)">\n<input mode="speech">(.*)</input>\n'
    r"<instance>(.*)</instance>\n</interpretation>\n"
)


def cases_of(kind: str) -> list[Path]:
    """Returns the folders of a kind, `vosk` or `spk`; none without the shared folder."""
    root = RESCORING / kind
    return sorted(path for path in root.iterdir() if path.is_dir()) if root.is_dir() else []


def modes_of(case: Path) -> list[dict[str, Any]]:
    return json.loads((case / "meta.json").read_text())["modes"]


def samples_of(case: Path) -> bytes:
    with wave.open(str(case / "audio.wav")) as sound:
        return sound.readframes(sound.getnframes())


def said(model: Model, case: Path, mode: dict[str, Any], speaker: SpkModel | None = None) -> list[Any]:
    """Returns our answers in a mode, in the form of `answers.json`."""
    rate = json.loads((case / "meta.json").read_text())["rate"]
    recognizer = KaldiRecognizer(model, rate) if speaker is None else KaldiRecognizer(model, rate, speaker)
    recognizer.SetWords(mode.get("words", False))
    recognizer.SetMaxAlternatives(mode.get("alternatives", 0))
    recognizer.SetNLSML(mode.get("nlsml", False))
    read = str if mode.get("nlsml") else json.loads
    contents = samples_of(case)
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
        ours, theirs = _INTERPRETATION.findall(our), _INTERPRETATION.findall(their)
        assert _INTERPRETATION.sub("", our) == _INTERPRETATION.sub("", their)
        assert [each[1:] for each in ours] == [each[1:] for each in theirs]
        np.testing.assert_allclose([float(e[0]) for e in ours], [float(e[0]) for e in theirs], atol=_COST)
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
                    pair = ([word[name] for word in words] for words in (our[key], value))
                    np.testing.assert_allclose(*pair, atol=bound, rtol=0)
        elif key == "spk":
            np.testing.assert_allclose(our[key], value, atol=_SPEAKER, rtol=0)
        else:
            assert our[key] == value
