"""The words of a segment, with times in seconds."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nnet3.speech.asr.decoding import Segment
from nnet3.speech.asr.vosk_json import SpokenText, TimedWord

if TYPE_CHECKING:
    from nnet3.speech.asr.model_rescoring import Rescoring

_LOG = logging.getLogger("nnet3")


@dataclass(frozen=True)
class SegmentWords:
    """The words of a segment that begins at a time `begin`, in seconds."""

    segment: Segment
    seconds_per_row: float
    begin: float

    def final(self, rescoring: Rescoring | None, alternatives: int) -> SpokenText | None:
        """Returns the result, rescored with models if there are some, and ways to read it; None without words.

        Warns of what was left out where memory was short.
        """
        found = self.segment.found()
        for notice in self.segment.notices:
            _LOG.warning("%s", notice)
        if found is not None and rescoring is not None:
            found = found.rescored(rescoring)
        return None if found is None else found.text(self.seconds_per_row, self.begin, alternatives)

    def sure(self, of_all: bool) -> SpokenText | None:
        """Returns words with confidences, of all audio or of the finished part of the lattice; None without words."""
        found = self.segment.found(use_final=False) if of_all else self.segment.settled()
        return None if found is None else found.text(self.seconds_per_row, self.begin)

    def best(self) -> SpokenText | None:
        """Returns the words of the best path so far, each as long as up to the next; None without words."""
        path = self.segment.search.best_path()
        if path is None:
            return None
        ends = (self.begin + self.seconds_per_row * path.word_rows).tolist()
        names = [self.segment.graph.words[label] for label in path.words.tolist()]
        return SpokenText([TimedWord(*word) for word in zip(names, [self.begin, *ends[:-1]], ends, strict=False)])
