"""Transcripts as subtitles and ctm."""

from __future__ import annotations

from nnet3.asr import SpokenText
from nnet3.speech.asr.transcript import ctm_lines, subtitles
from nnet3.speech.asr.vosk_json import TimedWord

HEARD = [
    SpokenText(
        [TimedWord("one", 0.5, 0.75, 1.0), TimedWord("<two>", 1, 1.25), TimedWord("three", 59.9996, 3661.5, 0.5)]
    ),
    SpokenText([]),
    SpokenText([TimedWord("four", 3662.0, 3662.25)]),
]
SRT = """1
00:00:00,500 --> 00:00:01,250
one <two>

2
00:01:00,000 --> 01:01:01,500
three

3
01:01:02,000 --> 01:01:02,250
four

"""


def test_subtitles() -> None:
    assert subtitles(HEARD, 2) == SRT
    assert subtitles(HEARD, 2, webvtt=True) == "WEBVTT\n\n" + SRT.replace(",", ".").replace("<two>", "&lt;two&gt;")
    assert subtitles([]) == ""


def test_ctm() -> None:
    assert list(ctm_lines("a", HEARD[2:])) == ["a 1 3662.00 0.25 four\n"]
    assert next(ctm_lines("my talk\t1.wav", HEARD)) == "my%20talk%091.wav 1 0.50 0.25 one 1.00\n"
    assert next(ctm_lines("a", HEARD)) == "a 1 0.50 0.25 one 1.00\n"
