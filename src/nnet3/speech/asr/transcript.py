"""Transcripts: what was heard as subtitles and as lines of Kaldi's ctm files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from nnet3.base.text import BLANKS
from nnet3.errors import ArgumentError
from nnet3.speech.asr.vosk_json import SpokenText, TimedWord

_WORDS_PER_LINE = 7


def subtitles(heard: Iterable[SpokenText], words_per_line: int = _WORDS_PER_LINE, *, webvtt: bool = False) -> str:
    """Returns subtitles of `words_per_line` words: SubRip (srt), or WebVTT. Raises ArgumentError if that is below 1."""
    check_words_per_line(words_per_line)
    comma, parts = ("." if webvtt else ","), ["WEBVTT\n\n"] if webvtt else []
    for number, words in enumerate(_lines(heard, words_per_line), 1):
        begin, end = _clock(words[0].start, comma), _clock(words[-1].end, comma)
        text = " ".join(word.word for word in words)
        if webvtt:
            text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        parts.append(f"{number}\n{begin} --> {end}\n{text}\n\n")
    return "".join(parts)


def check_words_per_line(number: int) -> None:
    """Raises ArgumentError for what is no whole number from 1 on."""
    if not isinstance(number, int) or number < 1:
        raise ArgumentError(f"the words of a line must be a whole number from 1 on, got {number!r:.80}")


def ctm_lines(name: str, heard: Iterable[SpokenText]) -> Iterator[str]:
    """Yields `name channel begin duration word confidence` for each word, times in seconds.

    Blanks in the name become %20, as in URLs, because blanks separate the fields of a line.
    """
    name = one_field(name)
    for spoken in heard:
        for word in spoken.words:
            sure = "" if word.confidence is None else f" {word.confidence:.2f}"
            yield f"{name} 1 {word.start:.2f} {word.end - word.start:.2f} {word.word}{sure}\n"


def one_field(name: str) -> str:
    """Returns a name as a single field of a line: a blank becomes %20 and so on, as in URLs."""
    return "".join(f"%{ord(letter):02X}" if letter in BLANKS else letter for letter in name)


def _lines(heard: Iterable[SpokenText], words_per_line: int) -> Iterator[list[TimedWord]]:
    for spoken in heard:
        for first in range(0, len(spoken.words), words_per_line):
            yield list(spoken.words[first : first + words_per_line])


def _clock(seconds: float, comma: str) -> str:
    milliseconds = round(1000 * max(seconds, 0.0))
    minutes, rest = divmod(milliseconds, 60_000)
    return f"{minutes // 60:02}:{minutes % 60:02}:{rest // 1000:02}{comma}{rest % 1000:03}"
