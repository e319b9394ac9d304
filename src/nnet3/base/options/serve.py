"""Options of the server of recognizers: what clients may ask for, and limits on them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from nnet3.base.options.declaring import Options, option
from nnet3.base.text.values import Boolean, Integer, Number, Text, Texts, above, at_least, within

_COUNT = Integer(at_least(1))
_MOST_LETTERS = 20_000
_ORIGIN = re.compile(r"\*|[a-z][a-z0-9+.-]*://[^\s/?#@]+/?", re.IGNORECASE)


def _check_origins(text: str) -> None:
    for each in text.split(","):
        if text and not _ORIGIN.fullmatch(each.strip()):
            raise ValueError("an origin such as https://speech.example or http://lan.example:2700, or *")


@dataclass(frozen=True)
class HearingOptions(Options):
    """Options by which a connection is heard; clients may say otherwise in their configuration."""

    sample_rate: int = option(8000, Integer(within(4000, 96000)), "Samples per second of audio.", unit="Hz")
    words: bool = option(True, Boolean(), "Words with times and confidences in results.")
    max_alternatives: int = option(0, Integer(within(0, 100)), "Alternatives in results (0: the best words).")
    spk: bool = option(True, Boolean(), "Vectors of speakers in results, where the server has a speaker model.")
    model: str = option("", Text(), "Name of the model, of those that the server has (none: its first).")
    phrase_list: tuple[str, ...] = option((), Texts(), "What can be heard, with look-ahead graphs (none: all words).")

    def conflicts(self) -> Iterator[tuple[str, str]]:
        if sum(map(len, self.phrase_list)) > _MOST_LETTERS:
            yield "phrase_list", f"phrase_list must have at most {_MOST_LETTERS} letters"
        if not all(phrase.isprintable() for phrase in self.phrase_list):
            yield "phrase_list", "phrase_list must have no line breaks or other control characters"


@dataclass(frozen=True)
class ServeOptions(HearingOptions):
    """The server, and limits on its clients."""

    host: str = option("127.0.0.1", Text(), "Address to listen at (0.0.0.0: all).", metavar="ADDRESS")
    port: int = option(2700, Integer(within(0, 65535)), "Port to listen at (0: any that is free).")
    max_connections: int = option(32, Integer(within(1, 10_000)), "Most clients at a time; others get status 503.")
    max_per_address: int = option(
        8, Integer(within(0, 10_000)), "Most clients at a time of another machine's address (0: no limit)."
    )
    allow_origin: str = option(
        "",
        Text(parse=_check_origins),
        "Origins of pages that may connect, separated by commas (*: all).",
        metavar="ORIGIN,...",
    )
    max_message: int = option(1 << 20, Integer(within(1 << 10, 1 << 28)), "Longest message.", unit="bytes")
    max_queue: int = option(8, _COUNT, "Messages of a client that wait at most; then it is not read on.")
    idle_seconds: float = option(60.0, Number(above(0)), "Silence or deafness of a client that ends it.", unit="s")
    stop_seconds: float = option(10.0, Number(at_least(0)), "Time for waiting audio when the server stops.", unit="s")
    threads: int = option(2, Integer(within(1, 1000)), "Searches at a time.")
