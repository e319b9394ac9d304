"""How far two recognizers agree on a recording."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from difflib import SequenceMatcher
from typing import Any

_SECONDS, _CONFIDENCE, _VOICE = 0.0301, 0.05, 1e-3


@dataclass
class Agreement:
    """Counts of recordings, of those with the same words and as many segments; of words of the first recognizer, of
    those that the second one heard too, and of these, that begin and end within 30 ms and are as sure within 0.05; and
    of vectors of speakers, of as many frames, within 1e-3 of the largest number."""

    recordings: int = 0
    same_text: int = 0
    same_segments: int = 0
    words: int = 0
    same_words: int = 0
    in_time: int = 0
    as_sure: int = 0
    voices: int = 0
    same_voices: int = 0

    def add(self, other: Agreement) -> None:
        for name, more in asdict(other).items():
            setattr(self, name, getattr(self, name) + more)


def compare(theirs: list[dict[str, Any]], ours: list[dict[str, Any]], name: str = "") -> Agreement:
    """Compares the results of the segments of a recording; prints the texts if they differ."""
    texts = [[segment["text"] for segment in each] for each in (theirs, ours)]
    first, second = ([word for segment in each for word in segment.get("result", [])] for each in (theirs, ours))
    found = Agreement(1, int(texts[0] == texts[1]), int(len(theirs) == len(ours)), len(first))
    if texts[0] != texts[1] and name:
        print(f"{name}: {' / '.join(texts[0])}\n{' ' * len(name)}  {' / '.join(texts[1])}")
    spoken = [[word["word"] for word in each] for each in (first, second)]
    for at, other, size in SequenceMatcher(None, spoken[0], spoken[1], autojunk=False).get_matching_blocks():
        for left, right in zip(first[at : at + size], second[other : other + size], strict=True):
            found.same_words += 1
            found.in_time += max(abs(left[edge] - right[edge]) for edge in ("start", "end")) <= _SECONDS
            found.as_sure += abs(left["conf"] - right["conf"]) <= _CONFIDENCE
    for left, right in zip(*([each for each in all_ if "spk" in each] for all_ in (theirs, ours)), strict=False):
        found.voices += 1
        largest = max(map(abs, left["spk"]))
        off = max(abs(one - other) for one, other in zip(left["spk"], right["spk"], strict=True))
        found.same_voices += left["spk_frames"] == right["spk_frames"] and off <= _VOICE * largest
    return found
