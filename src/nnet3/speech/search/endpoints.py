"""Endpoints: rules that say when an utterance has ended."""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from nnet3.base.options.recognizer import ENDPOINT_RULES, EndpointRule
from nnet3.errors import ArgumentError, Nnet3Error
from nnet3.model.hmm.transition_model import TransitionModel
from nnet3.speech.search.beam_search import BeamSearch

_ROWS_BACK = 64  # that are looked at first for silence at the end

RULES = ENDPOINT_RULES


class EndpointerMode(enum.Enum):
    """The length of pauses that end an utterance, relative to the model's; names and numbers are Vosk's."""

    DEFAULT = 0
    SHORT = 1
    LONG = 2
    VERY_LONG = 3


_SCALE_OF_MODE = dict(zip(EndpointerMode, (1.0, 0.75, 1.5, 4.0), strict=True))
_WITH_SPEECH = ("rule2", "rule3", "rule4")  # rules of pauses after speech
_MORE_SECONDS = (0.0, 0.5, 1.0)  # of these rules, beyond the first one's


@dataclass(frozen=True)
class Endpointing:
    """The rules of a recognizer: an utterance has ended if any of them says so.

    `seconds_per_row` is the time between rows of the search. Lengths are compared in float32, as in Kaldi: 3 rows of
    0.03 s are shorter than 0.09 s.
    """

    rules: Mapping[str, EndpointRule] = field(default_factory=lambda: RULES)
    seconds_per_row: float = 0.03

    def which(self, rows: int, trailing_rows: int, relative_cost: float = math.inf) -> str:
        """Returns the name of the first rule by which the utterance has ended, or "".

        `rows`: rows of the search since the utterance began. `trailing_rows`: rows of silence at the end of the best
        path. `relative_cost`: the cost of ending now beyond the cost of the best path, infinite if no path can end.
        """
        if rows == 0:
            return ""
        row = np.float32(self.seconds_per_row)
        length, trailing = np.float32(rows) * row, np.float32(trailing_rows) * row
        for name, rule in self.rules.items():
            if (
                (length > trailing or not rule.must_contain_nonsilence)
                and trailing >= np.float32(rule.min_trailing_silence)
                and relative_cost <= rule.max_relative_cost
                and length >= np.float32(rule.min_utterance_length)
            ):
                return name
        return ""

    def in_mode(self, mode: EndpointerMode | int) -> Endpointing:
        """Returns the rules with pauses after speech multiplied by the factor of a mode."""
        try:
            scale = _SCALE_OF_MODE[EndpointerMode(mode)]
        except ValueError:
            modes = ", ".join(f"{each.name} ({each.value})" for each in EndpointerMode)
            raise ArgumentError(f"the mode of endpoints must be one of {modes}, got {mode!r:.80}") from None
        return self._changed(
            {name: {"min_trailing_silence": scale * self.rules[name].min_trailing_silence} for name in _WITH_SPEECH}
        )

    def with_delays(self, start: float, end: float, longest: float) -> Endpointing:
        """Returns the rules with given times, in seconds.

        `start`: silence that ends an utterance without speech; `end`: a pause after words that make a whole sentence;
        `longest`: the longest utterance. Raises ArgumentError for anything but numbers.
        """
        try:
            pauses = {
                name: {"min_trailing_silence": float(end) + more}
                for name, more in zip(_WITH_SPEECH, _MORE_SECONDS, strict=True)
            }
            first, last = {"min_trailing_silence": float(start)}, {"min_utterance_length": float(longest)}
        except (TypeError, ValueError):
            raise ArgumentError(f"delays are numbers of seconds, got {(start, end, longest)!r:.80}") from None
        try:
            return self._changed({"rule1": first, **pauses, "rule5": last})
        except Nnet3Error as error:
            raise ArgumentError(f"a delay of endpoints: {error}") from None

    def _changed(self, changes: Mapping[str, Mapping[str, Any]]) -> Endpointing:
        rules = {name: replace(rule, **changes.get(name, {})) for name, rule in self.rules.items()}
        return replace(self, rules=rules)


def silent_rows(search: BeamSearch, model: TransitionModel, silence_phones: npt.ArrayLike) -> int:
    """Returns the rows of silence at the end of a search's best path, without looking back much further."""
    rows, looked_at, trailing = search.num_rows, 0, 0
    while trailing == looked_at < rows:
        looked_at = min(2 * looked_at or _ROWS_BACK, rows)
        path = search.newest(rows - looked_at)
        if path is None:
            return 0
        trailing = trailing_silence(model.phone(path[0]), silence_phones)
    return trailing


def trailing_silence(phones: npt.ArrayLike, silence_phones: npt.ArrayLike) -> int:
    """Returns the number of phones of silence at the end of a path, phones (rows,)."""
    speech = np.flatnonzero(~np.isin(phones, silence_phones))
    return len(np.asarray(phones)) - (int(speech[-1]) + 1 if len(speech) else 0)
