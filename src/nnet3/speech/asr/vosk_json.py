"""Results as Vosk writes them: JSON with keys in alphabetical order and numbers of six decimals."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias
from xml.sax.saxutils import escape

Json: TypeAlias = "str | float | int | Mapping[str, Json] | Sequence[Json]"
_NO_ALTERNATIVES = '{"alternatives" : [{"text": "", "confidence" : 1.0}] }'
_OF_SPEAKERS = ("spk", "spk_frames")
_NLSML = ('<?xml version="1.0"?>\n<result grammar="default">\n', "</result>\n")
_NO_INPUT = '<interpretation confidence="1.0">\n<instance/>\n<input><noinput/></input>\n</interpretation>\n'


@dataclass(frozen=True)
class TimedWord:
    """A word: times in seconds, and confidence (None: unknown)."""

    word: str
    start: float
    end: float
    confidence: float | None = None

    def json(self) -> dict[str, Json]:
        sure = {} if self.confidence is None else {"conf": self.confidence}
        return {**sure, "end": self.end, "start": self.start, "word": self.word}


@dataclass(frozen=True)
class TextAlternative:
    """One of several readings of a segment; a higher confidence is better."""

    words: Sequence[TimedWord]
    confidence: float


@dataclass(frozen=True)
class SpokenText:
    """The words heard between two endpoints. `extra`: further keys, for instance `spk` of a speaker model."""

    words: Sequence[TimedWord]
    alternatives: Sequence[TextAlternative] = ()
    extra: Mapping[str, Json] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return _text(self.words)


def result_json(spoken: SpokenText, with_words: bool = False, most_alternatives: int = 0) -> str:
    """Returns the answer of Result and FinalResult: the words with the least risk, or alternatives.

    Alternatives stand without the keys of a speaker. Of fewer than 0 alternatives Vosk makes an empty value.
    """
    if most_alternatives < 0:
        return "null"
    if most_alternatives:
        others = {key: value for key, value in spoken.extra.items() if key not in _OF_SPEAKERS}
        listed: list[Json] = [
            {"confidence": each.confidence, **_listed(each.words, with_words, "result"), "text": _text(each.words)}
            for each in spoken.alternatives[:most_alternatives]
        ]
        return dumps({"alternatives": listed, **others})
    return dumps({**_listed(spoken.words, with_words, "result"), **spoken.extra, "text": spoken.text})


def nlsml(spoken: SpokenText, most_alternatives: int) -> str:
    """Returns alternatives in the Natural Language Semantics Markup Language, as Vosk does."""
    parts = []
    for each in spoken.alternatives[: max(most_alternatives, 0)]:
        text = escape(_text(each.words))
        parts.append(
            f'<interpretation grammar="default" confidence="{each.confidence:g}">\n'
            f'<input mode="speech">{text}</input>\n<instance>{text}</instance>\n</interpretation>\n'
        )
    return "".join(parts).join(_NLSML)


def nothing_heard(as_nlsml: bool = False) -> str:
    """Returns the answer without input where alternatives are wanted."""
    return _NO_INPUT.join(_NLSML) if as_nlsml else _NO_ALTERNATIVES


def partial_json(words: Sequence[TimedWord], with_words: bool = False) -> str:
    """Returns the answer of PartialResult."""
    return dumps({"partial": _text(words), **_listed(words, with_words, "partial_result")})


def _text(words: Sequence[TimedWord]) -> str:
    return " ".join(word.word for word in words)


def _listed(words: Sequence[TimedWord], wanted: bool, key: str) -> dict[str, Json]:
    return {key: [word.json() for word in words]} if wanted and words else {}


def dumps(value: Json, depth: int = 1) -> str:
    """Writes JSON with the line breaks and blanks of Vosk."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return f"{value:.6f}"
    if isinstance(value, Mapping):
        blanks = "  " * depth
        lines = [
            f"{blanks}{json.dumps(key, ensure_ascii=False)} : {dumps(value[key], depth + 1)}" for key in sorted(value)
        ]
        return "{\n" + ",\n".join(lines) + "\n" + blanks[2:] + "}"
    return "[" + ", ".join(dumps(each, depth + 1) for each in value) + "]"
